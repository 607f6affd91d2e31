package daemon_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/daemontest"
)

// plant writes text files.
func plant(t *testing.T, s *daemontest.Stack, id string, files map[string]string) {
	t.Helper()
	for path, text := range files {
		call(t, s, "sandbox::fs::write", object{"sandbox_id": id, "path": path, "content": text, "parents": true})
	}
}

func TestFiles_answers(t *testing.T) {
	file := object{"name": "a.txt", "is_dir": false, "size": 12.0, "mode": "0644", "mtime": 1.79e9, "is_symlink": false}
	for name, tc := range map[string]struct {
		function string
		request  object
		want     object
	}{
		"a listing":                    {"ls", object{"path": "/job/d"}, object{"entries": []any{file}}},
		"an empty listing":             {"ls", object{"path": "/job/none"}, object{"entries": []any{}}},
		"a new folder":                 {"mkdir", object{"path": "/new"}, object{"created": true}},
		"a folder that is there":       {"mkdir", object{"path": "/job/d", "parents": true}, object{"created": false}},
		"a deep folder":                {"mkdir", object{"path": "/x/y", "parents": true, "mode": "700"}, object{"created": true}},
		"a deleted file":               {"rm", object{"path": "/job/d/a.txt"}, object{"removed": true}},
		"a deleted tree":               {"rm", object{"path": "/job", "recursive": true}, object{"removed": true}},
		"a mode":                       {"chmod", object{"path": "/job/d/a.txt", "mode": "0600"}, object{"updated": 1.0}},
		"modes of a tree":              {"chmod", object{"path": "/job", "mode": "0700", "recursive": true}, object{"updated": 4.0}},
		"a rename":                     {"mv", object{"src": "/job/d/a.txt", "dst": "/b.txt"}, object{"moved": true}},
		"a rename over another":        {"mv", object{"src": "/job/d/a.txt", "dst": "/other", "overwrite": true}, object{"moved": true}},
		"found lines":                  {"grep", object{"path": "/job", "pattern": "ONE", "ignore_case": true}, object{"matches": []any{object{"path": "/job/d/a.txt", "line": 1.0, "content": "one"}}, "truncated": false}},
		"no found lines":               {"grep", object{"path": "/job", "pattern": "four"}, object{"matches": []any{}, "truncated": false}},
		"no more lines than asked for": {"grep", object{"path": "/job", "pattern": "o", "max_matches": 1, "max_line_bytes": 2}, object{"matches": []any{object{"path": "/job/d/a.txt", "line": 1.0, "content": "on"}}, "truncated": true}},
		"a replacement in a folder": {"sed", object{"path": "/job", "pattern": "t(.)o", "replacement": "$1", "include_glob": []string{"*.txt"}},
			object{"results": []any{object{"path": "/job/d/a.txt", "replacements": 1.0, "success": true}}, "total_replacements": 1.0}},
		"replacements in named files": {"sed", object{"files": []string{"/job/d/a.txt", "/no"}, "pattern": "o", "replacement": "", "regex": false, "first_only": true},
			object{"results": []any{
				object{"path": "/job/d/a.txt", "replacements": 2.0, "success": true},
				object{"path": "/no", "replacements": 0.0, "success": false, "error": "no such file or directory"},
			}, "total_replacements": 2.0}},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, &daemontest.Backend{})
			id := create(t, s, nil)
			plant(t, s, id, map[string]string{"/job/d/a.txt": "one\ntwo\n3456", "/other": ""})
			call(t, s, "sandbox::fs::mkdir", object{"sandbox_id": id, "path": "/job/none"})
			got := call(t, s, "sandbox::fs::"+tc.function, mix(tc.request, object{"sandbox_id": id}))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFiles_refusals(t *testing.T) {
	s := start(t, &daemontest.Backend{})
	id := create(t, s, nil)
	plant(t, s, id, map[string]string{"/d/f": "text", "/other": ""})
	for name, tc := range map[string]struct {
		function   string
		request    object
		code, text string
	}{
		"listing nothing":                {"ls", object{"path": "/none"}, "S211", "file not found: /none"},
		"listing a file":                 {"ls", object{"path": "/d/f"}, "S212", "not a directory or wrong type: /d/f"},
		"making a folder in none":        {"mkdir", object{"path": "/none/x"}, "S211", "parent directory not found: /none"},
		"making a folder again":          {"mkdir", object{"path": "/d"}, "S213", "already exists: /d"},
		"making a folder of a bad mode":  {"mkdir", object{"path": "/x", "mode": "9"}, "S210", `mode "9"`},
		"deleting nothing":               {"rm", object{"path": "/none"}, "S211", "file not found: /none"},
		"deleting a folder with a file":  {"rm", object{"path": "/d"}, "S214", "directory not empty: /d"},
		"deleting the root":              {"rm", object{"path": "//d/..", "recursive": true}, "S210", "the root"},
		"changing nothing's mode":        {"chmod", object{"path": "/none", "mode": "0644"}, "S211", "file not found: /none"},
		"changing to a bad mode":         {"chmod", object{"path": "/d", "mode": "rwx"}, "S210", `mode "rwx"`},
		"renaming nothing":               {"mv", object{"src": "/none", "dst": "/x"}, "S211", "file not found: /none"},
		"renaming onto another":          {"mv", object{"src": "/d/f", "dst": "/other"}, "S213", "already exists: /other"},
		"renaming into nothing":          {"mv", object{"src": "/d/f", "dst": "/none/x"}, "S211", "parent directory not found: /none"},
		"renaming to a relative path":    {"mv", object{"src": "/d/f", "dst": "x"}, "S210", `path "x"`},
		"searching for a bad pattern":    {"grep", object{"path": "/d", "pattern": "("}, "S217", "invalid regex pattern: "},
		"searching a folder alone":       {"grep", object{"path": "/d", "pattern": "x", "recursive": false}, "S210", "path is a directory"},
		"searching nothing":              {"grep", object{"path": "/none", "pattern": "x"}, "S211", "file not found: /none"},
		"replacing in two targets":       {"sed", object{"path": "/d", "files": []string{"/d/f"}, "pattern": "x", "replacement": ""}, "S210", "exactly one"},
		"replacing in no target":         {"sed", object{"pattern": "x", "replacement": ""}, "S210", "exactly one"},
		"replacing nothing literally":    {"sed", object{"path": "/d", "pattern": "", "replacement": "", "regex": false}, "S210", "pattern is empty"},
		"replacing a bad pattern":        {"sed", object{"path": "/d", "pattern": "[", "replacement": ""}, "S217", "invalid regex pattern: "},
		"replacing in a relative path":   {"sed", object{"files": []string{"f"}, "pattern": "x", "replacement": ""}, "S210", `path "f"`},
		"listing of an unknown sandbox":  {"ls", object{"path": "/", "sandbox_id": noSandbox}, "S002", "sandbox not found: "},
		"replacing in an unknown one":    {"sed", object{"path": "/d", "pattern": "x", "replacement": "", "sandbox_id": noSandbox}, "S002", "sandbox not found: "},
		"searching with a bad id":        {"grep", object{"path": "/", "pattern": "x", "sandbox_id": "x"}, "S001", "invalid request: "},
		"replacing with a bad id":        {"sed", object{"path": "/", "pattern": "x", "replacement": "", "sandbox_id": "x"}, "S001", "invalid request: "},
		"changing a mode in one unknown": {"chmod", object{"path": "/", "mode": "0", "sandbox_id": noSandbox}, "S002", "sandbox not found: "},
	} {
		t.Run(name, func(t *testing.T) {
			request := mix(object{"sandbox_id": id}, tc.request)
			got := refuse(t, s, "sandbox::fs::"+tc.function, request, tc.code)
			if !strings.Contains(got.Message, tc.text) || got.Fix != nil {
				t.Errorf("refusal is %+v, want %q without a fix", got, tc.text)
			}
		})
	}
}

func TestRun(t *testing.T) {
	b := &daemontest.Backend{}
	s := start(t, b)
	for name, tc := range map[string]struct {
		lang string
		want []any
	}{
		"node":                   {"javascript", []any{"node", "/tmp/run.js"}},
		"python":                 {"py", []any{"python3", "/tmp/run.py"}},
		"a shell":                {"bash", []any{"/bin/sh", "/tmp/run.sh"}},
		"another interpreter":    {"/usr/bin/perl", []any{"/usr/bin/perl", "/tmp/run.txt"}},
		"a synonym in its place": {"js", []any{"node", "/tmp/run.js"}},
	} {
		t.Run(name, func(t *testing.T) {
			answer := call(t, s, "sandbox::run", object{
				"image": "python", "lang": tc.lang, "code": "x", "env": []string{"A=1"}, "timeout_ms": 900,
				"stdin": base64.StdEncoding.EncodeToString([]byte("in")),
			})
			if _, told := answer["sandbox_id"]; told || answer["success"] != true || answer["exit_code"] != 0.0 {
				t.Errorf("answer is %v", answer)
			}
			got := echoed(t, answer)
			want := object{"argv": tc.want, "stdin": "in", "env": object{"A": "1"}, "workdir": "/", "timeout_ms": 900.0, "output_limit": float64(1 << 20)}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("exec (-want +got):\n%s", diff)
			}
		})
	}
	if b.Live() != 0 {
		t.Errorf("%d sandboxes are left", b.Live())
	}
}

func TestRun_keepsItsFiles(t *testing.T) {
	s := start(t, &daemontest.Backend{})
	answer := call(t, s, "sandbox::run", object{
		"image": "node", "lang": "node", "code": "code", "keep_sandbox": true,
		"files": []object{{"path": "lib/a.js", "content": "a"}, {"path": "/data/b", "content": "b"}},
	})
	for path, want := range map[string]string{"/tmp/run.js": "code", "/tmp/lib/a.js": "a", "/data/b": "b"} {
		got := call(t, s, "sandbox::fs::read", object{"sandbox_id": answer["sandbox_id"], "path": path})
		if got["body"] != want || got["mode"] != "0644" {
			t.Errorf("%s is %v", path, got)
		}
	}
}

func TestRun_failures(t *testing.T) {
	b := &daemontest.Backend{Exec: func(context.Context, *daemontest.Machine, daemon.ExecSpec) (daemon.ExecOutcome, error) {
		return daemon.ExecOutcome{}, daemon.ErrExecTimeout
	}}
	s := start(t, b)
	base := object{"image": "node", "lang": "node", "code": "x"}
	for name, tc := range map[string]struct {
		change     object
		code, step string
		made       bool
	}{
		"of the image":      {object{"image": "ruby"}, "S100", "create", false},
		"of a sibling file": {object{"files": []object{{"path": "/", "content": ""}}}, "S210", "fs::write (sibling file)", true},
		"of the code":       {object{"files": []object{{"path": "/tmp/run.js/x", "content": ""}}}, "S212", "fs::write (code)", true},
		"of the execution":  {object{"timeout_ms": 5}, "S200", "exec", true},
	} {
		t.Run(name, func(t *testing.T) {
			got := refuse(t, s, "sandbox::run", mix(base, tc.change), tc.code)
			id, _ := got.Fix["sandbox_id"].(string)
			want := object{"context": "during sandbox::run step `" + tc.step + "`", "inner_code": tc.code, "sandbox_id": id}
			if diff := cmp.Diff(want, got.Fix); diff != "" || (id != "") != tc.made || got.FixNote != nil {
				t.Errorf("refusal is %+v", got)
			}
		})
	}
	refuse(t, s, "sandbox::run", mix(base, object{"lang": " "}), "S001")
	refuse(t, s, "sandbox::run", mix(base, object{"stdin": "%"}), "S001")
	if b.Live() != 0 {
		t.Errorf("%d sandboxes are left", b.Live())
	}
}

func TestCreate_absentImage(t *testing.T) {
	for name, tc := range map[string]struct {
		install   bool
		code      string
		text      string
		retryable bool
	}{
		"where nothing may be installed": {false, "S101", "rootfs missing on disk for image 'mine'", false},
		"where it may be":                {true, "S102", "auto-install failed for image 'mine': ", true},
	} {
		t.Run(name, func(t *testing.T) {
			config := daemontest.Config()
			config.AutoInstall = tc.install
			config.CustomImages = map[string]string{"mine": "example/mine:1"}
			config.ImageAllowlist = append(config.ImageAllowlist, "mine")
			s := daemontest.Start(t, daemontest.Options{Backend: &daemontest.Backend{Absent: []string{"mine"}}, Config: config})
			// The image is looked for before the environment is looked at.
			got := refuse(t, s, "sandbox::create", object{"image": "mine", "env": object{"bad name": ""}}, tc.code)
			if !strings.HasPrefix(got.Message, tc.text) || got.Retryable != tc.retryable {
				t.Errorf("refusal is %+v", got)
			}
		})
	}
}

func TestWriteFile_stalledGuest(t *testing.T) {
	b := &daemontest.Backend{Writes: func() error { return errors.Join(daemon.ErrUploadStalled, errors.New("30s")) }}
	s := start(t, b)
	id := create(t, s, nil)
	got := refuse(t, s, "sandbox::fs::write", object{"sandbox_id": id, "path": "/a", "content": "x"}, "S218")
	if !got.Retryable || !strings.HasPrefix(got.Message, "fs channel aborted: ") {
		t.Errorf("refusal is %+v", got)
	}
}

// echoed is the exec that daemontest.Echo saw.
func echoed(t *testing.T, answer object) object {
	t.Helper()
	var got object
	if err := json.Unmarshal([]byte(answer["stdout"].(string)), &got); err != nil {
		t.Fatal(err)
	}
	return got
}
