package daemon

import (
	"context"
	"errors"
)

// fileRequest is that of sandbox::fs::stat, sandbox::fs::ls and
// sandbox::fs::read.
type fileRequest struct {
	SandboxID string `json:"sandbox_id"`
	Path      string `json:"path" jsonschema_description:"Absolute path in the guest."`
}

// fileEntry describes one path (contracts/iii-sandbox.md §4).
type fileEntry struct {
	Name  string `json:"name"`
	IsDir bool   `json:"is_dir"`
	Size  int64  `json:"size"`
	Mode  string `json:"mode" jsonschema_description:"Four octal digits."`
	// MTime is in Unix seconds.
	MTime     int64 `json:"mtime" jsonschema_description:"Unix seconds."`
	IsSymlink bool  `json:"is_symlink"`
}

// statFile describes a path without following a final link. As any file call it
// renews the sandbox's idle time.
func (d *Daemon) statFile(ctx context.Context, req fileRequest) (fileEntry, error) {
	e, err := d.claimPath(req.SandboxID, req.Path)
	if err != nil {
		return fileEntry{}, err
	}
	info, err := e.machine.Stat(ctx, req.Path)
	if err != nil {
		return fileEntry{}, machineFault(err, req.Path)
	}
	return entryOf(info), nil
}

func entryOf(info FileInfo) fileEntry {
	return fileEntry{
		Name: info.Name, IsDir: info.IsDir, IsSymlink: info.IsSymlink, Size: info.Size,
		Mode: formatMode(info.Mode), MTime: info.ModTime.Unix(),
	}
}

// claimPath admits a file call.
func (d *Daemon) claimPath(id, file string) (*entry, error) {
	if err := errors.Join(checkID(id), checkPath(file)); err != nil {
		return nil, err
	}
	return d.registry.claimFile(id)
}
