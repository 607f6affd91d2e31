package sandboxruntime

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/guest/runner"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// upgrade replaces the operator by one with another agent, which answers only
// where it was written.
func (w *world) upgrade(digest string) guest.AgentProgram {
	w.t.Helper()
	frame, err := wire.EncodeReply(wire.Reply{Init: &wire.Init{AgentDigest: digest, NodeVersion: "20.0.0"}})
	if err != nil {
		w.t.Fatal(err)
	}
	program := guest.AgentProgram{Bytes: []byte("the next agent"), Digest: digest}
	w.provider.OnExec(func(_ context.Context, _ sandbox.Info, req sandbox.ExecRequest) (sandbox.ExecResult, error) {
		if req.Argv[0] != program.Path() {
			w.t.Errorf("%s was executed", req.Argv[0])
		}
		return sandbox.ExecResult{Stdout: frame}, nil
	})
	w.restart()
	w.Runner = runner.New(w.provider, program)
	return program
}

func TestKeep_anUpgradeOfTheOperatorLeavesTheFiles(t *testing.T) {
	w := newWorld(t, newRuntime(keptByTheBus))
	w.settle()
	before := w.sandboxes()
	program := w.upgrade(strings.Repeat("b", 64))
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	after := w.sandboxes()
	if len(after) != 1 || after[0].ID != before[0].ID {
		t.Fatalf("the kept sandbox was replaced: %d creates", w.creates())
	}
	if _, ok := w.provider.File(after[0].ID, program.Path()); !ok {
		t.Error("it has not got the new agent")
	}
	if _, err := w.Table.Acquire(t.Context(), w.tableRuntime(), ""); err != nil {
		t.Errorf("it takes no runs: %v", err)
	}
}

func TestKeep_noRunUntilTheAgentIsThere(t *testing.T) {
	w := newWorld(t, newRuntime(keptByTheBus))
	w.settle()
	w.upgrade(strings.Repeat("b", 64))
	w.provider.OnExec(func(context.Context, sandbox.Info, sandbox.ExecRequest) (sandbox.ExecResult, error) {
		return sandbox.ExecResult{}, sandbox.NewTransientError("S218", "stalled")
	})
	w.reconcile()
	w.wait()
	result := w.reconcile()
	if got := w.Table.Instances(w.tableRuntime()); len(got) != 0 || result.RequeueAfter != stopRetry {
		t.Errorf("%d sandboxes take runs, next look in %s", len(got), result.RequeueAfter)
	}
	w.upgrade(strings.Repeat("c", 64))
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	if w.creates() != 1 {
		t.Errorf("%d creates", w.creates())
	}
}

func TestKeep_aGuestThatDiedMeanwhileGoes(t *testing.T) {
	w := newWorld(t, newRuntime(keptByTheBus))
	w.settle()
	w.upgrade(strings.Repeat("b", 64))
	w.provider.OnExec(func(context.Context, sandbox.Info, sandbox.ExecRequest) (sandbox.ExecResult, error) {
		return sandbox.ExecResult{}, sandbox.NewTransientError("S300", "dead")
	})
	w.settle()
	if !w.gone() || len(w.sandboxes()) != 0 {
		t.Errorf("gone %t, %d sandboxes", w.gone(), len(w.sandboxes()))
	}
}

func TestKeep_withoutRoomItsCallerIsToldAtOnce(t *testing.T) {
	w := newWorld(t, newRuntime(keptByTheBus))
	w.provider.NextCreateErr(sandbox.NewCapacityError("full"))
	refused := make(chan error, 1)
	go func() {
		_, err := w.Table.Acquire(t.Context(), w.tableRuntime(), "")
		refused <- err
	}()
	eventually(t, "the run to wait", func() bool { return w.Table.Activity(w.tableRuntime()).Wanted })
	w.settle()
	select {
	case err := <-refused:
		if !sandbox.IsCapacity(err) {
			t.Errorf("the run is told %v", err)
		}
	default:
		t.Error("the run still waits")
	}
}
