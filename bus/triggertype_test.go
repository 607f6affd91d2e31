package bus

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// recordingType is a provider that reports what it is told and refuses
// bindings of function "bad".
func recordingType(calls chan string) TriggerType {
	return TriggerType{
		ID: "mail", Description: "mail came",
		Register: func(_ context.Context, b Binding) error {
			calls <- "+" + b.ID + " " + b.FunctionID + " " + string(b.Config) + " " + b.Namespace
			switch b.FunctionID {
			case "bad":
				return errors.New("mailbox unknown")
			case "coded":
				return &RemoteError{Code: "mailbox_full", Message: "full"}
			case "panics":
				panic("provider bug")
			}
			return nil
		},
		Unregister: func(b Binding) { calls <- "-" + b.ID + " " + b.FunctionID },
	}
}

func provide(calls chan string) func(*Client) {
	return func(c *Client) {
		if err := c.RegisterTriggerType(recordingType(calls)); err != nil {
			panic(err)
		}
	}
}

func (p *peer) bind(id, kind, function string) *protocol.TriggerRegistrationResult {
	p.t.Helper()
	p.send(&protocol.RegisterTrigger{ID: id, TriggerType: kind, FunctionID: function, Config: json.RawMessage(`{"box":1}`)})
	return next[*protocol.TriggerRegistrationResult](p)
}

func TestTriggerType_bindings(t *testing.T) {
	calls := make(chan string, 16)
	_, p, e := startAdmitted(t, nil, provide(calls))
	next[*protocol.RegisterTriggerType](p)

	for _, tc := range []struct{ name, kind, function, wantCode string }{
		{"a binding is taken on", "mail", "good", ""},
		{"a refusal says why", "mail", "bad", protocol.CodeTriggerRegistrationFailed},
		{"a refusal keeps its code", "mail", "coded", "mailbox_full"},
		{"a panic is a refusal", "mail", "panics", protocol.CodeTriggerRegistrationFailed},
		{"another type is unknown", "fax", "good", protocol.CodeTriggerTypeNotFound},
	} {
		got := p.bind(tc.function, tc.kind, tc.function)
		code := ""
		if got.Error != nil {
			code = got.Error.Code
		}
		if code != tc.wantCode || got.ID != tc.function || got.TriggerType != tc.kind || got.FunctionID != tc.function {
			t.Errorf("%s: answer %+v", tc.name, got)
		}
	}
	for _, want := range []string{"good", "bad", "coded", "panics"} {
		if diff := cmp.Diff("+"+want+" "+want+` {"box":1} `, receive(t, calls)); diff != "" {
			t.Errorf("provider call (-want +got):\n%s", diff)
		}
	}

	// The same id again replaces its binding.
	p.bind("good", "mail", "other")
	if got := receive(t, calls); got != "-good good" {
		t.Errorf("provider call %q, want the old binding's end", got)
	}
	receive(t, calls)
	p.send(&protocol.UnregisterTrigger{ID: "good", TriggerType: "mail"})
	p.send(&protocol.UnregisterTrigger{ID: "unknown", TriggerType: "mail"})
	if got := receive(t, calls); got != "-good other" {
		t.Errorf("provider call %q, want the binding's end", got)
	}

	// A lost connection ends the bindings, a new one brings them again.
	p.bind("kept", "mail", "kept")
	receive(t, calls)
	p.drop()
	if got := receive(t, calls); got != "-kept kept" {
		t.Errorf("provider call %q, want the lost binding's end", got)
	}
	second := e.accept(t)
	next[*protocol.Reattach](second)
	second.admit("w2")
	next[*protocol.RegisterTriggerType](second)
	second.bind("kept", "mail", "kept")
	receive(t, calls)
}

func TestTriggerType_endsWithRun(t *testing.T) {
	calls := make(chan string, 16)
	r, p, _ := startAdmitted(t, nil, provide(calls))
	next[*protocol.RegisterTriggerType](p)
	p.bind("b1", "mail", "f")
	receive(t, calls)
	r.cancel()
	if got := receive(t, calls); got != "-b1 f" {
		t.Errorf("provider call %q, want the binding's end", got)
	}
}

func TestClient_registersTriggers(t *testing.T) {
	r, p, _ := startAdmitted(t, nil)
	trigger := Trigger{ID: "t1", Type: "http", FunctionID: "a::f", Metadata: json.RawMessage(`{"m":1}`), TriggerNamespace: "shop"}
	if err := r.RegisterTrigger(trigger); err != nil {
		t.Fatal(err)
	}
	namespace := "shop"
	want := &protocol.RegisterTrigger{
		ID: "t1", TriggerType: "http", FunctionID: "a::f", Config: json.RawMessage("{}"),
		Metadata: trigger.Metadata, TriggerNamespace: &namespace,
	}
	if diff := cmp.Diff(want, next[*protocol.RegisterTrigger](p)); diff != "" {
		t.Errorf("frame (-want +got):\n%s", diff)
	}
	r.UnregisterTrigger("t1")
	if diff := cmp.Diff(&protocol.UnregisterTrigger{ID: "t1", TriggerType: "http"}, next[*protocol.UnregisterTrigger](p)); diff != "" {
		t.Errorf("frame (-want +got):\n%s", diff)
	}
	for name, bad := range map[string]Trigger{
		"no id": {Type: "http", FunctionID: "a::f"}, "no type": {ID: "t", FunctionID: "a::f"},
		"no function": {ID: "t", Type: "http"}, "a config no JSON": {ID: "t", Type: "http", FunctionID: "f", Config: json.RawMessage("{")},
	} {
		if r.RegisterTrigger(bad) == nil {
			t.Errorf("a trigger with %s is accepted", name)
		}
	}
	if r.RegisterTriggerType(TriggerType{ID: "mail"}) == nil || r.RegisterTriggerType(TriggerType{Register: acceptAny}) == nil {
		t.Error("an incomplete trigger type is accepted")
	}
}
