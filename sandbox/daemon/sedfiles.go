package daemon

import (
	"context"
	"errors"
)

// sedRequest is that of sandbox::fs::sed (contracts/iii-sandbox.md §4). Exactly
// one of Files and Path is given.
type sedRequest struct {
	SandboxID   string   `json:"sandbox_id"`
	Files       []string `json:"files,omitempty" jsonschema_description:"Absolute paths of files in the guest."`
	Path        *string  `json:"path,omitempty" jsonschema_description:"Absolute path of a file or folder in the guest."`
	Recursive   *bool    `json:"recursive,omitempty" jsonschema_description:"True when absent; a folder needs it."`
	IncludeGlob []string `json:"include_glob,omitempty" jsonschema_description:"Only files that match one of these."`
	ExcludeGlob []string `json:"exclude_glob,omitempty" jsonschema_description:"No files and folders that match one of these."`
	Pattern     string   `json:"pattern"`
	Replacement string   `json:"replacement" jsonschema_description:"With regex, $1 and ${name} stand for groups."`
	Regex       *bool    `json:"regex,omitempty" jsonschema_description:"True when absent; else pattern and replacement are literal."`
	FirstOnly   bool     `json:"first_only,omitempty" jsonschema_description:"Only the first match of each line."`
	IgnoreCase  bool     `json:"ignore_case,omitempty"`
}

type sedFile struct {
	Path         string `json:"path"`
	Replacements int    `json:"replacements"`
	Success      bool   `json:"success"`
	Error        string `json:"error,omitempty"`
}

type sedResponse struct {
	Results           []sedFile `json:"results"`
	TotalReplacements int       `json:"total_replacements"`
}

// sedFiles replaces in lines of files of a guest.
func (d *Daemon) sedFiles(ctx context.Context, req sedRequest) (sedResponse, error) {
	if err := req.check(); err != nil {
		return sedResponse{}, err
	}
	e, err := d.registry.claimFile(req.SandboxID)
	if err != nil {
		return sedResponse{}, err
	}
	result, err := e.machine.Sed(ctx, req.spec())
	if err != nil {
		return sedResponse{}, machineFault(err, orDefault(req.Path, ""))
	}
	response := sedResponse{Results: make([]sedFile, 0, len(result.Files)), TotalReplacements: result.Total}
	for _, row := range result.Files {
		response.Results = append(response.Results, sedFile{
			Path: row.Path, Replacements: row.Replacements, Success: row.Error == "", Error: row.Error,
		})
	}
	return response, nil
}

func (r sedRequest) check() error {
	if (len(r.Files) == 0) == (r.Path == nil) {
		return newFault(codeFileArgument, "give exactly one of files and path")
	}
	failures := []error{checkID(r.SandboxID)}
	for _, file := range append(r.Files, orDefault(r.Path, "/")) {
		failures = append(failures, checkPath(file))
	}
	return errors.Join(failures...)
}

func (r sedRequest) spec() SedSpec {
	return SedSpec{
		Selection: Selection{
			Path: orDefault(r.Path, ""), Recursive: orDefault(r.Recursive, true),
			Include: r.IncludeGlob, Exclude: r.ExcludeGlob,
		},
		Files: r.Files, Pattern: r.Pattern, Replacement: r.Replacement,
		Regex: orDefault(r.Regex, true), FirstOnly: r.FirstOnly, IgnoreCase: r.IgnoreCase,
	}
}
