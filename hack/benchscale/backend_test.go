package main

import (
	"encoding/json"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/guest/runner"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/daemontest"
	"github.com/sandbox-operator/sandbox-operator/sandbox/iii"
)

var program = guest.AgentProgram{Bytes: []byte("an agent"), Digest: guest.SourceDigest([]byte("an agent"))}

// TestBackend drives scripted sandboxes as the operator does: over a real engine
// and daemon, with the agent's frames.
func TestBackend(t *testing.T) {
	b := newBackend()
	stack := daemontest.Start(t, daemontest.Options{Backend: b, Config: daemontest.Config()})
	provider := iii.New(iii.Options{Client: stack.Client})
	r := runner.New(provider, program)
	booted, err := r.Boot(t.Context(), sandbox.CreateRequest{
		Image: "node", Marker: sandbox.Marker{Operator: "op", Object: "obj", Nonce: "n"},
	})
	if err != nil || booted.Init.AgentDigest != program.Digest {
		t.Fatalf("booted with %+v, %v", booted.Init, err)
	}
	f := function{number: 7, runtimes: 3}
	source := f.source(1)
	digest := guest.SourceDigest([]byte(source))
	err = r.Plant(t.Context(), booted.ID, wire.PlantRequest{
		Language: wire.Node, SourceDigest: digest, Handler: "handler", Source: source,
	})
	if err != nil {
		t.Fatal(err)
	}
	reply, err := r.Call(t.Context(), booted.ID, wire.CallRequest{
		Language: wire.Node, SourceDigest: digest, Handler: "handler", TimeoutMs: 1000,
	})
	var answer string
	if err != nil || json.Unmarshal(reply.Result, &answer) != nil || answer != source {
		t.Errorf("the call answers %+v, %v", reply, err)
	}
	if err := provider.Touch(t.Context(), booted.ID); err != nil {
		t.Errorf("renewing the lease: %v", err)
	}
	if err := provider.Stop(t.Context(), booted.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Call(t.Context(), booted.ID, wire.CallRequest{}); !sandbox.IsNotFound(err) {
		t.Errorf("a call of a stopped sandbox: %v", err)
	}
	if len(b.machines) != 0 {
		t.Errorf("%d sandboxes are left", len(b.machines))
	}
}
