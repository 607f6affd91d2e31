package sandboxruntime

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

// agentReplies answers every subcommand of the agent as a healthy guest does.
func agentReplies(t *testing.T) fake.ExecFunc {
	return agentThatRuns(t, func(string) wire.Run { return wire.Run{} })
}

// agentThatRuns is a healthy agent whose installer and shell fare as run says; it
// gets the command, or the packages after "install".
func agentThatRuns(t *testing.T, run func(command string) wire.Run) fake.ExecFunc {
	return func(_ context.Context, _ sandbox.Info, req sandbox.ExecRequest) (sandbox.ExecResult, error) {
		reply := wire.Reply{Init: &wire.Init{AgentDigest: agentDigest, NodeVersion: "20.0.0"}}
		switch req.Argv[1] {
		case wire.CommandInstall:
			var request wire.InstallRequest
			decode(t, req.Stdin, &request)
			outcome := run("install " + strings.Join(request.Packages, " "))
			reply = wire.Reply{Run: &outcome}
		case wire.CommandSetup:
			var request wire.SetupRequest
			decode(t, req.Stdin, &request)
			outcome := run(request.Command)
			reply = wire.Reply{Run: &outcome}
		}
		frame, err := wire.EncodeReply(reply)
		return sandbox.ExecResult{Stdout: frame}, err
	}
}

func decode(t *testing.T, stdin []byte, request any) {
	if err := json.Unmarshal(stdin, request); err != nil {
		t.Error(err)
	}
}

// expectReady checks the Ready condition, and that the status keeps the promises
// that hold in every state.
func (w *world) expectReady(status metav1.ConditionStatus, reason string) {
	w.t.Helper()
	obj := w.get()
	ready := conditions.Find(obj, sandboxv1alpha1.ReadyCondition)
	if ready == nil || ready.Status != status || ready.Reason != reason {
		w.t.Errorf("Ready is %+v, want %s for %s", ready, status, reason)
	}
	w.expectNoSecrets(obj)
}

// expectNoSecrets checks that neither handles nor nonces are shown.
func (w *world) expectNoSecrets(obj *sandboxv1alpha1.SandboxRuntime) {
	w.t.Helper()
	shown, err := json.Marshal(obj)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, info := range w.sandboxes() {
		marker, err := sandbox.ParseMarker(info.Name)
		if err != nil {
			continue
		}
		if strings.Contains(string(shown), info.ID.Reveal()) || strings.Contains(string(shown), marker.Nonce) {
			w.t.Errorf("the object shows a handle or a nonce: %s", shown)
		}
	}
}
