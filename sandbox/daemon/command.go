package daemon

import (
	"strings"
	"unicode"

	"github.com/google/shlex"
)

// commandLine turns the three command shapes of contracts/iii-sandbox.md §3.2
// into one vector. No shell is involved in any of them.
func commandLine(cmd string, args, argv []string) ([]string, error) {
	if len(argv) > 0 {
		return wholeVector(cmd, args, argv)
	}
	if strings.TrimSpace(cmd) == "" {
		return nil, invalidRequest("the command is empty; give cmd or argv")
	}
	spaced := strings.ContainsFunc(cmd, unicode.IsSpace)
	if spaced && len(args) > 0 {
		return nil, invalidRequest("cmd holds white space and args are given; use argv")
	}
	if !spaced {
		return append([]string{cmd}, args...), nil
	}
	return split(cmd)
}

func wholeVector(cmd string, args, argv []string) ([]string, error) {
	if cmd != "" || len(args) > 0 {
		return nil, invalidRequest("argv excludes cmd and args")
	}
	if argv[0] == "" {
		return nil, invalidRequest("the command is empty; argv starts with an empty string")
	}
	return argv, nil
}

func split(cmd string) ([]string, error) {
	words, err := shlex.Split(cmd)
	if err != nil {
		return nil, invalidRequest("cmd cannot be split: %v", err)
	}
	if len(words) == 0 || words[0] == "" {
		return nil, invalidRequest("the command is empty")
	}
	return words, nil
}
