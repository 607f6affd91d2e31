package publish

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/utils/clock"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/guest/runner"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

// callWorld is a server whose sandboxes are in memory and whose agent is the
// test.
type callWorld struct {
	*Server
	provider *fake.Provider
	table    *Table
	told     *told
}

func newCallWorld(t testing.TB) *callWorld {
	t.Helper()
	w := &callWorld{provider: fake.New(), told: &told{}}
	w.table = NewTable(clock.RealClock{}, w.told.hooks())
	program := guest.AgentProgram{Bytes: []byte("agent"), Digest: strings.Repeat("a", 64)}
	w.Server = &Server{
		Table: w.table, Guest: runner.New(w.provider, program), WorkerName: "sandbox-code-runner",
		Logger: slog.New(slog.DiscardHandler),
	}
	w.table.Bind(Binding{
		FunctionID: "shop::price", Runtime: shop, Language: wire.Node, SourceDigest: "d",
		Handler: "handler", Timeout: patience,
	})
	return w
}

// boot adds a sandbox in which the source is planted.
func (w *callWorld) boot(name string) sandbox.ID {
	id := w.provider.Adopt("sandbox "+name, "node")
	instance := Instance{Name: name, ID: id, Slots: fake.ExecSlots}
	w.table.SetInstance(shop, instance)
	w.table.MarkPlanted(shop, instance, "d")
	return id
}

// answers makes the agent reply to calls, and record nothing else.
func (w *callWorld) answers(t testing.TB, reply func(ctx context.Context, call wire.CallRequest) (wire.Reply, error)) {
	w.provider.OnExec(func(ctx context.Context, _ sandbox.Info, req sandbox.ExecRequest) (sandbox.ExecResult, error) {
		if req.Argv[1] != wire.CommandCall {
			return framed(t, wire.Reply{}), nil
		}
		var call wire.CallRequest
		if err := json.Unmarshal(req.Stdin, &call); err != nil && len(req.Argv) == 2 {
			t.Errorf("the agent got no request: %v", err)
		}
		answer, err := reply(ctx, call)
		return framed(t, answer), err
	})
}

func framed(t testing.TB, reply wire.Reply) sandbox.ExecResult {
	t.Helper()
	frame, err := wire.EncodeReply(reply)
	if err != nil {
		t.Errorf("encoding a reply: %v", err)
	}
	return sandbox.ExecResult{Stdout: frame}
}

func (w *callWorld) call(t testing.TB, data string) (json.RawMessage, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return w.Serve(ctx, bus.Invocation{FunctionID: "shop::price", Data: json.RawMessage(data)})
}

// idle fails the test if a slot is still taken.
func (w *callWorld) idle(t *testing.T) {
	t.Helper()
	if got := w.table.Activity(shop); got.InFlight != 0 {
		t.Errorf("%d calls in flight after all were answered", got.InFlight)
	}
}
