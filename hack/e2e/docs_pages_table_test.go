package e2e

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseConsole(t *testing.T) {
	for name, tc := range map[string]struct {
		block   string
		want    []command
		wantErr bool
	}{
		"output belongs to the command above it": {
			block: "$ one\nfirst\nsecond\n$ two\n",
			want:  []command{{line: "one", shown: []string{"first", "second"}}, {line: "two"}},
		},
		"a backslash continues a command": {
			block: "$ one \\\n    more\nsaid\n",
			want:  []command{{line: "one \\\n    more", shown: []string{"said"}}},
		},
		"^C ends a program that stays": {
			block: "$ serve\nready\n^C\n",
			want:  []command{{line: "serve", shown: []string{"ready"}, interrupted: true}},
		},
		"output without a command is refused": {block: "said\n", wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseConsole(tc.block)
			if (err != nil) != tc.wantErr {
				t.Fatalf("the error is %v", err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(command{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCommand_missingIn(t *testing.T) {
	for name, tc := range map[string]struct {
		shown       string
		output      string
		wantMissing bool
	}{
		"the same line":                 {shown: "ready", output: "a\nready\nb"},
		"other distances of columns":    {shown: "NAME  READY", output: "NAME      READY\n"},
		"another word":                  {shown: "shop  True", output: "shop  False", wantMissing: true},
		"a word of another line":        {shown: "shop  True", output: "shop\nTrue", wantMissing: true},
		"more on the line":              {shown: "shop", output: "shop True", wantMissing: true},
		"another number":                {shown: "run 1", output: "run 2", wantMissing: true},
		"another age":                   {shown: "shop  2s", output: "shop  1m30s"},
		"no age":                        {shown: "shop  2s", output: "shop", wantMissing: true},
		"what the dots stand for":       {shown: "at ws://host:…", output: "at ws://host:80"},
		"what surrounds dots is wanted": {shown: "at ws://host:…", output: "at http://host:80", wantMissing: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := command{shown: []string{tc.shown}}
			if missing := c.missingIn(tc.output); (len(missing) > 0) != tc.wantMissing {
				t.Errorf("missing is %q", missing)
			}
		})
	}
}

func TestCommand_makeTarget(t *testing.T) {
	for line, want := range map[string]string{
		"make demo":               "demo",
		"make deploy IMG=<image>": "deploy",
		"make bench   # measures": "bench",
		"make help":               "",
		"make demo && rm -r out":  "",
		"kubectl get sandbox":     "",
	} {
		if got := (command{line: line}).makeTarget(); got != want {
			t.Errorf("%s starts %q instead of %q", line, got, want)
		}
	}
}
