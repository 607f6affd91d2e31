package daemon

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommandLine(t *testing.T) {
	for name, tc := range map[string]struct {
		cmd        string
		args, argv []string
		want       []string
		wantErr    string
	}{
		"a bare program":                        {cmd: "ls", want: []string{"ls"}},
		"a program with arguments":              {cmd: "ls", args: []string{"-l", "a b"}, want: []string{"ls", "-l", "a b"}},
		"a whole vector":                        {argv: []string{"my prog", "$HOME"}, want: []string{"my prog", "$HOME"}},
		"a command line is split":               {cmd: "echo one  two", want: []string{"echo", "one", "two"}},
		"quotes keep white space":               {cmd: `echo 'a b' "c d"`, want: []string{"echo", "a b", "c d"}},
		"no shell expands anything":             {cmd: "echo $HOME | cat *", want: []string{"echo", "$HOME", "|", "cat", "*"}},
		"a tab is white space too":              {cmd: "echo\tone", want: []string{"echo", "one"}},
		"vector and cmd exclude each other":     {cmd: "ls", argv: []string{"ls"}, wantErr: "argv excludes"},
		"vector and args exclude each other":    {args: []string{"a"}, argv: []string{"ls"}, wantErr: "argv excludes"},
		"a spaced cmd with args is ambiguous":   {cmd: "ls -l", args: []string{"a"}, wantErr: "use argv"},
		"an open quote is refused":              {cmd: "echo 'a", wantErr: "cannot be split"},
		"nothing is refused":                    {wantErr: "empty"},
		"white space alone is refused":          {cmd: "  ", wantErr: "empty"},
		"a vector that starts empty is refused": {argv: []string{"", "a"}, wantErr: "empty"},
		"a quoted empty program is refused":     {cmd: "'' a", wantErr: "empty"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := commandLine(tc.cmd, tc.args, tc.argv)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("vector (-want +got):\n%s", diff)
			}
			checkFault(t, err, codeInvalidRequest, tc.wantErr)
		})
	}
}

// checkFault wants no error for an empty text, and otherwise a fault of the code
// whose message holds the text.
func checkFault(t *testing.T, err error, code, text string) {
	t.Helper()
	if text == "" {
		if err != nil {
			t.Errorf("unexpected error: %v", err)
		}
		return
	}
	var refused *fault
	if !errors.As(err, &refused) {
		t.Fatalf("error is %v, want a fault", err)
	}
	if refused.code != code || !strings.Contains(refused.message, text) {
		t.Errorf("fault is %v, want %s with %q", refused, code, text)
	}
}
