package daemon

import "context"

const (
	defaultMaxMatches   = 10_000
	defaultMaxLineBytes = 4096
)

// grepRequest is that of sandbox::fs::grep (contracts/iii-sandbox.md §4).
type grepRequest struct {
	SandboxID    string   `json:"sandbox_id"`
	Path         string   `json:"path" jsonschema_description:"Absolute path of a file or folder in the guest."`
	Pattern      string   `json:"pattern" jsonschema_description:"Regular expression without look-around and back-references."`
	Recursive    *bool    `json:"recursive,omitempty" jsonschema_description:"True when absent; a folder needs it."`
	IgnoreCase   bool     `json:"ignore_case,omitempty"`
	IncludeGlob  []string `json:"include_glob,omitempty" jsonschema_description:"Only files that match one of these."`
	ExcludeGlob  []string `json:"exclude_glob,omitempty" jsonschema_description:"No files and folders that match one of these."`
	MaxMatches   *uint32  `json:"max_matches,omitempty" jsonschema_description:"10000 when absent."`
	MaxLineBytes *uint32  `json:"max_line_bytes,omitempty" jsonschema_description:"4096 when absent; longer lines are cut."`
}

type grepMatch struct {
	Path    string `json:"path"`
	Line    int    `json:"line" jsonschema_description:"Counted from 1."`
	Content string `json:"content"`
}

type grepResponse struct {
	Matches   []grepMatch `json:"matches"`
	Truncated bool        `json:"truncated" jsonschema_description:"There were more matches than fit."`
}

// grepFiles finds lines in files of a guest. Binary files are left out.
func (d *Daemon) grepFiles(ctx context.Context, req grepRequest) (grepResponse, error) {
	e, err := d.claimPath(req.SandboxID, req.Path)
	if err != nil {
		return grepResponse{}, err
	}
	result, err := e.machine.Grep(ctx, GrepSpec{
		Selection: Selection{
			Path: req.Path, Recursive: orDefault(req.Recursive, true),
			Include: req.IncludeGlob, Exclude: req.ExcludeGlob,
		},
		Pattern: req.Pattern, IgnoreCase: req.IgnoreCase,
		MaxMatches:   int(orDefault(req.MaxMatches, defaultMaxMatches)),
		MaxLineBytes: int(orDefault(req.MaxLineBytes, defaultMaxLineBytes)),
	})
	if err != nil {
		return grepResponse{}, machineFault(err, req.Path)
	}
	response := grepResponse{Matches: make([]grepMatch, 0, len(result.Matches)), Truncated: result.Truncated}
	for _, match := range result.Matches {
		response.Matches = append(response.Matches, grepMatch(match))
	}
	return response, nil
}
