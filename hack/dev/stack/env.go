package stack

import (
	"fmt"
	"path/filepath"
	"strings"
)

func (s *Stack) envPath() string { return filepath.Join(s.options.Dir, "env") }

// Env returns what a shell needs to talk to the stack, as NAME=value, in a fixed
// order.
func (s *Stack) Env() [][2]string {
	return [][2]string{
		{"KUBECONFIG", s.Kubeconfig},
		{"III_URL", s.BusURL},
		{"III_HTTP_URL", s.HTTPURL},
	}
}

// writeEnv writes the env file, meant to be sourced.
func (s *Stack) writeEnv() error {
	var text strings.Builder
	for _, variable := range s.Env() {
		fmt.Fprintf(&text, "export %s=%s\n", variable[0], quote(variable[1]))
	}
	fmt.Fprintf(&text, "export PATH=%s:\"$PATH\"\n", quote(s.options.Assets))
	return writeFile(s.envPath(), []byte(text.String()))
}

// quote makes a value safe for a POSIX shell.
func quote(value string) string { return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'" }
