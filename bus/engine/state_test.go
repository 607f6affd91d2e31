package engine_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

func TestEngine_state(t *testing.T) {
	e := startEngine(t)
	p := connect(t, e, "p")
	at := func(more map[string]any) map[string]any {
		request := map[string]any{"scope": "s", "key": "k"}
		for name, value := range more {
			request[name] = value
		}
		return request
	}
	for _, step := range []struct {
		what, function string
		data           any
		want           string
		wantCode       string
	}{
		{"a first set has no old value", "state::set", at(map[string]any{"value": map[string]int{"n": 1}}), `{"old_value":null,"new_value":{"n":1}}`, ""},
		{"data is another name of value", "state::set", at(map[string]any{"data": 2}), `{"old_value":{"n":1},"new_value":2}`, ""},
		{"what is there", "state::get", at(nil), `2`, ""},
		{"what is absent is no value", "state::get", map[string]string{"scope": "s", "key": "absent"}, ``, ""},
		{"updates", "state::update", at(map[string]any{"ops": []any{map[string]any{"type": "increment", "path": "", "by": 3}}}), `{"old_value":2,"new_value":5}`, ""},
		{"updates tell what failed", "state::update", at(map[string]any{"ops": []any{map[string]any{"type": "set", "path": "a", "value": 1}}}), `{"old_value":5,"new_value":5,"errors":[{"op_index":0,"code":"set.target_not_object","message":"the value is a number, not an object"}]}`, ""},
		{"a second value", "state::set", map[string]any{"scope": "s", "key": "a", "value": "x"}, `{"old_value":null,"new_value":"x"}`, ""},
		{"values by key", "state::list", map[string]string{"scope": "s"}, `["x",5]`, ""},
		{"an empty scope", "state::list", map[string]string{"scope": "none"}, `[]`, ""},
		{"scopes", "state::list_groups", map[string]string{}, `{"groups":["s"]}`, ""},
		{"delete answers with the old value", "state::delete", at(nil), `5`, ""},
		{"a second delete has none", "state::delete", at(nil), ``, ""},
		{"a scope is required to set", "state::set", map[string]string{"key": "k"}, ``, "SET_ERROR"},
		{"a key is required to get", "state::get", map[string]string{"scope": "s"}, ``, "GET_ERROR"},
		{"a key is required to delete", "state::delete", map[string]string{"scope": "s"}, ``, "DELETE_ERROR"},
		{"a key is required to update", "state::update", map[string]string{"scope": "s"}, ``, "UPDATE_ERROR"},
		{"a scope is required to list", "state::list", map[string]string{}, ``, "LIST_ERROR"},
		{"operations are objects", "state::update", at(map[string]any{"ops": []int{1}}), ``, protocol.CodeDeserializationError},
	} {
		t.Run(step.what, func(t *testing.T) {
			got := p.call(step.function, step.data)
			if code := codeOf(got); code != step.wantCode || string(got.Result) != step.want {
				t.Errorf("got %s %s, want %s %s", code, got.Result, step.wantCode, step.want)
			}
		})
	}
}

func TestEngine_stateValueTooLarge(t *testing.T) {
	e := startEngine(t)
	p := connect(t, e, "p")
	large := make([]byte, 17<<20)
	for i := range large {
		large[i] = 'x'
	}
	got := p.call("state::set", map[string]any{"scope": "s", "key": "k", "value": string(large)})
	if code := codeOf(got); code != protocol.CodeValueTooLarge {
		t.Errorf("code %q", code)
	}
	if got := p.call("state::get", map[string]string{"scope": "s", "key": "k"}); got.Result != nil {
		t.Error("the value was stored")
	}
}

func TestEngine_stateTrigger(t *testing.T) {
	e := startEngine(t)
	p := connect(t, e, "p")
	p.register("f::x")
	p.register("f::other")
	p.bind("t1", "state", "f::x", map[string]string{"scope": "s", "key": "k"})
	p.bind("t2", "state", "f::other", map[string]string{"scope": "elsewhere"})
	eventually(t, "the triggers", func() bool { return len(p.triggerIDs("state")) == 2 })
	for _, step := range []struct {
		function string
		value    any
		want     string
	}{
		{"state::set", 1, `{"event_type":"state:created","key":"k","new_value":1,"old_value":null,"scope":"s","type":"state"}`},
		{"state::set", 2, `{"event_type":"state:updated","key":"k","new_value":2,"old_value":1,"scope":"s","type":"state"}`},
		{"state::delete", nil, `{"event_type":"state:deleted","key":"k","new_value":null,"old_value":2,"scope":"s","type":"state"}`},
	} {
		p.call("state::set", map[string]any{"scope": "s", "key": "unwatched", "value": 1})
		p.call(step.function, map[string]any{"scope": "s", "key": "k", "value": step.value})
		fired := next[*protocol.InvokeFunction](p)
		var event map[string]any
		parse(t, fired.Data, &event)
		got, err := json.Marshal(event)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, string(got)); fired.FunctionID != "f::x" || diff != "" {
			t.Errorf("%s fired %s (-want +got):\n%s", step.function, fired.FunctionID, diff)
		}
	}
}
