package shim

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// Bounds of the API, which are checked here to be told in the caller's words.
const (
	maxListed         = 64
	maxArgBytes       = 4096
	maxEnvNameBytes   = 128
	maxEnvValueBytes  = 8192
	maxPathBytes      = 512
	maxFileBytes      = 32 << 10
	maxPackageBytes   = 256
	maxStdinBytes     = 128 << 10
	reservedEnvPrefix = "III_"
	// maxInputBytes bounds stdin, args, env and files together as JSON, so that the
	// object stays small enough for the API server's store.
	maxInputBytes = 192 << 10
)

var (
	envName     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	packageName = regexp.MustCompile(`^[A-Za-z0-9@][[:print:]]*$`)
	fileMode    = regexp.MustCompile(`^0[0-7]{3}$`)
)

// surroundings are what a program or function finds beside its code; additions
// to the original.
type surroundings struct {
	env      map[string]string
	files    []v1alpha1.File
	packages []string
}

func decodeSurroundings(f *fields) surroundings {
	return surroundings{env: f.textMap("env"), files: f.files("files"), packages: f.texts("packages")}
}

func (s surroundings) empty() bool { return len(s.env)+len(s.files)+len(s.packages) == 0 }

// check bounds everything; relative paths are for programs, which have a folder.
func (s surroundings) check(relative bool) error {
	if err := checkEnv(s.env); err != nil {
		return err
	}
	if err := checkFiles(s.files, relative); err != nil {
		return err
	}
	return checkPackages(s.packages)
}

func checkEnv(env map[string]string) error {
	if len(env) > maxListed {
		return invalid("env has %d variables; the limit is %d", len(env), maxListed)
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		switch {
		case len(name) > maxEnvNameBytes, !envName.MatchString(name):
			return invalid("env has the name %q; names have letters, digits and underscores, at most %d of them",
				cut(name, maxEnvNameBytes), maxEnvNameBytes)
		case strings.HasPrefix(name, reservedEnvPrefix):
			return invalid("env has the name %q; names that begin with %s belong to this worker", name, reservedEnvPrefix)
		case len(env[name]) > maxEnvValueBytes:
			return invalid("env.%s has %d bytes; the limit is %d", name, len(env[name]), maxEnvValueBytes)
		}
	}
	return nil
}

func checkFiles(files []v1alpha1.File, relative bool) error {
	if len(files) > maxListed {
		return invalid("files has %d entries; the limit is %d", len(files), maxListed)
	}
	seen := map[string]bool{}
	for _, file := range files {
		if err := checkFile(file, relative); err != nil {
			return err
		}
		if seen[file.Path] {
			return invalid("files has the path %q twice", file.Path)
		}
		seen[file.Path] = true
	}
	return nil
}

func checkFile(file v1alpha1.File, relative bool) error {
	switch path := file.Path; {
	case path == "" || len(path) > maxPathBytes:
		return invalid("files has a path of %d bytes; it needs 1 to %d", len(path), maxPathBytes)
	case !relative && !strings.HasPrefix(path, "/"):
		return invalid("files has the path %q; it must be absolute", path)
	case slices.ContainsFunc(strings.Split(strings.TrimPrefix(path, "/"), "/"), isNoSegment):
		return invalid("files has the path %q; it must name a file and have no empty, . or .. segment", path)
	case len(*file.Content) > maxFileBytes:
		return invalid("file %q has %d bytes; the limit is %d", path, len(*file.Content), maxFileBytes)
	case file.Mode != "" && !fileMode.MatchString(file.Mode):
		return invalid("file %q has the mode %q; it must be octal, such as 0755", path, cut(file.Mode, len("0000")))
	}
	return nil
}

func isNoSegment(segment string) bool { return segment == "" || segment == "." || segment == ".." }

func checkPackages(packages []string) error {
	if len(packages) > maxListed {
		return invalid("packages has %d entries; the limit is %d", len(packages), maxListed)
	}
	for _, name := range packages {
		if len(name) > maxPackageBytes || !packageName.MatchString(name) ||
			strings.Contains(name, "://") || strings.Contains(name, " @ ") {
			return invalid("packages has %q; it needs a name with or without a version, such as left-pad@^1.3 or requests>=2, of at most %d bytes",
				cut(name, maxPackageBytes), maxPackageBytes)
		}
	}
	return nil
}

// variables are sorted, so that equal requests make equal objects.
func (s surroundings) variables() []v1alpha1.EnvVar {
	var list []v1alpha1.EnvVar
	for _, name := range slices.Sorted(maps.Keys(s.env)) {
		value := s.env[name]
		list = append(list, v1alpha1.EnvVar{Name: name, Value: &value})
	}
	return list
}

// checkSize bounds what goes into one object.
func checkSize(parts any, names string) error {
	data, err := encode(parts)
	if err != nil {
		return err
	}
	if len(data) > maxInputBytes {
		return invalid("%s have %d bytes as JSON; the limit for all together is %d, so let the code fetch or make what is larger",
			names, len(data), maxInputBytes)
	}
	return nil
}
