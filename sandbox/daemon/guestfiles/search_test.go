package guestfiles_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

var sources = map[string]string{
	"src/a.py": "import os\nprint('Hello')\r\nhello()\n", "src/b.js": "hello\nhello",
	"src/deep/er/c.py": "say hello", "src/node_modules/d.py": "hello\n", "src/bin": "hello\x00",
	"src/long": strings.Repeat("é", 40) + "hello\n",
}

func selection(change ...func(*daemon.Selection)) daemon.Selection {
	s := daemon.Selection{Path: "/src", Recursive: true}
	for _, each := range change {
		each(&s)
	}
	return s
}

func including(globs ...string) daemon.Selection {
	return selection(func(s *daemon.Selection) { s.Include = globs })
}

func TestTree_Grep(t *testing.T) {
	a := daemon.GrepMatch{Path: "/src/a.py", Line: 3, Content: "hello()"}
	b1, b2 := daemon.GrepMatch{Path: "/src/b.js", Line: 1, Content: "hello"}, daemon.GrepMatch{Path: "/src/b.js", Line: 2, Content: "hello"}
	c := daemon.GrepMatch{Path: "/src/deep/er/c.py", Line: 1, Content: "say hello"}
	d := daemon.GrepMatch{Path: "/src/node_modules/d.py", Line: 1, Content: "hello"}
	long := daemon.GrepMatch{Path: "/src/long", Line: 1, Content: strings.Repeat("é", 10)}
	all := []daemon.GrepMatch{a, b1, b2, c, long, d}
	cases := map[string]struct {
		spec daemon.GrepSpec
		want daemon.GrepResult
	}{
		"all text files, in order, long lines cut at a character": {daemon.GrepSpec{Selection: selection(), Pattern: "hello"}, daemon.GrepResult{Matches: all}},
		"a base name at any depth":                                {daemon.GrepSpec{Selection: including("*.py"), Pattern: "hello"}, daemon.GrepResult{Matches: []daemon.GrepMatch{a, c, d}}},
		"any depth by two stars":                                  {daemon.GrepSpec{Selection: including("**/c.*"), Pattern: "hello"}, daemon.GrepResult{Matches: []daemon.GrepMatch{c}}},
		"one level by a path":                                     {daemon.GrepSpec{Selection: including("deep/*/c.py"), Pattern: "hello"}, daemon.GrepResult{Matches: []daemon.GrepMatch{c}}},
		"a choice and a set":                                      {daemon.GrepSpec{Selection: including("[!x].{py,js}"), Pattern: "^hello$"}, daemon.GrepResult{Matches: []daemon.GrepMatch{b1, b2, d}}},
		"a folder left out": {daemon.GrepSpec{Selection: selection(func(s *daemon.Selection) {
			s.Include, s.Exclude = []string{"*.py"}, []string{"node_modules"}
		}), Pattern: "hello"}, daemon.GrepResult{Matches: []daemon.GrepMatch{a, c}}},
		"a pattern without its case, before the line's end": {daemon.GrepSpec{Selection: including("a.py"), Pattern: `^PRINT.*\)$`, IgnoreCase: true},
			daemon.GrepResult{Matches: []daemon.GrepMatch{{Path: "/src/a.py", Line: 2, Content: "print('Hello')"}}}},
		"as many as asked for": {daemon.GrepSpec{Selection: selection(), Pattern: "hello", MaxMatches: 2}, daemon.GrepResult{Matches: []daemon.GrepMatch{a, b1}, Truncated: true}},
		"exactly all":          {daemon.GrepSpec{Selection: including("b.js"), Pattern: "hello", MaxMatches: 2}, daemon.GrepResult{Matches: []daemon.GrepMatch{b1, b2}}},
		"one file, whatever the globs say": {daemon.GrepSpec{Selection: daemon.Selection{Path: "/src/b.js", Include: []string{"x"}}, Pattern: "hello", MaxMatches: 1},
			daemon.GrepResult{Matches: []daemon.GrepMatch{b1}, Truncated: true}},
		"a link to the folder": {daemon.GrepSpec{Selection: daemon.Selection{Path: "/to-src", Recursive: true, Include: []string{"b.js"}}, Pattern: "hello", MaxMatches: 1},
			daemon.GrepResult{Matches: []daemon.GrepMatch{{Path: "/to-src/b.js", Line: 1, Content: "hello"}}, Truncated: true}},
		"nothing": {daemon.GrepSpec{Selection: selection(), Pattern: "goodbye|secret"}, daemon.GrepResult{}},
	}
	w := newWorld(t, sources)
	w.link("to-src", "src")
	w.must(os.Symlink(w.outside, filepath.Join(w.folder, "src/out")))
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.spec.MaxMatches == 0 {
				tc.spec.MaxMatches = 100
			}
			tc.spec.MaxLineBytes = 21
			got, err := w.tree.Grep(background, tc.spec)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTree_Grep_failure(t *testing.T) {
	w := newWorld(t, sources)
	grep := func(s daemon.Selection, pattern string) error {
		_, err := w.tree.Grep(background, daemon.GrepSpec{Selection: s, Pattern: pattern, MaxMatches: 1})
		return err
	}
	var pattern *daemon.PatternError
	if err := grep(selection(), "(a"); !errors.As(err, &pattern) {
		t.Errorf("a bad pattern: %v", err)
	}
	wants(t, grep(daemon.Selection{Path: "/src"}, "a"), errArgument)
	wants(t, grep(including("[z-a]"), "a"), errArgument)
	wants(t, grep(daemon.Selection{Path: "/none", Recursive: true}, "a"), daemon.ErrFileMissing)
	ctx, cancel := context.WithCancel(background)
	cancel()
	_, err := w.tree.Grep(ctx, daemon.GrepSpec{Selection: selection(), Pattern: "a", MaxMatches: 1})
	wants(t, err, context.Canceled)
}

func TestTree_Grep_bounds_its_result(t *testing.T) {
	w := newWorld(t, map[string]string{"big": strings.Repeat(strings.Repeat("x", 99)+"\n", 200_000)})
	got, err := w.tree.Grep(background, daemon.GrepSpec{
		Selection: daemon.Selection{Path: "/big"}, Pattern: "x", MaxMatches: 1 << 30, MaxLineBytes: 1 << 30,
	})
	if size := len(got.Matches) * 99; err != nil || !got.Truncated || size > 8<<20 || size < 4<<20 {
		t.Errorf("%d bytes of matches, truncated %t, error %v", size, got.Truncated, err)
	}
}

func TestTree_Sed(t *testing.T) {
	cases := map[string]struct {
		spec    daemon.SedSpec
		want    daemon.SedResult
		content map[string]string
	}{
		"every match of every line, with groups": {
			daemon.SedSpec{Selection: including("b.js"), Pattern: "(h)(ello)", Replacement: "$2${1}$$", Regex: true},
			daemon.SedResult{Files: []daemon.SedFile{{Path: "/src/b.js", Replacements: 2}}, Total: 2},
			map[string]string{"src/b.js": "elloh$\nelloh$"},
		},
		"the first of each line": {
			daemon.SedSpec{Selection: including("b.js"), Pattern: "l", Replacement: "L", Regex: true, FirstOnly: true},
			daemon.SedResult{Files: []daemon.SedFile{{Path: "/src/b.js", Replacements: 2}}, Total: 2},
			map[string]string{"src/b.js": "heLlo\nheLlo"},
		},
		"literally, without the case, line ends kept": {
			daemon.SedSpec{Selection: including("a.py"), Pattern: "HELLO')", Replacement: "$1", IgnoreCase: true},
			daemon.SedResult{Files: []daemon.SedFile{{Path: "/src/a.py", Replacements: 1}}, Total: 1},
			map[string]string{"src/a.py": "import os\nprint('$1\r\nhello()\n"},
		},
		"in a walk only what changes has a row": {
			daemon.SedSpec{Selection: selection(), Pattern: "say", Replacement: "", Regex: true},
			daemon.SedResult{Files: []daemon.SedFile{{Path: "/src/deep/er/c.py", Replacements: 1}}, Total: 1},
			map[string]string{"src/deep/er/c.py": " hello", "src/bin": "hello\x00"},
		},
		"named files each have one": {
			daemon.SedSpec{Files: []string{"/src/b.js", "/src/none", "/src", "/to-c", "/src/out", "/src/bin"}, Pattern: "say ", Replacement: "", Regex: true},
			daemon.SedResult{Files: []daemon.SedFile{
				{Path: "/src/b.js"}, {Path: "/src/none", Error: "no such file or directory"},
				{Path: "/src", Error: "path is a directory and recursive is false: /src"},
				{Path: "/to-c", Replacements: 1}, {Path: "/src/out", Error: "no such file or directory"},
				{Path: "/src/bin", Error: "binary file"},
			}, Total: 1},
			map[string]string{"src/deep/er/c.py": "hello", "to-c": "hello"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, sources)
			w.link("to-c", "src/deep/er/c.py")
			w.must(os.Symlink(w.outside, filepath.Join(w.folder, "src/out")))
			w.must(os.Chmod(filepath.Join(w.folder, "src/b.js"), 0o751))
			before := w.all()
			got, err := w.tree.Sed(background, tc.spec)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			for path, want := range tc.content {
				if diff := cmp.Diff(want, w.content(path)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", path, diff)
				}
			}
			if diff := cmp.Diff(before, w.all()); diff != "" || w.mode("src/b.js") != 0o751 {
				t.Errorf("mode %v, files (-before +after):\n%s", w.mode("src/b.js"), diff)
			}
			w.untouched()
		})
	}
}

func TestTree_Sed_failure(t *testing.T) {
	w := newWorld(t, sources)
	_, err := w.tree.Sed(background, daemon.SedSpec{Selection: selection(), Replacement: "x"})
	wants(t, err, errArgument)
	var pattern *daemon.PatternError
	if _, err := w.tree.Sed(background, daemon.SedSpec{Selection: selection(), Pattern: "[", Regex: true}); !errors.As(err, &pattern) {
		t.Errorf("a bad pattern: %v", err)
	}
	w.put("long", "short\n"+strings.Repeat("x", 17<<20))
	got, err := w.tree.Sed(background, daemon.SedSpec{Files: []string{"/long"}, Pattern: "short", Replacement: "s", Regex: true})
	if err != nil || len(got.Files) != 1 || got.Files[0].Error != "a line is too long" || !strings.HasPrefix(w.content("long"), "short\n") {
		t.Errorf("a file with a line too long: %v, %v", got, err)
	}
}
