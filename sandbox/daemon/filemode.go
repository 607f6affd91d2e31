package daemon

import (
	"fmt"
	"path"
	"strconv"
)

const (
	defaultFileMode = "0644"
	modeBits        = 0o7777
)

// parseMode reads a mode in octal (contracts/iii-sandbox.md §4, S210).
func parseMode(text string) (uint32, error) {
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode > modeBits {
		return 0, newFault(codeFileArgument, "mode %q is not an octal mode of at most 7777", text)
	}
	return uint32(mode), nil
}

// formatMode is the four-digit form that replies carry.
func formatMode(mode uint32) string { return fmt.Sprintf("%04o", mode&modeBits) }

// checkPath refuses relative paths, which would resolve against a directory
// that no caller knows.
func checkPath(file string) error {
	if !path.IsAbs(file) {
		return newFault(codeFileArgument, "path %q is not absolute", file)
	}
	return nil
}
