package engine_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// withTenants is a listener as an operator of several tenants configures it.
func withTenants(c *engine.Config) {
	c.Listeners = append(c.Listeners, engine.Listener{
		Name: "guests", Address: "127.0.0.1:0", MiddlewareFunctionID: "gate::middleware",
		Policy: &engine.Policy{
			AuthFunctionID: "gate::auth",
			Expose: []engine.Exposure{
				{Match: `match("public::*")`}, {Metadata: map[string]any{"open": true}}, {Match: "team::*", Namespace: "team"},
			},
			OnFunctionRegistrationFunctionID:    "gate::function",
			OnTriggerRegistrationFunctionID:     "gate::trigger",
			OnTriggerTypeRegistrationFunctionID: "gate::type",
		},
	})
}

// gate serves what withTenants names. What its hooks were asked arrives on the
// channel.
func gate(t *testing.T, e *engine.Engine, grants map[string]any) (*peer, <-chan map[string]any) {
	t.Helper()
	p := connect(t, e, "gate")
	asked := make(chan map[string]any, 64)
	hook := func(answer func(map[string]any) any) handler {
		return func(m *protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody) {
			request := map[string]any{}
			if err := json.Unmarshal(m.Data, &request); err != nil {
				t.Error(err)
			}
			asked <- request
			return raw(answer(request)), nil
		}
	}
	unless := func(field string, change map[string]any) func(map[string]any) any {
		return func(request map[string]any) any {
			if strings.HasPrefix(request[field].(string), "denied") {
				return false
			}
			return change
		}
	}
	handlers := map[string]handler{
		"gate::auth":     func(*protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody) { return raw(grants), nil },
		"gate::function": hook(unless("function_id", map[string]any{"metadata": map[string]any{"open": true}})),
		"gate::trigger":  hook(unless("trigger_id", map[string]any{"metadata": map[string]any{"seen": true}})),
		"gate::type":     hook(unless("trigger_type_id", map[string]any{"description": "changed"})),
	}
	for id, h := range handlers {
		p.register(id)
		p.serve(id, h)
	}
	p.register("gate::middleware")
	p.serveCalling("gate::middleware", throughGate(p))
	return p, asked
}

// throughGate calls the function itself, with what the session's context says.
func throughGate(p *peer) handler {
	return func(m *protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody) {
		var input struct {
			FunctionID string `json:"function_id"`
			Payload    map[string]any
			Action     *protocol.Action
			Context    map[string]string
			Namespace  string
		}
		if err := json.Unmarshal(m.Data, &input); err != nil {
			return nil, &protocol.ErrorBody{Code: "bad_input", Message: err.Error()}
		}
		if _, named := input.Payload["_caller_worker_id"]; named {
			return nil, &protocol.ErrorBody{Code: "bad_input", Message: "middleware input names the caller"}
		}
		payload := map[string]any{"user": input.Context["user"], "namespace": input.Namespace, "void": input.Action != nil}
		answer := p.call(input.FunctionID, payload)
		return answer.Result, answer.Error
	}
}

func guestOf(t *testing.T, e *engine.Engine) *peer {
	t.Helper()
	guest := dial(t, e.URL("guests"), http.Header{"X-Token": {"abc"}})
	guest.greeted()
	guest.identify("guest")
	return guest
}

func TestEngine_listenerMiddleware(t *testing.T) {
	e := startEngine(t, withTenants)
	owner, _ := gate(t, e, map[string]any{"context": map[string]string{"user": "u1"}})
	for _, f := range []string{"public::echo", "hidden"} {
		owner.register(f)
		owner.serve(f, echo)
	}
	owner.send(&protocol.RegisterFunction{ID: "described", Metadata: raw(map[string]bool{"open": true})})
	owner.serve("described", echo)
	guest := guestOf(t, e)
	for name, tc := range map[string]struct {
		function string
		want     string
		wantCode string
	}{
		"its result is the call's":            {"public::echo", "u1", ""},
		"an exposure by metadata":             {"described", "u1", ""},
		"it does not open what is closed":     {"hidden", "", protocol.CodeForbidden},
		"functions of the engine go past it":  {protocol.FunctionChannelsCreate, "", ""},
		"what does not exist fails behind it": {"public::absent", "", protocol.CodeFunctionNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			answer := guest.call(tc.function, map[string]any{"user": "forged"})
			var got struct {
				User      string
				Namespace string
			}
			if answer.Result != nil {
				parse(t, answer.Result, &got)
			}
			if codeOf(answer) != tc.wantCode || got.User != tc.want {
				t.Errorf("got %s %+v", answer.Result, answer.Error)
			}
		})
	}
	called := make(chan string, 1)
	owner.serve("public::echo", func(m *protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody) {
		called <- string(m.Data)
		return nil, nil
	})
	guest.void("public::echo", map[string]any{})
	if got := <-called; !strings.Contains(got, `"void":true`) {
		t.Errorf("a void call arrives as %s", got)
	}
	owner.working.Wait()
}

func TestEngine_middlewareOfATrustedListenerSkipsItsOwnWorker(t *testing.T) {
	e := startEngine(t, func(c *engine.Config) { c.Listeners[0].MiddlewareFunctionID = "gate::middleware" })
	owner, caller := connect(t, e, "owner"), connect(t, e, "caller")
	owner.register("gate::middleware")
	owner.register("shop::price")
	owner.serve("shop::price", echo)
	owner.serveCalling("gate::middleware", throughGate(owner))
	var got map[string]any
	parse(t, caller.call("shop::price", map[string]any{}).Result, &got)
	if got["namespace"] != "default" {
		t.Errorf("got %v", got)
	}
}

func TestEngine_registrationHooks(t *testing.T) {
	e := startEngine(t, withTenants)
	owner, asked := gate(t, e, map[string]any{
		"context": map[string]string{"user": "u1"}, "allow_trigger_type_registration": true,
		"allowed_functions": []string{"own"}, "allowed_trigger_types": []string{"subscribe"},
	})
	guest := guestOf(t, e)
	context := map[string]any{"user": "u1"}
	for _, step := range []struct {
		what string
		send protocol.Message
		want map[string]any
	}{
		{
			"a function is described to its hook",
			&protocol.RegisterFunction{ID: "own", Description: "d", Metadata: raw(map[string]int{"a": 1})},
			map[string]any{"function_id": "own", "description": "d", "metadata": map[string]any{"a": 1.0}, "namespace": "default", "context": context},
		},
		{
			"a function may be dropped", &protocol.RegisterFunction{ID: "denied::f"},
			map[string]any{"function_id": "denied::f", "description": "", "metadata": nil, "namespace": "default", "context": context},
		},
		{
			"a type is described to its hook", &protocol.RegisterTriggerType{ID: "mailbox", Description: "d"},
			map[string]any{"trigger_type_id": "mailbox", "description": "d", "context": context},
		},
		{
			"a type may be dropped", &protocol.RegisterTriggerType{ID: "denied-type", Description: "d"},
			map[string]any{"trigger_type_id": "denied-type", "description": "d", "context": context},
		},
		{
			"a trigger is described to its hook",
			&protocol.RegisterTrigger{ID: "t1", TriggerType: "subscribe", FunctionID: "own", Config: raw(map[string]string{"topic": "x"})},
			map[string]any{
				"trigger_id": "t1", "trigger_type": "subscribe", "function_id": "own", "config": map[string]any{"topic": "x"},
				"metadata": nil, "namespace": "default", "context": context,
			},
		},
		{
			"a trigger may be dropped",
			&protocol.RegisterTrigger{ID: "denied-t", TriggerType: "subscribe", FunctionID: "own", Config: raw(map[string]string{"topic": "x"})},
			map[string]any{
				"trigger_id": "denied-t", "trigger_type": "subscribe", "function_id": "own", "config": map[string]any{"topic": "x"},
				"metadata": nil, "namespace": "default", "context": context,
			},
		},
	} {
		t.Run(step.what, func(t *testing.T) {
			guest.send(step.send)
			if diff := cmp.Diff(step.want, <-asked); diff != "" {
				t.Errorf("the hook got (-want +got):\n%s", diff)
			}
		})
	}
	eventually(t, "the trigger that was let through", func() bool { return cmp.Equal(owner.triggerIDs("subscribe"), []string{"t1"}) })
	var function struct{ Metadata map[string]any }
	parse(t, owner.call(protocol.FunctionFunctionsInfo, map[string]string{"function_id": "own"}).Result, &function)
	if diff := cmp.Diff(map[string]any{"open": true}, function.Metadata); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	var kind struct{ Description string }
	parse(t, owner.call(protocol.FunctionTriggersInfo, map[string]string{"id": "mailbox"}).Result, &kind)
	if kind.Description != "changed" {
		t.Errorf("the type says %q", kind.Description)
	}
	if got := codeOf(owner.call(protocol.FunctionFunctionsInfo, map[string]string{"function_id": "denied::f"})); got != protocol.CodeNotFound {
		t.Errorf("the dropped function: %q", got)
	}
	guest.bind("t2", "cron", "own", map[string]string{"expression": "* * * * * *"})
	if got := next[*protocol.TriggerRegistrationResult](guest); got.ID != "t2" || got.Error.Code != protocol.CodeForbidden {
		t.Errorf("a type that is not allowed: %+v", got)
	}
}

func TestEngine_hooksMayRename(t *testing.T) {
	e := startEngine(t, withTenants)
	owner, _ := gate(t, e, map[string]any{"allowed_functions": []string{"tenant::own"}})
	answerWith := func(change map[string]any) handler {
		return func(*protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody) { return raw(change), nil }
	}
	owner.serve("gate::function", answerWith(map[string]any{"function_id": "tenant::own"}))
	owner.serve("gate::trigger", answerWith(map[string]any{"trigger_id": "tenant-t1", "function_id": "tenant::own"}))
	guest := guestOf(t, e)
	guest.send(&protocol.RegisterFunction{ID: "own"})
	guest.serve("own", echo)
	eventually(t, "the renamed function", func() bool { return codeOf(owner.call("tenant::own", nil)) == "" })
	guest.bind("t1", "subscribe", "own", map[string]string{"topic": "x"})
	eventually(t, "the renamed trigger", func() bool { return cmp.Equal(owner.triggerIDs("subscribe"), []string{"tenant-t1"}) })
	guest.send(&protocol.UnregisterTrigger{ID: "t1"})
	guest.send(&protocol.UnregisterFunction{ID: "own"})
	eventually(t, "both to be gone", func() bool {
		return len(owner.triggerIDs("subscribe")) == 0 && codeOf(owner.call("tenant::own", nil)) == protocol.CodeFunctionNotFound
	})
}

func TestEngine_grantedNamespaces(t *testing.T) {
	e := startEngine(t, withTenants)
	owner, _ := gate(t, e, map[string]any{"namespaces": map[string]any{"team": []string{`match("team::*")`}}})
	owner.serveCalling("gate::middleware", func(_ *protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody) {
		return raw("reached"), nil
	})
	guest := dial(t, e.URL("guests"), nil)
	guest.greeted()
	register := func(namespace string) string {
		return codeOf(guest.call(protocol.FunctionWorkersRegister, map[string]any{"name": "g", "pid": 1, "namespace": namespace}))
	}
	if got := register("other"); got != protocol.CodeForbidden {
		t.Errorf("another namespace: %q", got)
	}
	if got := register("team"); got != "" {
		t.Errorf("the granted namespace: %q", got)
	}
	for function, want := range map[string]string{"team::x": "", "solo::x": protocol.CodeForbidden} {
		id := guest.startIn("team", function)
		if got := codeOf(guest.answerTo(id)); got != want {
			t.Errorf("%s: code %q, want %q", function, got, want)
		}
	}
}
