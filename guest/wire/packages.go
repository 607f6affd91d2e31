package wire

import (
	"fmt"
	"regexp"
	"sync"
)

const (
	// MaxPackages bounds the list of one InstallRequest.
	MaxPackages = 64
	// MaxRequirementBytes bounds one entry of it.
	MaxRequirementBytes = 256
)

// InstallRequest installs packages for every program and handler of the guest:
// npm packages where Node programs anywhere in the guest find them, Python ones
// into a folder that is searched after the interpreter's own. A list that is
// installed already costs nothing. It needs a network, or a registry within
// reach; npm and pip obey the guest's environment and configuration. The
// outcome is a Reply's Run.
type InstallRequest struct {
	Language Language `json:"language"`
	// packages: requirements that CheckRequirement accepts, 1 to MaxPackages.
	Packages []string `json:"packages"`
	// moduleFolder: absolute path of a node_modules folder in which the packages
	// are linked too, as InitRequest's. Empty: none.
	ModuleFolder string `json:"moduleFolder,omitempty"`
	// timeoutMs: wall-clock limit, 1 or more.
	TimeoutMs int64 `json:"timeoutMs"`
	// env: additional environment variables, such as PIP_INDEX_URL.
	Env map[string]string `json:"env,omitempty"`
	// token: a name by which CancelRequest ends it; see RunRequest.
	Token string `json:"token,omitempty"`
}

// SetupRequest runs one command line with /bin/sh, in the folder / unless it
// names another. The outcome is a Reply's Run; what the command leaves running
// in the background stays.
type SetupRequest struct {
	Command string `json:"command"`
	// folder: absolute path of the working directory; made if missing.
	Folder string `json:"folder,omitempty"`
	// timeoutMs: wall-clock limit, 1 or more.
	TimeoutMs int64             `json:"timeoutMs"`
	Env       map[string]string `json:"env,omitempty"`
	// token: a name by which CancelRequest ends it; see RunRequest.
	Token string `json:"token,omitempty"`
}

// The patterns are compiled when they are used: the agent starts for each call,
// and installs rarely.

// A package's name, then what npm allows of a version range or tag.
var npmRequirement = compiled(
	`^(?:@[a-z0-9~][a-z0-9._~-]*/)?[a-z0-9~][a-z0-9._~-]*(?:@[A-Za-z0-9^~<>=|*._+ -]{1,128})?$`)

// PEP 508 without URLs and markers: a name, extras, version specifiers.
var pipRequirement = compiled(
	`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?` +
		`(?: ?\[ ?[A-Za-z0-9._-]+(?: ?, ?[A-Za-z0-9._-]+)* ?\])?` +
		`(?: ?` + pipSpecifier + `(?: ?, ?` + pipSpecifier + `)*)?$`)

func compiled(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

const pipSpecifier = `(?:===|==|~=|!=|<=|>=|<|>) ?[A-Za-z0-9][A-Za-z0-9._*+!-]*`

// CheckRequirement says what is wrong with a requirement. It accepts npm's
// name@range and pip's PEP 508 name with extras and version specifiers, and
// nothing that the installers would take for an option, a path or an address:
// those would run code from where nobody looked.
func CheckRequirement(language Language, requirement string) error {
	form := map[Language]struct {
		pattern func() *regexp.Regexp
		name    string
	}{
		Node:   {npmRequirement, "an npm package: name or name@range"},
		Python: {pipRequirement, "a Python package: name, name[extra] or name==version"},
	}[language]
	switch {
	case form.pattern == nil:
		return fmt.Errorf("language must be %q or %q", Node, Python)
	case len(requirement) > MaxRequirementBytes:
		return fmt.Errorf("%d bytes are too long, %d are allowed", len(requirement), MaxRequirementBytes)
	case !form.pattern().MatchString(requirement):
		return fmt.Errorf("%.64q is not %s", requirement, form.name)
	}
	return nil
}
