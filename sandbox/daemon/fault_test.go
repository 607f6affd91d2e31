package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFault_remote(t *testing.T) {
	got := newFault(codeImage, "image '%s' not in catalog", "<x>").remote()
	if got.Code != "invocation_failed" {
		t.Errorf("bus code is %q", got.Code)
	}
	want := `handler error: {"fix":null,"retryable":false,"code":"S100","type":"config",` +
		`"fix_note":"Use a name of sandbox::catalog::list that is also in image_allowlist.",` +
		`"docs_url":"https://github.com/sandbox-operator/sandbox-operator#S100","message":"image '<x>' not in catalog"}`
	if diff := cmp.Diff(want, got.Message); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

func TestFault_fixes(t *testing.T) {
	for name, tc := range map[string]struct {
		fault    *fault
		wantFix  map[string]any
		wantNote bool
	}{
		"a missing parent can be merged away":    {parentMissing("/a/b"), map[string]any{"parents": true}, true},
		"other file faults have neither":         {machineFault(ErrWrongType, "/a"), nil, false},
		"a capacity fault has a note without it": {newFault(codeCapacity, "x"), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			body := tc.fault.body()
			if diff := cmp.Diff(tc.wantFix, body.Fix); diff != "" {
				t.Errorf("fix (-want +got):\n%s", diff)
			}
			if (body.FixNote != nil) != tc.wantNote {
				t.Errorf("fix_note is %v", body.FixNote)
			}
		})
	}
}

func TestMachineFault(t *testing.T) {
	for name, tc := range map[string]struct {
		err        error
		code, text string
	}{
		"an ended guest":    {fmt.Errorf("x: %w", ErrMachineGone), codeBoot, "VM boot failed: "},
		"a closing daemon":  {context.Canceled, codeBoot, "shutting down"},
		"a missing parent":  {ErrParentMissing, codeFileMissing, "parent directory not found: /a"},
		"a missing file":    {&fs.PathError{Op: "open", Err: fs.ErrNotExist}, codeFileMissing, "file not found: /a/b"},
		"a wrong type":      {ErrWrongType, codeFileType, "not a directory or wrong type: /a/b"},
		"a forbidden path":  {fs.ErrPermission, codePermission, "permission denied: /a/b"},
		"anything else":     {errors.New("disk on fire"), codeFileIO, "fs i/o error: "},
		"a full disk names": {errors.New("no space left"), codeFileIO, "no space left"},
	} {
		t.Run(name, func(t *testing.T) { checkFault(t, machineFault(tc.err, "/a/b"), tc.code, tc.text) })
	}
}

func TestDecode(t *testing.T) {
	for name, tc := range map[string]struct {
		data    string
		wantErr string
	}{
		"a whole request":                   {data: `{"sandbox_id":"x","path":"/"}`},
		"unknown fields are ignored":        {data: `{"sandbox_id":"x","path":"/","_caller_worker_id":"w"}`},
		"null is no object":                 {data: `null`, wantErr: "must be an object"},
		"a list is no object":               {data: `[]`, wantErr: "must be an object"},
		"a required field is missing":       {data: `{"sandbox_id":"x"}`, wantErr: "missing field `path`"},
		"a required field must not be null": {data: `{"sandbox_id":"x","path":null}`, wantErr: "missing field `path`"},
		"a field of the wrong type":         {data: `{"sandbox_id":7,"path":"/"}`, wantErr: "sandbox_id"},
	} {
		t.Run(name, func(t *testing.T) {
			var req fileRequest
			err := decode(json.RawMessage(tc.data), schemaOf[fileRequest]().Required, &req)
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("error is %v, want %q", err, tc.wantErr)
			}
		})
	}
}

func TestLossy(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"valid text stays":                   {"añ€😀\x00", "añ€😀\x00"},
		"a lone byte is one replacement":     {"a\xffb", "a\uFFFDb"},
		"a cut sequence is one replacement":  {"a\xe2\x82", "a\uFFFD"},
		"two bad bytes are two replacements": {"\xff\xfe", "\uFFFD\uFFFD"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, lossy([]byte(tc.in))); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMode(t *testing.T) {
	for text, want := range map[string]string{"0644": "0644", "755": "0755", "4755": "4755", "0": "0000"} {
		mode, err := parseMode(text)
		if err != nil || formatMode(mode) != want {
			t.Errorf("%q became %q, %v", text, formatMode(mode), err)
		}
	}
	for _, text := range []string{"", "rwx", "0o644", "0888", "17777", "-1"} {
		_, err := parseMode(text)
		checkFault(t, err, codeFileArgument, "octal")
	}
}
