package runner_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/guest/runner"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

var program = guest.AgentProgram{Bytes: []byte("#!agent"), Digest: strings.Repeat("0123456789abcdef", 4)}

// world has one sandbox in memory, in which the test is the agent.
type world struct {
	*runner.Runner
	provider *fake.Provider
	id       sandbox.ID
}

func newWorld() *world {
	provider := fake.New()
	return &world{Runner: runner.New(provider, program), provider: provider, id: provider.Adopt("box", "node")}
}

// prints makes the agent print raw output.
func (w *world) prints(stdout []byte, stderr string, exitCode int) {
	w.provider.OnExec(func(context.Context, sandbox.Info, sandbox.ExecRequest) (sandbox.ExecResult, error) {
		return sandbox.ExecResult{Stdout: stdout, Stderr: []byte(stderr), ExitCode: exitCode}, nil
	})
}

// replies makes the agent give a reply.
func (w *world) replies(t *testing.T, reply wire.Reply) {
	t.Helper()
	w.prints(frame(t, reply), "", 0)
}

func frame(t *testing.T, reply wire.Reply) []byte {
	t.Helper()
	encoded, err := wire.EncodeReply(reply)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func TestRunner_commands(t *testing.T) {
	failure := wire.Failf(wire.LoadFailed, "line 3")
	for name, tc := range map[string]struct {
		act         func(ctx context.Context, w *world) error
		wantCommand string
		// wantTimeout is the deadline inside plus two seconds (design rule 7).
		wantTimeout time.Duration
		wantStdin   string
	}{
		"plant": {
			act: func(ctx context.Context, w *world) error {
				return w.Plant(ctx, w.id, wire.PlantRequest{Language: wire.Node, SourceDigest: "d", Source: "x", TimeoutMs: 4000})
			},
			wantCommand: wire.CommandPlant, wantTimeout: 6 * time.Second,
			wantStdin: `{"language":"node","sourceDigest":"d","source":"x","timeoutMs":4000}`,
		},
		"unplant": {
			act:         func(ctx context.Context, w *world) error { return w.Unplant(ctx, w.id, "d") },
			wantCommand: wire.CommandUnplant, wantTimeout: 32 * time.Second, wantStdin: `{"sourceDigest":"d"}`,
		},
		"cancel": {
			act:         func(ctx context.Context, w *world) error { return w.Cancel(ctx, w.id, "t") },
			wantCommand: wire.CommandCancel, wantTimeout: 32 * time.Second, wantStdin: `{"token":"t"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.replies(t, wire.Reply{})
			if err := tc.act(t.Context(), w); err != nil {
				t.Fatal(err)
			}
			exec := w.provider.Calls(fake.Exec)[0].Exec
			want := sandbox.ExecRequest{
				Argv: []string{"/sandbox-operator/0123456789ab/agent", tc.wantCommand}, Stdin: []byte(tc.wantStdin),
				Timeout: tc.wantTimeout, Workdir: "/",
			}
			if diff := cmp.Diff(want, exec); diff != "" {
				t.Errorf("the exec (-want +got):\n%s", diff)
			}
			w.replies(t, wire.Reply{Error: failure})
			var got *wire.Failure
			if err := tc.act(t.Context(), w); !errors.As(err, &got) || got.Kind != wire.LoadFailed {
				t.Errorf("a failure became %v", err)
			}
			w.provider.NextExecErr(sandbox.NewBusyError())
			if err := tc.act(t.Context(), w); !sandbox.IsBusy(err) {
				t.Errorf("a busy sandbox became %v", err)
			}
		})
	}
}

func TestRunner_repliesAreNotErrors(t *testing.T) {
	w := newWorld()
	want := wire.Reply{Error: &wire.Failure{Kind: wire.Thrown, Type: "Error", Message: "no"}, Logs: "hi"}
	w.replies(t, want)
	for name, call := range map[string]func() (wire.Reply, error){
		"call": func() (wire.Reply, error) { return w.Call(t.Context(), w.id, wire.CallRequest{TimeoutMs: 1}) },
		"run":  func() (wire.Reply, error) { return w.Run(t.Context(), w.id, wire.RunRequest{TimeoutMs: 1}) },
		"install": func() (wire.Reply, error) {
			return w.Install(t.Context(), w.id, wire.InstallRequest{Language: wire.Node, Packages: []string{"x"}, TimeoutMs: 1})
		},
		"setup": func() (wire.Reply, error) {
			return w.Setup(t.Context(), w.id, wire.SetupRequest{Command: "true", TimeoutMs: 1})
		},
	} {
		got, err := call()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestRunner_damagedReplies(t *testing.T) {
	whole := frame(t, wire.Reply{Result: json.RawMessage(`{"a":1}`)})
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-2] ^= 1
	for name, tc := range map[string]struct {
		stdout []byte
		want   wire.FrameReason
	}{
		"nothing at all":               {nil, wire.FrameMissing},
		"what a program printed":       {[]byte("Segmentation fault"), wire.FrameMissing},
		"a print before the reply":     {append([]byte("x"), whole...), wire.FrameMissing},
		"a print after the reply":      {append(bytes.Clone(whole), 'x'), wire.FrameTrailing},
		"a reply without its end":      {whole[:len(whole)-1], wire.FrameCut},
		"half a header":                {whole[:10], wire.FrameCut},
		"a reply with another content": {flipped, wire.FrameDigest},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			long := strings.Repeat("é", 400) + "killed"
			w.prints(tc.stdout, long, 137)
			_, err := w.Call(t.Context(), w.id, wire.CallRequest{TimeoutMs: 1})
			var agent *runner.AgentError
			var damage *wire.FrameError
			if !errors.As(err, &agent) || !errors.As(err, &damage) {
				t.Fatalf("the error is %v, want an AgentError for a FrameError", err)
			}
			if agent.ExitCode != 137 || damage.Reason != tc.want {
				t.Errorf("exit code %d for %s, want 137 for %s", agent.ExitCode, damage.Reason, tc.want)
			}
			if n := len(agent.Stderr); n > 500 || n < 498 || !strings.HasSuffix(long, agent.Stderr) || !strings.HasPrefix(agent.Stderr, "é") {
				t.Errorf("the end of the errors is %q", agent.Stderr)
			}
			if len(w.provider.Calls(fake.Exec)) != 1 {
				t.Error("the call was repeated")
			}
		})
	}
}

func TestRunner_resultFiles(t *testing.T) {
	const path = "/sandbox-operator/results/1"
	content := []byte(`{"big":true}`)
	sum := sha256.Sum256(content)
	good := wire.ResultFile{Path: path, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
	longer, other, endless := good, good, good
	longer.Size, other.SHA256, endless.Size = good.Size-2, strings.Repeat("0", 64), wire.MaxResultBytes+1
	var lost *runner.ResultLostError
	var failure *wire.Failure
	for name, tc := range map[string]struct {
		file      wire.ResultFile
		readError error
		wantError any
		discarded bool
	}{
		"the whole file":                    {file: good, discarded: true},
		"a file with another digest":        {file: other, wantError: &lost},
		"a file longer than said":           {file: longer, wantError: &lost},
		"a file past the limit":             {file: endless, wantError: &failure, discarded: true},
		"a file that is not there":          {file: good, readError: sandbox.NewFileError(path, "not found"), wantError: &lost},
		"a sandbox that vanished meanwhile": {file: good, readError: sandbox.NewNotFoundError(), wantError: &lost},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			err := w.provider.WriteFile(t.Context(), w.id, sandbox.WriteFileRequest{
				Path: path, Content: bytes.NewReader(content), Size: int64(len(content)),
			})
			if err != nil {
				t.Fatal(err)
			}
			w.replies(t, wire.Reply{ResultFile: &tc.file})
			if tc.readError != nil {
				w.provider.FailNext(fake.ReadFile, tc.readError)
			}
			reply, err := w.Call(t.Context(), w.id, wire.CallRequest{TimeoutMs: 1})
			execs := w.provider.Calls(fake.Exec)
			if discarded := len(execs) == 2 && execs[1].Exec.Argv[1] == wire.CommandDiscard; discarded != tc.discarded {
				t.Errorf("discarded: %t, want %t", discarded, tc.discarded)
			}
			if tc.wantError == nil {
				if err != nil || !bytes.Equal(reply.Result, content) || reply.ResultFile != nil {
					t.Errorf("the reply is %+v, %v", reply, err)
				}
				return
			}
			if !errors.As(err, tc.wantError) || sandbox.IsNotFound(err) {
				t.Errorf("the error is %v, want a %T that is no NotFoundError", err, tc.wantError)
			}
		})
	}
}

func TestResultLostError_showsTheEndOfTheContext(t *testing.T) {
	late := &runner.ResultLostError{Err: sandbox.NewUnknownOutcomeError(context.DeadlineExceeded)}
	if !errors.Is(late, context.DeadlineExceeded) || errors.Is(late, context.Canceled) || sandbox.IsUnknownOutcome(late) {
		t.Errorf("%v is taken for something else", late)
	}
}

func TestRunner_largeRequestsGoByFile(t *testing.T) {
	w := newWorld()
	w.replies(t, wire.Reply{})
	large := json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	if _, err := w.Call(t.Context(), w.id, wire.CallRequest{Payload: large, TimeoutMs: 1}); err != nil {
		t.Fatal(err)
	}
	exec := w.provider.Calls(fake.Exec)[0].Exec
	if len(exec.Stdin) != 0 || len(exec.Argv) != 4 || !strings.HasPrefix(exec.Argv[3], "/sandbox-operator/0123456789ab/requests/") {
		t.Fatalf("the exec is %v with %d bytes of input", exec.Argv, len(exec.Stdin))
	}
	written, _ := w.provider.File(w.id, exec.Argv[3])
	var request wire.CallRequest
	if err := json.Unmarshal(written, &request); err != nil || !bytes.Equal(request.Payload, large) {
		t.Errorf("the file has %d bytes, %v", len(written), err)
	}
	w.provider.FailNext(fake.WriteFile, sandbox.NewNotFoundError())
	if _, err := w.Call(t.Context(), w.id, wire.CallRequest{Payload: large, TimeoutMs: 1}); !sandbox.IsNotFound(err) {
		t.Errorf("a sandbox that is gone before the call: %v", err)
	}
	if n := len(w.provider.Calls(fake.Exec)); n != 1 {
		t.Errorf("%d execs, want 1: the agent ran without its request", n)
	}
}

func TestNewToken(t *testing.T) {
	one, two := runner.NewToken(), runner.NewToken()
	if one == two || !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(one) {
		t.Errorf("got %s and %s", one, two)
	}
}

func TestAgentDigest(t *testing.T) {
	if got := newWorld().AgentDigest(); got != program.Digest {
		t.Errorf("the digest is %s", got)
	}
}
