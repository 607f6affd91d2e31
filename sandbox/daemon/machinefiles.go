package daemon

import "context"

// Files is the half of a Machine that works on the guest's files beyond reading
// and writing one (contracts/iii-sandbox.md §4). Paths are absolute in the
// guest; no link and no race leads out of it. Errors are those of this package.
type Files interface {
	// List describes what a folder holds, in no particular order, without "."
	// and "..". A link to a folder is of the wrong type.
	List(ctx context.Context, path string) ([]FileInfo, error)
	// MakeDir makes a folder and says whether it did: with Parents one that
	// exists already is no error.
	MakeDir(ctx context.Context, spec MakeDirSpec) (bool, error)
	// Remove deletes a path. It deletes links, not what they lead to.
	Remove(ctx context.Context, spec RemoveSpec) error
	// ChangeMode sets mode and owner and returns how many paths it changed.
	ChangeMode(ctx context.Context, spec ModeSpec) (int, error)
	// Move renames a path, across the guest's file systems too.
	Move(ctx context.Context, spec MoveSpec) error
	// Grep finds lines.
	Grep(ctx context.Context, spec GrepSpec) (GrepResult, error)
	// Sed replaces in lines. A file that fails is told of in its row only.
	Sed(ctx context.Context, spec SedSpec) (SedResult, error)
}

// MakeDirSpec is one folder to make.
type MakeDirSpec struct {
	Path    string
	Mode    uint32
	Parents bool
}

// RemoveSpec is one path to delete.
type RemoveSpec struct {
	Path string
	// Recursive deletes a folder with all it holds.
	Recursive bool
}

// ModeSpec is a change of mode and owner. It follows a link that is the path
// itself, and none below it.
type ModeSpec struct {
	Path string
	Mode uint32
	// UID and GID stay as they are when nil.
	UID, GID  *uint32
	Recursive bool
}

// MoveSpec is one path to rename.
type MoveSpec struct {
	From, To string
	// Overwrite replaces what is at To.
	Overwrite bool
}

// Selection says which files a Grep or Sed looks at. Links below Path are not
// followed. Globs without a slash match base names, others the path below Path;
// they do not concern a Path that is a file.
type Selection struct {
	Path      string
	Recursive bool
	Include   []string
	Exclude   []string
}

// GrepSpec is a search. Pattern is a regular expression of package regexp.
type GrepSpec struct {
	Selection
	Pattern    string
	IgnoreCase bool
	// MaxMatches bounds the result; what is over sets Truncated.
	MaxMatches int
	// MaxLineBytes bounds the content of one match.
	MaxLineBytes int
}

// GrepResult is what a Grep found.
type GrepResult struct {
	Matches   []GrepMatch
	Truncated bool
}

// GrepMatch is one line, counted from 1, without its end.
type GrepMatch struct {
	Path    string
	Line    int
	Content string
}

// SedSpec is a replacement in the named Files, or in those of the Selection
// when there are none.
type SedSpec struct {
	Selection
	Files       []string
	Pattern     string
	Replacement string
	// Regex says what Pattern is; else it is literal, as Replacement then is.
	Regex      bool
	FirstOnly  bool
	IgnoreCase bool
}

// SedResult has a row for every named file, or for each of a selection in which
// something was replaced or failed.
type SedResult struct {
	Files []SedFile
	Total int
}

// SedFile is what became of one file; it is unchanged where Error is not empty.
type SedFile struct {
	Path         string
	Replacements int
	Error        string
}
