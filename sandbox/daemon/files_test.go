package daemon_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/daemontest"
)

// large is more than the 4 MiB that a channel buffers.
var large = bytes.Repeat([]byte("0123456789abcdef"), 6<<20/16)

func TestWriteFile_inline(t *testing.T) {
	s := start(t, &daemontest.Backend{})
	id := create(t, s, nil)
	raw := "\x00\xff\n"
	for name, tc := range map[string]struct {
		request object
		body    any
		mode    string
		size    float64
	}{
		"text":              {object{"path": "/a", "content": "añ"}, "añ", "0644", 3},
		"empty text":        {object{"path": "/b", "content": ""}, "", "0644", 0},
		"bytes":             {object{"path": "/c", "content_b64": base64.StdEncoding.EncodeToString([]byte(raw))}, nil, "0644", 3},
		"a mode":            {object{"path": "/d", "content": "x", "mode": "0755"}, "x", "0755", 1},
		"parents":           {object{"path": "/e/f/g", "content": "x", "parents": true}, "x", "0644", 1},
		"null is not there": {object{"path": "/h", "content": "x", "content_b64": nil}, "x", "0644", 1},
	} {
		t.Run(name, func(t *testing.T) {
			tc.request["sandbox_id"] = id
			want := object{"bytes_written": tc.size, "path": tc.request["path"]}
			if diff := cmp.Diff(want, call(t, s, "sandbox::fs::write", tc.request)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			got := call(t, s, "sandbox::fs::read", object{"sandbox_id": id, "path": tc.request["path"]})
			if got["body"] != tc.body || got["mode"] != tc.mode || got["size"] != tc.size || got["mtime"] != 1.79e9 {
				t.Errorf("file is %v", got)
			}
		})
	}
}

func TestWriteFile_refusals(t *testing.T) {
	s := start(t, &daemontest.Backend{})
	id := create(t, s, nil)
	for name, tc := range map[string]struct {
		request object
		code    string
	}{
		"no content":          {object{"path": "/a"}, "S001"},
		"two contents":        {object{"path": "/a", "content": "", "content_b64": ""}, "S001"},
		"content not base64":  {object{"path": "/a", "content_b64": "%"}, "S001"},
		"a bad mode":          {object{"path": "/a", "content": "", "mode": "rw"}, "S210"},
		"a relative path":     {object{"path": "a", "content": ""}, "S210"},
		"an unknown sandbox":  {object{"path": "/a", "content": "", "sandbox_id": noSandbox}, "S002"},
		"a bad id":            {object{"path": "/a", "content": "", "sandbox_id": "x"}, "S001"},
		"an unknown channel":  {object{"path": "/a", "content": protocol.ChannelRef{ChannelID: "c", AccessKey: "k", Direction: "read"}}, "S218"},
		"a channel's bad end": {object{"path": "/a", "content": protocol.ChannelRef{ChannelID: "c", AccessKey: "k", Direction: "write"}}, "S218"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.request["sandbox_id"] == nil {
				tc.request["sandbox_id"] = id
			}
			refuse(t, s, "sandbox::fs::write", tc.request, tc.code)
		})
	}
	got := refuse(t, s, "sandbox::fs::write", object{"sandbox_id": id, "path": "/no/a", "content": ""}, "S211")
	if diff := cmp.Diff(object{"parents": true}, got.Fix); diff != "" || got.Message != "parent directory not found: /no" {
		t.Errorf("refusal is %+v", got)
	}
}

func TestWriteFile_channel(t *testing.T) {
	s := start(t, &daemontest.Backend{})
	id := create(t, s, nil)
	writeUp(t, s, id, large)
	if got, err := download(t, s, id, "/up"); err != nil || !bytes.Equal(got, large) {
		t.Errorf("%d bytes came back, want %d: %v", len(got), len(large), err)
	}
}

func TestWriteFile_brokenUpload(t *testing.T) {
	b := &daemontest.Backend{}
	s := daemontest.Start(t, daemontest.Options{
		Backend: b, Config: daemontest.Config(),
		Tune: func(d *daemon.Daemon) { d.Tune(time.Hour, 100*time.Millisecond, time.Now) },
	})
	id := create(t, s, nil)
	call(t, s, "sandbox::fs::write", object{"sandbox_id": id, "path": "/up", "content": "old"})
	for name, breakOff := range map[string]func(*bus.ChannelWriter){
		"a sender that pauses too long":  func(*bus.ChannelWriter) {},
		"a sender that reports an error": func(w *bus.ChannelWriter) { _ = w.WriteText(`{"error":"no more"}`) },
	} {
		t.Run(name, func(t *testing.T) {
			refused := make(chan error, 1)
			writer := upload(t, s, id, func(_ object, err error) { refused <- err })
			if _, err := writer.Write([]byte("new")); err != nil {
				t.Fatal(err)
			}
			breakOff(writer)
			if err := <-refused; err == nil || !strings.Contains(err.Error(), `"code":"S218"`) || !strings.Contains(err.Error(), `"retryable":true`) {
				t.Errorf("error is %v", err)
			}
			// Its other end is gone, so how it closes does not matter.
			_ = writer.Close()
			if got := call(t, s, "sandbox::fs::read", object{"sandbox_id": id, "path": "/up"}); got["body"] != "old" {
				t.Errorf("the old file became %v", got)
			}
		})
	}
}

func TestReadFile(t *testing.T) {
	s := start(t, &daemontest.Backend{})
	id := create(t, s, nil)
	limit := 1 << 20
	for name, tc := range map[string]struct {
		content  []byte
		wantBody bool
	}{
		"text":               {[]byte("print(1)\n"), true},
		"nothing":            {nil, true},
		"bytes":              {[]byte("a\xff"), false},
		"just small enough":  {bytes.Repeat([]byte("x"), limit-1), true},
		"just too large":     {bytes.Repeat([]byte("x"), limit), false},
		"more than a buffer": {large, false},
	} {
		t.Run(name, func(t *testing.T) {
			writeUp(t, s, id, tc.content)
			answer := call(t, s, "sandbox::fs::read", object{"sandbox_id": id, "path": "/up"})
			if body, there := answer["body"]; there != tc.wantBody || there && body != string(tc.content) {
				t.Errorf("body is there: %t, want %t", there, tc.wantBody)
			}
			if got, err := receive(t, s, answer); err != nil || !bytes.Equal(got, tc.content) {
				t.Errorf("%d bytes came by channel, want %d: %v", len(got), len(tc.content), err)
			}
		})
	}
	refuse(t, s, "sandbox::fs::read", object{"sandbox_id": id, "path": "/none"}, "S211")
	refuse(t, s, "sandbox::fs::read", object{"sandbox_id": id, "path": "/"}, "S212")
	refuse(t, s, "sandbox::fs::read", object{"sandbox_id": id, "path": "f"}, "S210")
}

func TestStatFile(t *testing.T) {
	s := start(t, &daemontest.Backend{})
	id := create(t, s, nil)
	call(t, s, "sandbox::fs::write", object{"sandbox_id": id, "path": "/main.py", "content": "12", "mode": "700"})
	want := object{"name": "main.py", "is_dir": false, "size": 2.0, "mode": "0700", "mtime": 1.79e9, "is_symlink": false}
	if diff := cmp.Diff(want, call(t, s, "sandbox::fs::stat", object{"sandbox_id": id, "path": "/main.py"})); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
	refuse(t, s, "sandbox::fs::stat", object{"sandbox_id": id, "path": "/none"}, "S211")
	refuse(t, s, "sandbox::fs::stat", object{"sandbox_id": id, "path": "rel"}, "S210")
}

func TestSchemas(t *testing.T) {
	s := start(t, &daemontest.Backend{})
	info, err := s.Client.FunctionInfo(t.Context(), "sandbox::create", "")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Type       string
		Required   []string
		Properties map[string]object
	}
	if err := json.Unmarshal(info.RequestSchema, &schema); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"image"}, schema.Required); diff != "" || schema.Type != "object" {
		t.Errorf("schema is %s", info.RequestSchema)
	}
	if shapes, ok := schema.Properties["env"]["oneOf"].([]any); !ok || len(shapes) != 2 {
		t.Errorf("env is published as %v, want its two shapes", schema.Properties["env"])
	}
	if len(info.ResponseSchema) == 0 {
		t.Error("no response format is published")
	}
}

// TestSchemas_of_all_functions wants the required fields of contracts/iii-sandbox.md
// §3 and §4 in the published schemas, and an answer's fields.
func TestSchemas_of_all_functions(t *testing.T) {
	s := start(t, &daemontest.Backend{})
	for function, want := range map[string]struct{ required, answer []string }{
		"sandbox::exec":          {[]string{"sandbox_id"}, []string{"duration_ms", "exit_code", "stderr", "stdout", "success", "timed_out"}},
		"sandbox::stop":          {[]string{"sandbox_id"}, []string{"sandbox_id", "stopped"}},
		"sandbox::list":          {nil, []string{"sandboxes"}},
		"sandbox::catalog::list": {nil, []string{"images", "isolation", "private_images"}},
		"sandbox::run":           {[]string{"code", "image", "lang"}, []string{"duration_ms", "exit_code", "sandbox_id", "stderr", "stdout", "success", "timed_out"}},
		"sandbox::fs::ls":        {[]string{"path", "sandbox_id"}, []string{"entries"}},
		"sandbox::fs::stat":      {[]string{"path", "sandbox_id"}, []string{"is_dir", "is_symlink", "mode", "mtime", "name", "size"}},
		"sandbox::fs::mkdir":     {[]string{"path", "sandbox_id"}, []string{"created"}},
		"sandbox::fs::write":     {[]string{"path", "sandbox_id"}, []string{"bytes_written", "path"}},
		"sandbox::fs::read":      {[]string{"path", "sandbox_id"}, []string{"body", "content", "mode", "mtime", "size"}},
		"sandbox::fs::rm":        {[]string{"path", "sandbox_id"}, []string{"removed"}},
		"sandbox::fs::chmod":     {[]string{"mode", "path", "sandbox_id"}, []string{"updated"}},
		"sandbox::fs::mv":        {[]string{"dst", "sandbox_id", "src"}, []string{"moved"}},
		"sandbox::fs::grep":      {[]string{"path", "pattern", "sandbox_id"}, []string{"matches", "truncated"}},
		"sandbox::fs::sed":       {[]string{"pattern", "replacement", "sandbox_id"}, []string{"results", "total_replacements"}},
	} {
		t.Run(function, func(t *testing.T) {
			info, err := s.Client.FunctionInfo(t.Context(), function, "")
			if err != nil {
				t.Fatal(err)
			}
			var request, response struct {
				Required   []string
				Properties object
			}
			if err := errors.Join(json.Unmarshal(info.RequestSchema, &request), json.Unmarshal(info.ResponseSchema, &response)); err != nil {
				t.Fatal(err)
			}
			slices.Sort(request.Required)
			if diff := cmp.Diff(want.required, request.Required); diff != "" {
				t.Errorf("required (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want.answer, slices.Sorted(maps.Keys(response.Properties))); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

// upload starts a write of /up by channel, whose answer goes to done, and
// returns the writing end.
func upload(t *testing.T, s *daemontest.Stack, id string, done func(object, error)) *bus.ChannelWriter {
	t.Helper()
	pair, err := s.Client.CreateChannel(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		done(tryCall(s, "sandbox::fs::write", object{"sandbox_id": id, "path": "/up", "content": pair.Reader}))
	}()
	writer, err := s.Client.OpenWriter(t.Context(), pair.Writer)
	if err != nil {
		t.Fatal(err)
	}
	return writer
}

// writeUp writes /up by channel.
func writeUp(t *testing.T, s *daemontest.Stack, id string, content []byte) {
	t.Helper()
	ended := make(chan error, 1)
	writer := upload(t, s, id, func(got object, err error) {
		if err == nil && got["bytes_written"] != float64(len(content)) {
			err = fmt.Errorf("%v bytes were written, want %d", got["bytes_written"], len(content))
		}
		ended <- err
	})
	if _, err := writer.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func download(t *testing.T, s *daemontest.Stack, id, path string) ([]byte, error) {
	t.Helper()
	return receive(t, s, call(t, s, "sandbox::fs::read", object{"sandbox_id": id, "path": path}))
}

// receive reads the channel of an answer of sandbox::fs::read.
func receive(t *testing.T, s *daemontest.Stack, answer object) ([]byte, error) {
	t.Helper()
	text, err := json.Marshal(answer["content"])
	if err != nil {
		t.Fatal(err)
	}
	var ref protocol.ChannelRef
	if err := json.Unmarshal(text, &ref); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	reader, err := s.Client.OpenReader(ctx, ref)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	return io.ReadAll(reader)
}
