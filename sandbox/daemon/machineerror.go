package daemon

import (
	"context"
	"errors"
	"path"
)

// machineFault maps an error of a Machine to its S-code. The path is that of a
// file operation.
func machineFault(err error, file string) *fault {
	var argument *ArgumentError
	var pattern *PatternError
	switch {
	case errors.As(err, &argument):
		return newFault(codeFileArgument, "%s", argument.Reason)
	case errors.As(err, &pattern):
		return newFault(codePattern, "invalid regex pattern: %s", pattern.Reason)
	case errors.Is(err, ErrUploadStalled):
		return newFault(codeChannel, "fs channel aborted: %v", ErrUploadStalled)
	case errors.Is(err, ErrMachineGone):
		return goneFault()
	case errors.Is(err, context.Canceled):
		return newFault(codeBoot, "VM boot failed: the daemon is shutting down")
	case errors.Is(err, ErrParentMissing):
		return parentMissing(file)
	case errors.Is(err, ErrFileMissing):
		return newFault(codeFileMissing, "file not found: %s", file)
	case errors.Is(err, ErrNotEmpty):
		return newFault(codeNotEmpty, "directory not empty: %s", file)
	case errors.Is(err, ErrExists):
		return newFault(codeFileExists, "already exists: %s", file)
	case errors.Is(err, ErrWrongType):
		return newFault(codeFileType, "not a directory or wrong type: %s", file)
	case errors.Is(err, ErrPermission):
		return newFault(codePermission, "permission denied: %s", file)
	}
	return newFault(codeFileIO, "fs i/o error: %s: %v", file, err)
}

// parentMissing is the one fault with a fix that the caller can merge (§2.3).
func parentMissing(file string) *fault {
	f := folderMissing(path.Dir(file))
	f.fix = map[string]any{"parents": true}
	f.note = "Send the request again with parents: true."
	return f
}

// folderMissing is the fault of the operations without such a fix.
func folderMissing(folder string) *fault {
	f := newFault(codeFileMissing, "parent directory not found: %s", folder)
	f.note = "Make the folder first, with sandbox::fs::mkdir and parents: true."
	return f
}

func goneFault() *fault {
	return newFault(codeBoot, "VM boot failed: the guest has ended")
}
