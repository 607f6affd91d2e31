package engine_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

func TestEngine_registrationsWaitForMetadata(t *testing.T) {
	e := startEngine(t, func(c *engine.Config) { c.NamespaceGrace = time.Hour })
	observer := connect(t, e, "observer")
	late := dial(t, e.URL("workers"), nil)
	late.greeted()
	late.send(&protocol.RegisterFunction{ID: "late::f"})
	late.serve("late::f", echo)
	// The worker's own call waits with its registration, those of others do not.
	own := late.start("late::f", map[string]any{})
	late.send(&protocol.Ping{})
	next[*protocol.Pong](late)
	if got := codeOf(observer.call("late::f", nil)); got != protocol.CodeFunctionNotFound {
		t.Errorf("before metadata: code %q", got)
	}
	late.identify("late")
	if got := codeOf(late.answerTo(own)); got != "" {
		t.Errorf("own call: code %q", got)
	}
	if got := codeOf(observer.call("late::f", nil)); got != "" {
		t.Errorf("after metadata: code %q", got)
	}
}

func TestEngine_graceEndsThePendingPhase(t *testing.T) {
	e := startEngine(t, func(c *engine.Config) { c.NamespaceGrace = 50 * time.Millisecond })
	observer := connect(t, e, "observer")
	silent := dial(t, e.URL("workers"), nil)
	silent.send(&protocol.RegisterFunction{ID: "silent::f"})
	silent.serve("silent::f", echo)
	eventually(t, "the silent worker's function", func() bool { return codeOf(observer.call("silent::f", nil)) == "" })
	if got := observer.workerNames(); !cmp.Equal(got, []string{"observer"}) {
		t.Errorf("workers %v; one without metadata must be hidden", got)
	}
}

func TestEngine_namespacesAreSeparate(t *testing.T) {
	e := startEngine(t)
	observer, other := connect(t, e, "observer"), dial(t, e.URL("workers"), nil)
	other.greeted()
	other.void(protocol.FunctionWorkersRegister, map[string]any{"name": "observer", "namespace": "team"})
	other.send(&protocol.RegisterFunction{ID: "f::x"})
	other.serve("f::x", echo)
	eventually(t, "the function", func() bool {
		return codeOf(observer.call(protocol.FunctionFunctionsInfo, map[string]string{"function_id": "f::x"})) == ""
	})
	if got := codeOf(observer.call("f::x", nil)); got != protocol.CodeFunctionNotFound {
		t.Errorf("in default: code %q", got)
	}
	team, id := "team", uuid.NewString()
	observer.send(&protocol.InvokeFunction{InvocationID: id, FunctionID: "f::x", Namespace: &team})
	if got := codeOf(observer.answerTo(id)); got != "" {
		t.Errorf("in team: code %q", got)
	}
}

func TestEngine_functionConflict(t *testing.T) {
	e := startEngine(t)
	first, second := connect(t, e, "first"), connect(t, e, "second")
	first.register("f::x")
	for name, tc := range map[string]struct{ function, owner string }{
		"a live owner keeps its function":  {"f::x", first.id},
		"the engine keeps its functions":   {protocol.FunctionFunctionsList, ""},
		"the engine keeps its prefix":      {"engine::mine", ""},
		"the engine keeps publish as well": {"publish", ""},
	} {
		t.Run(name, func(t *testing.T) {
			second.send(&protocol.RegisterFunction{ID: tc.function})
			want := &protocol.RegistrationRejected{
				Code: protocol.CodeFunctionConflict, Namespace: "default", FunctionID: tc.function, OwnerWorkerID: tc.owner,
			}
			if diff := cmp.Diff(want, next[*protocol.RegistrationRejected](second)); diff != "" {
				t.Errorf("rejection (-want +got):\n%s", diff)
			}
		})
	}
	first.send(&protocol.UnregisterFunction{ID: "f::x"})
	first.call(protocol.FunctionWorkersList, nil)
	second.register("f::x")
}

func TestEngine_sameWorkerReplacesItsFunction(t *testing.T) {
	e := startEngine(t)
	p := connect(t, e, "p")
	p.send(&protocol.RegisterFunction{ID: "f::x", Description: "old", RequestFormat: raw(map[string]string{"type": "object"})})
	p.send(&protocol.RegisterFunction{ID: "f::x", Description: "new", Metadata: raw(map[string]string{"team": "ops"})})
	var got map[string]any
	parse(t, p.call(protocol.FunctionFunctionsInfo, map[string]string{"function_id": "f::x"}).Result, &got)
	want := map[string]any{
		"function_id": "f::x", "namespace": "default", "worker_name": "p", "description": "new",
		"metadata": map[string]any{"team": "ops"}, "registered_triggers": []any{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("info (-want +got):\n%s", diff)
	}
}

func TestEngine_workerNameConflictEndsTheNewcomer(t *testing.T) {
	e := startEngine(t)
	first := connect(t, e, "name")
	second := dial(t, e.URL("workers"), nil)
	second.greeted()
	second.send(&protocol.RegisterFunction{ID: "second::f"})
	second.identify("name")
	want := &protocol.RegistrationRejected{
		Code: protocol.CodeWorkerConflict, Namespace: "default", WorkerName: "name", OwnerWorkerID: first.id,
	}
	if diff := cmp.Diff(want, next[*protocol.RegistrationRejected](second)); diff != "" {
		t.Errorf("rejection (-want +got):\n%s", diff)
	}
	second.ended()
	if got := codeOf(first.call("second::f", nil)); got != protocol.CodeFunctionNotFound {
		t.Errorf("code %q", got)
	}
	_ = first.socket.CloseNow()
	third := connect(t, e, "observer")
	eventually(t, "the name to be free", func() bool { return cmp.Equal(third.workerNames(), []string{"observer"}) })
	third.identify("name")
	eventually(t, "the new name", func() bool { return cmp.Equal(third.workerNames(), []string{"name"}) })
}

func TestEngine_reattachEvictsTheFormerSelf(t *testing.T) {
	e := startEngine(t)
	old := connect(t, e, "name")
	old.register("f::x")
	for name, token := range map[string]string{"a wrong token": "wrong", "no token": ""} {
		t.Run(name+" evicts nobody", func(t *testing.T) {
			p := dial(t, e.URL("workers"), nil)
			p.send(&protocol.Reattach{PreviousWorkerID: old.id, ReattachToken: token})
			p.send(&protocol.Ping{})
			next[*protocol.Pong](p)
			if old.call(protocol.FunctionWorkersList, nil).Error != nil {
				t.Error("the old connection suffers")
			}
		})
	}
	again := dial(t, e.URL("workers"), nil)
	again.send(&protocol.Reattach{PreviousWorkerID: old.id, ReattachToken: old.token})
	again.send(&protocol.RegisterFunction{ID: "f::x"})
	again.greeted()
	again.identify("name")
	old.ended()
	again.serve("f::x", echo)
	if got := codeOf(again.call("f::x", nil)); got != "" {
		t.Errorf("code %q", got)
	}
	if again.id == old.id || again.token == old.token {
		t.Error("the new connection has the identity of the old one")
	}
}

func TestEngine_workerListing(t *testing.T) {
	e := startEngine(t)
	p := dial(t, e.URL("workers"), nil)
	p.greeted()
	answer := p.call(protocol.FunctionWorkersRegister, json.RawMessage(
		`{"runtime":"go","version":"1","name":" a\u202eb\u0007 ","description":null,"os":"linux","pid":42,"isolation":null,"telemetry":{"x":1}}`))
	if string(answer.Result) != `{"success":true}` {
		t.Errorf("answer %s", answer.Result)
	}
	var got struct{ Workers []map[string]any }
	parse(t, p.call(protocol.FunctionWorkersList, map[string]string{"runtime": "go"}).Result, &got)
	if len(got.Workers) != 1 {
		t.Fatalf("workers %v", got.Workers)
	}
	delete(got.Workers[0], "connected_at_ms")
	want := map[string]any{
		"name": "ab", "description": nil, "version": "1", "id": p.id, "namespace": "default", "runtime": "go", "os": "linux",
		"status": "connected", "function_count": 0.0, "active_invocations": 0.0, "isolation": nil, "ip_address": "127.0.0.1",
	}
	if diff := cmp.Diff(want, got.Workers[0]); diff != "" {
		t.Errorf("worker (-want +got):\n%s", diff)
	}
}
