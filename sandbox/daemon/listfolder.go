package daemon

import "context"

type folderResponse struct {
	Entries []fileEntry `json:"entries"`
}

// listFolder answers sandbox::fs::ls (contracts/iii-sandbox.md §4).
func (d *Daemon) listFolder(ctx context.Context, req fileRequest) (folderResponse, error) {
	e, err := d.claimPath(req.SandboxID, req.Path)
	if err != nil {
		return folderResponse{}, err
	}
	infos, err := e.machine.List(ctx, req.Path)
	if err != nil {
		return folderResponse{}, machineFault(err, req.Path)
	}
	response := folderResponse{Entries: make([]fileEntry, 0, len(infos))}
	for _, info := range infos {
		response.Entries = append(response.Entries, entryOf(info))
	}
	return response, nil
}
