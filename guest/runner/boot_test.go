package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/guest/runner"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

var create = sandbox.CreateRequest{
	Image: "node", MemoryMiB: 64, Env: map[string]string{"A": "b"},
	Marker: sandbox.Marker{Operator: "op", Object: "obj", Nonce: "n"},
}

// newEmptyWorld has no sandbox yet.
func newEmptyWorld() *world {
	provider := fake.New()
	return &world{Runner: runner.New(provider, program), provider: provider}
}

func (w *world) sandboxes(t *testing.T) []sandbox.Info {
	t.Helper()
	list, err := w.provider.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestBoot(t *testing.T) {
	for name, private := range map[string]bool{"images that may be shared": false, "private images": true} {
		t.Run(name, func(t *testing.T) {
			w := newEmptyWorld()
			w.provider.Promise(sandbox.Capabilities{PrivateImages: private})
			init := wire.Init{AgentDigest: program.Digest, NodeVersion: "20.1.0", Overlay: !private}
			w.replies(t, wire.Reply{Init: &init})
			booted, err := w.Boot(t.Context(), create)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(init, booted.Init); diff != "" {
				t.Errorf("the guest (-want +got):\n%s", diff)
			}
			if list := w.sandboxes(t); len(list) != 1 || list[0].ID != booted.ID || list[0].Name != create.Marker.String() {
				t.Errorf("the sandboxes are %+v", list)
			}
			if diff := cmp.Diff(create, w.provider.Calls(fake.Create)[0].Create); diff != "" {
				t.Errorf("the request (-want +got):\n%s", diff)
			}
			if agent, _ := w.provider.File(booted.ID, program.Path()); !bytes.Equal(agent, program.Bytes) {
				t.Errorf("the agent in the guest is %q", agent)
			}
			var request wire.InitRequest
			exec := w.provider.Calls(fake.Exec)[0].Exec
			if err := json.Unmarshal(exec.Stdin, &request); err != nil || request.SharedImage == private || request.ModuleFolder != "/node_modules" {
				t.Errorf("the agent was asked for %+v, %v", request, err)
			}
		})
	}
}

func TestBoot_rollsBack(t *testing.T) {
	refused := errors.New("refused")
	var agent *runner.AgentError
	var failure *wire.Failure
	for name, tc := range map[string]struct {
		fail func(t *testing.T, w *world)
		want func(error) bool
	}{
		"capabilities that cannot be read": {
			func(_ *testing.T, w *world) { w.provider.FailNext(fake.Capabilities, refused) },
			func(err error) bool { return errors.Is(err, refused) },
		},
		"an agent that cannot be written": {
			func(_ *testing.T, w *world) { w.provider.FailNext(fake.WriteFile, refused) },
			func(err error) bool { return errors.Is(err, refused) },
		},
		"an agent that cannot be started": {
			func(_ *testing.T, w *world) { w.provider.NextExecErr(refused) },
			func(err error) bool { return errors.Is(err, refused) },
		},
		"an agent that prints something else": {
			func(_ *testing.T, w *world) { w.prints([]byte("exec format error"), "", 126) },
			func(err error) bool { return errors.As(err, &agent) && agent.ExitCode == 126 },
		},
		"an agent that refuses": {
			func(t *testing.T, w *world) {
				w.replies(t, wire.Reply{Error: wire.Failf(wire.Internal, "read-only root")})
			},
			func(err error) bool { return errors.As(err, &failure) && failure.Kind == wire.Internal },
		},
		"a reply to something else": {
			func(t *testing.T, w *world) { w.replies(t, wire.Reply{}) },
			func(err error) bool { return errors.As(err, &agent) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEmptyWorld()
			tc.fail(t, w)
			if booted, err := w.Boot(t.Context(), create); !tc.want(err) || !booted.ID.IsZero() {
				t.Errorf("booting: %+v, %v", booted, err)
			}
			if left := w.sandboxes(t); len(left) != 0 {
				t.Errorf("%d sandboxes are left", len(left))
			}
		})
	}
}

// TestBoot_rollsBackAfterItsContext ends the context while the agent starts.
func TestBoot_rollsBackAfterItsContext(t *testing.T) {
	w := newEmptyWorld()
	ctx, cancel := context.WithCancel(t.Context())
	w.provider.OnExec(func(ctx context.Context, _ sandbox.Info, _ sandbox.ExecRequest) (sandbox.ExecResult, error) {
		cancel()
		<-ctx.Done()
		return sandbox.ExecResult{}, sandbox.NewUnknownOutcomeError(ctx.Err())
	})
	if _, err := w.Boot(ctx, create); !errors.Is(err, context.Canceled) {
		t.Errorf("booting: %v", err)
	}
	if left := w.sandboxes(t); len(left) != 0 {
		t.Errorf("%d sandboxes are left", len(left))
	}
}

func TestBoot_failedCreates(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want func(error) bool
	}{
		"an answer that was lost":  {sandbox.NewUnknownOutcomeError(errors.New("connection lost")), sandbox.IsUnknownOutcome},
		"no room":                  {sandbox.NewCapacityError("8 of 8"), sandbox.IsCapacity},
		"an image that is unknown": {sandbox.NewRejectedError("S100", "no such image"), sandbox.IsRejected},
		"a daemon that is away":    {sandbox.NewUnavailableError(errors.New("not connected")), sandbox.IsUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEmptyWorld()
			w.provider.NextCreateErr(tc.err)
			if _, err := w.Boot(t.Context(), create); !tc.want(err) {
				t.Errorf("booting: %v", err)
			}
			if calls := w.provider.Calls(); len(calls) != 1 {
				t.Errorf("after the failure %d more calls were made", len(calls)-1)
			}
		})
	}
}

// TestBoot_rollbackThatFails keeps the first error; the sweep finds the sandbox.
func TestBoot_rollbackThatFails(t *testing.T) {
	w := newEmptyWorld()
	w.provider.FailNext(fake.WriteFile, sandbox.NewCapacityError("disk"))
	w.provider.FailNext(fake.Stop, sandbox.NewUnavailableError(errors.New("gone")))
	if _, err := w.Boot(t.Context(), create); !sandbox.IsCapacity(err) || sandbox.IsUnavailable(err) {
		t.Errorf("booting: %v", err)
	}
}
