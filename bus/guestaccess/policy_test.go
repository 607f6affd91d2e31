package guestaccess

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGrants(t *testing.T) {
	for name, tc := range map[string]struct{ allow, want []string }{
		"unset is everything":                  {nil, []string{`match("*")`}},
		"an empty list is nothing":             {[]string{}, []string{}},
		"exact ids and patterns":               {[]string{"shop::price", "stock::*"}, []string{"shop::price", `match("stock::*")`}},
		"what the engine could read otherwise": {[]string{`a") or match("*`, `match("*")`, `a\*`}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, grants(tc.allow)); diff != "" {
				t.Errorf("grants (-want +got):\n%s", diff)
			}
		})
	}
}

func TestForbidden(t *testing.T) {
	own := []string{"w::authorize-guest"}
	for name, tc := range map[string]struct {
		allow     []string
		id        string
		forbidden bool
	}{
		"the daemon's list":                           {nil, "sandbox::list", true},
		"also if busAllow names it":                   {[]string{"sandbox::list", "sandbox::*", "*"}, "sandbox::list", true},
		"a function that the daemon has gained":       {nil, "sandbox::fs::new", true},
		"the engine's workers":                        {nil, "engine::workers::list", true},
		"a function that the engine has gained":       {nil, "engine::secrets::list", true},
		"also if busAllow names the engine":           {[]string{"engine::*"}, "engine::unregister_trigger", true},
		"what clients announce themselves by":         {nil, "engine::workers::register", false},
		"channels":                                    {[]string{}, "engine::channels::create", false},
		"logs":                                        {nil, "engine::log::info", false},
		"what a guest may know":                       {nil, "engine::functions::list", false},
		"the operator's own":                          {[]string{"w::authorize-guest"}, "w::authorize-guest", true},
		"the operator's others":                       {nil, "sandbox-code-runner::run", false},
		"published functions":                         {nil, "shop::price", false},
		"a prefix that only begins alike":             {nil, "sandbox2::list", false},
		"a store, which knows no tenants":             {nil, "state::get", true},
		"a store is not meant by a star":              {[]string{"*"}, "state::get", true},
		"a store by its name":                         {[]string{"state::*"}, "state::get", false},
		"one function of a store":                     {[]string{"state::get"}, "state::get", false},
		"not the others":                              {[]string{"state::get"}, "state::set", true},
		"queues are a store within the engine":        {[]string{"engine::queue::enqueue"}, "engine::queue::enqueue", false},
		"and the engine's name does not open them":    {[]string{"engine::*"}, "engine::queue::enqueue", true},
		"streams that a worker provides":              {nil, "stream::get(mine)", true},
		"a pattern's letters mean themselves":         {[]string{"state::g.t"}, "state::get", true},
		"a pattern of a store with its star within":   {[]string{"state::*t"}, "state::get", false},
		"a pattern of a store that covers other ends": {[]string{"state::*x"}, "state::get", true},
	} {
		t.Run(name, func(t *testing.T) {
			present := []string{"shop::price", "engine::functions::list", tc.id}
			if got := slices.Contains(forbidden(tc.allow, present, own), tc.id); got != tc.forbidden {
				t.Errorf("%s is forbidden: %t", tc.id, got)
			}
		})
	}
}

// While nobody serves them, the management functions are forbidden all the same.
func TestForbidden_absentFunctions(t *testing.T) {
	got := forbidden(nil, nil, nil)
	if !slices.IsSorted(got) || !cmp.Equal(got, slices.Compact(slices.Clone(got))) {
		t.Errorf("not sorted or not unique: %v", got)
	}
	daemon := 0
	for _, id := range got {
		if prefixOf(id, []string{sandboxPrefix}) != "" {
			daemon++
		}
	}
	if daemon != 16 {
		t.Errorf("%d functions of the daemon are known, want 16", daemon)
	}
}

// The words are the engine's (contracts/iii-bus.md §9.2).
func TestPolicy_wire(t *testing.T) {
	text, err := json.Marshal(newPolicy(Guest{Kind: KindRun, Namespace: "n", Name: "r", UID: "u", Instance: "i"}, []string{}, nil, []string{"w::a"}))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if ids, ok := got["forbidden_functions"].([]any); !ok || !slices.Contains(ids, any("w::a")) {
		t.Errorf("forbidden: %v", got["forbidden_functions"])
	}
	delete(got, "forbidden_functions")
	want := map[string]any{
		"allowed_functions": []any{}, "namespaces": map[string]any{"default": []any{}},
		"allow_trigger_type_registration": false, "allow_function_registration": true,
		"context": map[string]any{"guest": map[string]any{"kind": "SandboxRun", "namespace": "n", "name": "r", "uid": "u", "instance": "i"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
}
