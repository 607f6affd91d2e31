package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

func TestCheckFiles(t *testing.T) {
	many := make([]wire.File, wire.MaxFiles+1)
	for i := range many {
		many[i].Path = fmt.Sprint(i)
	}
	half := make([]byte, wire.MaxFileBytes/2+1)
	tests := map[string]struct {
		files []wire.File
		want  string // a part of the error; empty: accepted
	}{
		"as many as are allowed":    {many[1:], ""},
		"one more":                  {many, "257 are too many, 256 are allowed"},
		"as large as is allowed":    {[]wire.File{{Path: "a", Content: half[1:]}, {Path: "b", Content: half[1:]}}, ""},
		"larger together":           {[]wire.File{{Path: "a", Content: half}, {Path: "b", Content: half[1:]}}, "8388609 bytes are too many, 8388608 are allowed together"},
		"below other folders":       {[]wire.File{{Path: "a/b/../c", Mode: "755"}, {Path: "/x/y", Mode: "0400"}}, ""},
		"no path":                   {[]wire.File{{}}, `file "": the path is empty`},
		"a path that leaves":        {[]wire.File{{Path: "a/../../x"}}, `file "a/../../x": the path leaves the program's folder`},
		"a path of a folder":        {[]wire.File{{Path: "a/"}}, "the path names a folder"},
		"the root":                  {[]wire.File{{Path: "/"}}, "the path names a folder"},
		"the folder itself":         {[]wire.File{{Path: "."}}, "the path names a folder"},
		"a NUL character":           {[]wire.File{{Path: "a\x00b"}}, "NUL"},
		"words as mode":             {[]wire.File{{Path: "a", Mode: "rwx"}}, `mode "rwx" is not octal permission bits`},
		"a mode of more than files": {[]wire.File{{Path: "a", Mode: "4755"}}, `mode "4755" is not octal permission bits`},
		"a mode that is not octal":  {[]wire.File{{Path: "a", Mode: "0899"}}, "not octal"},
		"one path twice":            {[]wire.File{{Path: "a/b"}, {Path: "a//b"}}, `file "a//b" is given twice`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := checkFiles(tc.files)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("want %q, got %v", tc.want, err)
			}
		})
	}
}

func TestRun_files(t *testing.T) {
	guest := newGuest(t)
	root := t.TempDir()
	given := []wire.File{
		{Path: "deep/er/data.txt", Content: []byte("relative")},
		{Path: filepath.Join(root, "new/folder/tool.sh"), Content: []byte("#!/bin/sh\necho absolute\n"), Mode: "0755"},
		{Path: "secret", Content: []byte("x"), Mode: "0400"},
	}
	source := fmt.Sprintf(`import os, stat, subprocess
result = [open('deep/er/data.txt').read(), subprocess.run([%q], capture_output=True, text=True).stdout, oct(stat.S_IMODE(os.stat('secret').st_mode))]
`, given[1].Path)
	const want = `["relative","absolute\n","0o400"]`
	inFolder := func(keep bool) func(*wire.RunRequest) {
		return func(r *wire.RunRequest) {
			r.Files, r.Folder, r.KeepFiles = given, filepath.Join(root, "work"), keep
		}
	}
	if reply := guest.run(wire.Python, source, inFolder(false)); string(reply.Result) != want {
		t.Errorf("got %s %s", reply.Result, reply.Run.Stderr)
	}
	if left := namesIn(t, root); left != "work" {
		t.Errorf("left: %s", left)
	}
	if left := namesIn(t, filepath.Join(root, "work")); left != "" {
		t.Errorf("left in the folder: %s", left)
	}
	if reply := guest.run(wire.Python, source, inFolder(true)); string(reply.Result) != want {
		t.Errorf("got %s %s", reply.Result, reply.Run.Stderr)
	}
	if left := namesIn(t, root) + " " + namesIn(t, filepath.Join(root, "work")); left != "new work deep secret" {
		t.Errorf("kept: %s", left)
	}
}

// What the program itself puts into a folder made for a file stays.
func TestRun_filesLeaveTheProgramsOwn(t *testing.T) {
	guest := newGuest(t)
	root := t.TempDir()
	guest.run(wire.Python, fmt.Sprintf("open(%q, 'w')\n", filepath.Join(root, "made/by/own")), func(r *wire.RunRequest) {
		r.Files = []wire.File{{Path: filepath.Join(root, "made/by/given")}}
	})
	if left := namesIn(t, filepath.Join(root, "made/by")); left != "own" {
		t.Errorf("left: %s", left)
	}
}

func namesIn(t *testing.T, folder string) string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return strings.Join(names, " ")
}

// A file that cannot be written ends the run before it starts.
func TestRun_fileThatCannotBeWritten(t *testing.T) {
	guest := newGuest(t)
	reply := guest.exec(wire.CommandRun, wire.RunRequest{Language: wire.Node, Source: "1", TimeoutMs: 1000,
		Files: []wire.File{{Path: "a"}, {Path: "a/b"}}})
	if reply.Error == nil || reply.Error.Kind != wire.BadRequest || !strings.Contains(reply.Error.Message, `file "a/b"`) {
		t.Errorf("got %+v", reply)
	}
	if left := namesIn(t, filepath.Join(guest.home, "runs")); left != "" {
		t.Errorf("left: %s", left)
	}
}
