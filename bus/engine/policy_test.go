package engine_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

func withGuests(p engine.Policy) func(*engine.Config) {
	return func(c *engine.Config) {
		c.Listeners = append(c.Listeners, engine.Listener{Name: "guests", Address: "127.0.0.1:0", Policy: &p})
	}
}

func TestEngine_guestListener(t *testing.T) {
	e := startEngine(t, withHTTP, withGuests(engine.Policy{ForbiddenFunctions: []string{"sandbox::*", "secret"}, AllowFunctionRegistration: true}))
	owner := connect(t, e, "owner")
	for _, f := range []string{"sandbox::create", "secret", "shop::price"} {
		owner.register(f)
		owner.serve(f, echo)
	}
	owner.bind("t1", "subscribe", "shop::price", map[string]string{"topic": "x"})
	guest := dial(t, e.URL("guests"), nil)
	guest.greeted()
	guest.identify("guest")
	for name, tc := range map[string]struct {
		function string
		data     any
		wantCode string
	}{
		"a pattern forbids":                   {"sandbox::create", nil, protocol.CodeForbidden},
		"also what does not exist":            {"sandbox::absent", nil, protocol.CodeForbidden},
		"an exact id forbids":                 {"secret", nil, protocol.CodeForbidden},
		"the rest is open":                    {"shop::price", map[string]int{}, ""},
		"discovery is open":                   {protocol.FunctionFunctionsList, nil, ""},
		"discovery hides what is forbidden":   {protocol.FunctionFunctionsInfo, map[string]string{"function_id": "secret"}, protocol.CodeForbidden},
		"triggers need leave":                 {protocol.FunctionRegisterTrigger, map[string]string{"trigger_type": "cron", "function_id": "sandbox::create"}, protocol.CodeForbidden},
		"an unknown function is not found":    {"shop::absent", nil, protocol.CodeFunctionNotFound},
		"channels are open to whoever has it": {protocol.FunctionChannelsCreate, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := codeOf(guest.call(tc.function, tc.data)); got != tc.wantCode {
				t.Errorf("code %q, want %q", got, tc.wantCode)
			}
		})
	}
	if got := guest.functionIDs(); !cmp.Equal(got, []string{"publish", "shop::price"}) {
		t.Errorf("the guest sees %v", got)
	}
	guest.bind("t2", "http", "shop::price", map[string]string{"api_path": "/x"})
	if got := next[*protocol.TriggerRegistrationResult](guest); got.Error.Code != protocol.CodeForbidden {
		t.Errorf("trigger: %+v", got.Error)
	}
	guest.send(&protocol.RegisterFunction{ID: "sandbox::stolen"})
	if got := next[*protocol.RegistrationRejected](guest); got.FunctionID != "sandbox::stolen" || got.OwnerWorkerID != "" {
		t.Errorf("rejection %+v", got)
	}
	guest.register("guest::own")
	guest.send(&protocol.UnregisterTrigger{ID: "t1"})
	guest.call(protocol.FunctionFunctionsList, nil)
	if got := owner.triggerIDs("subscribe"); !cmp.Equal(got, []string{"t1"}) {
		t.Errorf("a guest removed a stranger's trigger; left: %v", got)
	}
}

func (p *peer) functionIDs() []string {
	p.t.Helper()
	var list struct {
		Functions []struct {
			ID string `json:"function_id"`
		}
	}
	parse(p.t, p.call(protocol.FunctionFunctionsList, nil).Result, &list)
	ids := []string{}
	for _, f := range list.Functions {
		ids = append(ids, f.ID)
	}
	return ids
}

func TestEngine_guestTriggersMayNotReachAround(t *testing.T) {
	e := startEngine(t, withHTTP, withGuests(engine.Policy{ForbiddenFunctions: []string{"sandbox::*"}, AllowTriggerRegistration: true}))
	guest := dial(t, e.URL("guests"), nil)
	guest.greeted()
	guest.identify("guest")
	for name, trigger := range map[string]*protocol.RegisterTrigger{
		"as a target":    {ID: "t1", TriggerType: "http", FunctionID: "sandbox::create", Config: raw(map[string]any{"api_path": "/x"})},
		"as a condition": {ID: "t1", TriggerType: "http", FunctionID: "f", Config: raw(map[string]any{"api_path": "/x", "condition_function_id": "sandbox::x"})},
		"as middleware":  {ID: "t1", TriggerType: "http", FunctionID: "f", Config: raw(map[string]any{"api_path": "/x", "middleware_function_ids": []string{"sandbox::x"}})},
	} {
		t.Run(name, func(t *testing.T) {
			guest.send(trigger)
			if got := next[*protocol.TriggerRegistrationResult](guest); got.Error.Code != protocol.CodeForbidden {
				t.Errorf("got %+v", got.Error)
			}
		})
	}
	guest.send(&protocol.RegisterFunction{ID: "guest::own"})
	next[*protocol.RegistrationRejected](guest)
}

// A namespace without a grant may be joined all the same, and no other one.
func TestEngine_namespaceWithoutGrants(t *testing.T) {
	e := startEngine(t, withGuests(engine.Policy{AuthFunctionID: "auth"}))
	owner := connect(t, e, "owner")
	for _, f := range []string{"auth", "shop::price"} {
		owner.register(f)
		owner.serve(f, echo)
	}
	owner.serve("auth", func(*protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody) {
		return raw(map[string]any{"namespaces": map[string][]string{"default": {}}}), nil
	})
	guest := dial(t, e.URL("guests"), nil)
	guest.greeted()
	register := func(namespace string) string {
		return codeOf(guest.call(protocol.FunctionWorkersRegister, map[string]any{"runtime": "raw", "name": "g", "pid": 7, "namespace": namespace}))
	}
	if got := register("hidden"); got != protocol.CodeForbidden {
		t.Errorf("another namespace: code %q", got)
	}
	if got := register("default"); got != "" {
		t.Errorf("the granted one: code %q", got)
	}
	if got := codeOf(guest.call("shop::price", nil)); got != protocol.CodeForbidden {
		t.Errorf("a call without a grant: code %q", got)
	}
}

func TestEngine_guestToken(t *testing.T) {
	e := startEngine(t, withGuests(engine.Policy{Token: "let-me-in"}))
	for name, tc := range map[string]struct {
		query  string
		header string
		wantIn bool
	}{
		"as a header":          {"", "Bearer let-me-in", true},
		"in the query":         {"?token=let-me-in", "", true},
		"a wrong one":          {"?token=wrong", "", false},
		"none":                 {"", "", false},
		"a wrong header first": {"?token=let-me-in", "Bearer wrong", false},
	} {
		t.Run(name, func(t *testing.T) {
			header := http.Header{}
			if tc.header != "" {
				header.Set("Authorization", tc.header)
			}
			p := dial(t, e.URL("guests")+"/"+tc.query, header)
			if tc.wantIn {
				p.greeted()
				return
			}
			if got := next[*protocol.Error](p); got.Error.Code != protocol.CodeAuthError {
				t.Errorf("got %+v", got)
			}
			p.ended()
		})
	}
}

func TestEngine_authFunction(t *testing.T) {
	e := startEngine(t, withGuests(engine.Policy{AuthFunctionID: "auth", ExposeFunctions: []string{"public::*"}}))
	owner := connect(t, e, "owner")
	for _, f := range []string{"auth", "public::a", "extra", "hidden"} {
		owner.register(f)
		owner.serve(f, echo)
	}
	asked := make(chan json.RawMessage, 1)
	owner.serve("auth", func(m *protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody) {
		asked <- m.Data
		return raw(map[string]any{
			"allowed_functions": []string{"extra"}, "forbidden_functions": []string{"public::b"},
			"function_registration_prefix": "tenant", "allowed_trigger_types": []string{"subscribe"},
		}), nil
	})
	guest := dial(t, e.URL("guests")+"/?token=abc", nil)
	guest.greeted()
	guest.identify("guest")
	var request struct {
		QueryParams map[string][]string `json:"query_params"`
		IPAddress   string              `json:"ip_address"`
	}
	parse(t, <-asked, &request)
	if request.IPAddress != "127.0.0.1" || !cmp.Equal(request.QueryParams, map[string][]string{"token": {"abc"}}) {
		t.Errorf("the auth function got %+v", request)
	}
	for function, want := range map[string]string{
		"public::a": "", "extra": "", "hidden": protocol.CodeForbidden, "public::b": protocol.CodeForbidden,
		protocol.FunctionWorkersList: protocol.CodeForbidden, protocol.FunctionChannelsCreate: "",
	} {
		if got := codeOf(guest.call(function, map[string]int{})); got != want {
			t.Errorf("%s: code %q, want %q", function, got, want)
		}
	}
	guest.send(&protocol.RegisterFunction{ID: "own"})
	guest.serve("own", echo)
	eventually(t, "the prefixed function", func() bool { return codeOf(owner.call("tenant::own", nil)) == "" })
	guest.bind("t1", "subscribe", "own", map[string]string{"topic": "x"})
	eventually(t, "the guest's trigger", func() bool { return len(owner.triggerIDs("subscribe")) == 1 })
	guest.bind("t2", "cron", "own", map[string]string{"expression": "* * * * * *"})
	if got := next[*protocol.TriggerRegistrationResult](guest); got.Error.Code != protocol.CodeForbidden {
		t.Errorf("trigger: %+v", got.Error)
	}

	owner.serve("auth", func(*protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody) {
		return nil, &protocol.ErrorBody{Code: "x", Message: "not you"}
	})
	refused := dial(t, e.URL("guests"), nil)
	if got := next[*protocol.Error](refused); got.Error.Code != protocol.CodeAuthError || got.Error.Message != "not you" {
		t.Errorf("got %+v", got)
	}
	refused.ended()
}
