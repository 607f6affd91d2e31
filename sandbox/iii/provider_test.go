package iii_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/daemontest"
	"github.com/sandbox-operator/sandbox-operator/sandbox/iii"
)

var marker = sandbox.Marker{Operator: "op", Object: "obj", Ordinal: 1, Nonce: "n"}

// start returns a provider over a real engine and daemon.
func start(t *testing.T, b *daemontest.Backend) (*iii.Provider, *daemontest.Stack) {
	t.Helper()
	s := daemontest.Start(t, daemontest.Options{Backend: b, Config: daemontest.Config()})
	return iii.New(iii.Options{Client: s.Client}), s
}

func create(t *testing.T, p *iii.Provider) sandbox.ID {
	t.Helper()
	id, err := p.Create(t.Context(), sandbox.CreateRequest{Image: "node", Marker: marker})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestProvider_create(t *testing.T) {
	b := &daemontest.Backend{}
	p, _ := start(t, b)
	id, err := p.Create(t.Context(), sandbox.CreateRequest{
		Image: "python", CPUs: 2, MemoryMiB: 64, Marker: marker, Network: true, IdleTimeout: 1500 * time.Millisecond,
		Env: map[string]string{"III_URL": "ws://localhost:1"},
	})
	if err != nil || id.IsZero() {
		t.Fatal(err)
	}
	wantSpec := daemon.BootSpec{
		Image: "python", CPUs: 2, MemoryMiB: 64, Network: true, Env: map[string]string{"III_URL": "ws://100.96.0.1:1"},
	}
	if diff := cmp.Diff(wantSpec, b.Machines()[0].Spec); diff != "" {
		t.Errorf("guest (-want +got):\n%s", diff)
	}
	infos, err := p.List(t.Context())
	want := []sandbox.Info{{ID: id, Name: "sbx/op/obj/1/n", Image: "python", ExecSlotsFree: 4, Isolation: "memory"}}
	if diff := cmp.Diff(want, infos, cmp.AllowUnexported(sandbox.ID{}), cmpopts.IgnoreFields(sandbox.Info{}, "Age")); diff != "" || err != nil {
		t.Errorf("list (-want +got), error %v:\n%s", err, diff)
	}
	_, err = p.Create(t.Context(), sandbox.CreateRequest{Image: "none", Marker: marker})
	if !sandbox.IsRejected(err) {
		t.Errorf("an unknown image: %v", err)
	}
}

func TestProvider_capabilities(t *testing.T) {
	p, _ := start(t, &daemontest.Backend{})
	got, err := p.Capabilities(t.Context())
	if diff := cmp.Diff(sandbox.Capabilities{PrivateImages: true, Isolation: "memory"}, got); diff != "" || err != nil {
		t.Errorf("capabilities (-want +got), error %v:\n%s", err, diff)
	}
}

func TestProvider_exec(t *testing.T) {
	b := &daemontest.Backend{Exec: func(ctx context.Context, m *daemontest.Machine, spec daemon.ExecSpec) (daemon.ExecOutcome, error) {
		switch spec.Argv[0] {
		case "late":
			return daemon.ExecOutcome{}, daemon.ErrExecTimeout
		case "gone":
			return daemon.ExecOutcome{}, daemon.ErrMachineGone
		case "fails":
			return daemon.ExecOutcome{Stdout: []byte("out"), Stderr: []byte("err"), ExitCode: 137, Duration: time.Second}, nil
		}
		return daemontest.Echo(ctx, m, spec)
	}}
	p, _ := start(t, b)
	id := create(t, p)
	got, err := p.Exec(t.Context(), id, sandbox.ExecRequest{Argv: []string{"fails"}})
	want := sandbox.ExecResult{Stdout: []byte("out"), Stderr: []byte("err"), ExitCode: 137, Duration: time.Second}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("result (-want +got), error %v:\n%s", err, diff)
	}
	echo, err := p.Exec(t.Context(), id, sandbox.ExecRequest{
		Argv: []string{"a b", "c"}, Stdin: []byte{0, 255}, Env: map[string]string{"A": "1"}, Timeout: 7 * time.Second,
	})
	wantEcho := `{"argv":["a b","c"],"env":{"A":"1"},"output_limit":1048576,"stdin":"\u0000\ufffd","timeout_ms":7000,"workdir":"/"}`
	if diff := cmp.Diff(wantEcho, string(echo.Stdout)); diff != "" || err != nil {
		t.Errorf("program (-want +got), error %v:\n%s", err, diff)
	}
	_, err = p.Exec(t.Context(), id, sandbox.ExecRequest{Argv: []string{"late"}, Timeout: time.Second})
	var timeout *sandbox.TimeoutError
	if !errors.As(err, &timeout) || timeout.After != time.Second {
		t.Errorf("a late program: %v", err)
	}
	_, err = p.Exec(t.Context(), id, sandbox.ExecRequest{Argv: []string{"gone"}})
	var transient *sandbox.TransientError
	if !errors.As(err, &transient) || transient.Code != "S300" {
		t.Errorf("a guest that ended: %v", err)
	}
	_, err = p.Exec(t.Context(), id, sandbox.ExecRequest{})
	if !sandbox.IsRejected(err) {
		t.Errorf("no command: %v", err)
	}
}

func TestProvider_stopAndTouch(t *testing.T) {
	p, _ := start(t, &daemontest.Backend{})
	id := create(t, p)
	if err := p.Touch(t.Context(), id); err != nil {
		t.Errorf("touching: %v", err)
	}
	if err := p.Stop(t.Context(), id); err != nil {
		t.Errorf("stopping: %v", err)
	}
	for what, err := range map[string]error{
		"stop": p.Stop(t.Context(), id), "touch": p.Touch(t.Context(), id),
	} {
		if !sandbox.IsNotFound(err) || strings.Contains(err.Error(), id.Reveal()) {
			t.Errorf("%s of a sandbox that is gone: %v", what, err)
		}
	}
}

func TestProvider_files(t *testing.T) {
	p, _ := start(t, &daemontest.Backend{})
	id := create(t, p)
	for name, content := range map[string][]byte{
		"nothing":                nil,
		"a few bytes":            {0, 255},
		"as much as goes inline": bytes.Repeat([]byte{0, 255}, 256<<10),
		"one byte more":          bytes.Repeat([]byte{1}, 512<<10+1),
		"more than a channel":    bytes.Repeat([]byte("0123456789abcdef"), 5<<20/16),
	} {
		t.Run(name, func(t *testing.T) {
			// Readers may return little at a time.
			source := iotest.HalfReader(bytes.NewReader(content))
			err := p.WriteFile(t.Context(), id, sandbox.WriteFileRequest{
				Path: "/new/folder/f", Mode: 0o700, Content: source, Size: int64(len(content)),
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := read(t, p, id, "/new/folder/f"); !bytes.Equal(got, content) {
				t.Errorf("%d bytes came back, want %d", len(got), len(content))
			}
		})
	}
}

func read(t *testing.T, p *iii.Provider, id sandbox.ID, path string) []byte {
	t.Helper()
	reader, err := p.ReadFile(t.Context(), id, path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(reader)
	if err := errors.Join(err, reader.Close()); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestProvider_fileErrors(t *testing.T) {
	p, _ := start(t, &daemontest.Backend{})
	id := create(t, p)
	write := func(content io.Reader, size int64) error {
		return p.WriteFile(t.Context(), id, sandbox.WriteFileRequest{Path: "/f", Content: content, Size: size})
	}
	if err := write(strings.NewReader("old"), 3); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("disk on fire")
	big := strings.Repeat("x", 1<<20)
	for name, tc := range map[string]struct {
		content io.Reader
		size    int64
		want    error
	}{
		"a small content that ends early": {strings.NewReader("ab"), 3, io.ErrUnexpectedEOF},
		"a small content that is longer":  {strings.NewReader("abcd"), 3, nil},
		"a large content that ends early": {strings.NewReader(big), 2 << 20, io.ErrUnexpectedEOF},
		"a large content that is longer":  {strings.NewReader(big), 1<<20 - 1, nil},
		"a large content that fails":      {io.MultiReader(strings.NewReader(big), iotest.ErrReader(broken)), 2 << 20, broken},
	} {
		t.Run(name, func(t *testing.T) {
			if err := write(tc.content, tc.size); err == nil || tc.want != nil && !errors.Is(err, tc.want) {
				t.Errorf("error is %v, want %v", err, tc.want)
			}
			if got := string(read(t, p, id, "/f")); got != "old" {
				t.Errorf("the old file became %d bytes", len(got))
			}
		})
	}
	var file *sandbox.FileError
	if _, err := p.ReadFile(t.Context(), id, "/none"); !errors.As(err, &file) || file.Path != "/none" {
		t.Errorf("a missing file: %v", err)
	}
}

func TestProvider_uploadOfCallerThatLeaves(t *testing.T) {
	b := &daemontest.Backend{}
	p, _ := start(t, b)
	id := create(t, p)
	if err := p.WriteFile(t.Context(), id, sandbox.WriteFileRequest{Path: "/f", Content: strings.NewReader("old"), Size: 3}); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	part := bytes.Repeat([]byte("x"), 600<<10)
	content := io.MultiReader(bytes.NewReader(part), callbackReader(leave), bytes.NewReader(part))
	err := p.WriteFile(ctx, id, sandbox.WriteFileRequest{Path: "/f", Content: content, Size: int64(2 * len(part))})
	if !sandbox.IsUnknownOutcome(err) {
		t.Errorf("error is %v, want an unknown outcome", err)
	}
	daemontest.Eventually(t, "the daemon has ended the second write", func(context.Context) bool {
		return b.Machines()[0].Writes() == 2
	})
	if got := string(read(t, p, id, "/f")); got != "old" {
		t.Errorf("half an upload replaced the old file with %d bytes", len(got))
	}
}

// callbackReader calls f when it is read, and is empty.
type callbackReader func()

func (f callbackReader) Read([]byte) (int, error) { f(); return 0, io.EOF }

func TestProvider_absence(t *testing.T) {
	p, s := start(t, &daemontest.Backend{})
	if err := s.StopDaemon(); err != nil {
		t.Fatal(err)
	}
	daemontest.Eventually(t, "the engine has noticed", func(ctx context.Context) bool {
		_, err := s.Client.FunctionInfo(ctx, "sandbox::list", "")
		return bus.IsNotFound(err)
	})
	_, createErr := p.Create(t.Context(), sandbox.CreateRequest{Image: "node", Marker: marker})
	_, listErr := p.List(t.Context())
	for what, err := range map[string]error{"create": createErr, "list": listErr} {
		if !sandbox.IsUnavailable(err) {
			t.Errorf("%s without a daemon: %v", what, err)
		}
	}
	client, err := bus.New(bus.Options{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, err = iii.New(iii.Options{Client: client}).Create(t.Context(), sandbox.CreateRequest{Image: "node", Marker: marker})
	if !sandbox.IsUnavailable(err) {
		t.Errorf("create without a connection: %v", err)
	}
}

func TestProvider_lostAnswer(t *testing.T) {
	gate := make(chan struct{})
	b := &daemontest.Backend{Boots: func(context.Context, daemon.BootSpec) error { <-gate; return nil }}
	p, _ := start(t, b)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := p.Create(ctx, sandbox.CreateRequest{Image: "node", Marker: marker})
	if !sandbox.IsUnknownOutcome(err) {
		t.Errorf("error is %v, want an unknown outcome", err)
	}
	close(gate)
	daemontest.Eventually(t, "the twin appears under the marker", func(ctx context.Context) bool {
		infos, err := p.List(ctx)
		return err == nil && len(infos) == 1 && infos[0].Name == marker.String()
	})
}
