package guestaccess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
)

func encoded(t *testing.T, value any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAuthorizeRegistration(t *testing.T) {
	guest := instanceOf(runtimeOnBus("open"), "digest-0") // in namespace shop
	api := newClient(t, functionOf("shop", "mine::held"), functionOf("other", "theirs::held"),
		functionOf("shop", "both::one"), functionOf("other", "both::two"))
	s := newService(t, &listedBus{}, api, api)
	for name, tc := range map[string]struct {
		registration registration
		allowed      bool
	}{
		"a new prefix":                             {registration{FunctionID: "fresh::f", Context: sessionContext{guest}}, true},
		"a prefix of its own namespace":            {registration{FunctionID: "mine::new", Context: sessionContext{guest}}, true},
		"no prefix":                                {registration{FunctionID: "fresh", Context: sessionContext{guest}}, true},
		"the engine's own id":                      {registration{FunctionID: "publish", Context: sessionContext{guest}}, false},
		"a SandboxFunction's id":                   {registration{FunctionID: "mine::held", Context: sessionContext{guest}}, false},
		"a SandboxFunction's id elsewhere":         {registration{FunctionID: "theirs::held", Context: sessionContext{guest}}, false},
		"another namespace's prefix":               {registration{FunctionID: "theirs::new", Context: sessionContext{guest}}, false},
		"another namespace's prefix, alone":        {registration{FunctionID: "theirs", Context: sessionContext{guest}}, false},
		"a prefix of two namespaces":               {registration{FunctionID: "both::new", Context: sessionContext{guest}}, false},
		"the daemon's prefix":                      {registration{FunctionID: "sandbox::list", Context: sessionContext{guest}}, false},
		"the daemon's prefix, deeper":              {registration{FunctionID: "sandbox::fs::x", Context: sessionContext{guest}}, false},
		"the engine's prefix":                      {registration{FunctionID: "engine::x", Context: sessionContext{guest}}, false},
		"a store's prefix":                         {registration{FunctionID: "stream::get(x)", Context: sessionContext{guest}}, false},
		"the operator's prefix":                    {registration{FunctionID: workerName + "::run", Context: sessionContext{guest}}, false},
		"an empty id":                              {registration{FunctionID: " ", Context: sessionContext{guest}}, false},
		"the default bus namespace":                {registration{FunctionID: "fresh::f", Namespace: "default", Context: sessionContext{guest}}, true},
		"another bus namespace":                    {registration{FunctionID: "fresh::f", Namespace: "space", Context: sessionContext{guest}}, false},
		"a session that nobody admitted":           {registration{FunctionID: "fresh::f"}, false},
		"metadata that cannot be marked":           {registration{FunctionID: "fresh::f", Metadata: json.RawMessage(`[1]`), Context: sessionContext{guest}}, false},
		"the mark of another guest is overwritten": {registration{FunctionID: "fresh::f", Metadata: json.RawMessage(`{"sandbox.iii.dev/guest":"x","a":1}`), Context: sessionContext{guest}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			answer, err := s.authorizeRegistration(t.Context(), bus.Invocation{Data: encoded(t, tc.registration)})
			if err != nil {
				t.Fatal(err)
			}
			if !tc.allowed {
				if answer != nil {
					t.Errorf("allowed: %s", answer)
				}
				return
			}
			var got struct{ Metadata map[string]any }
			if err := json.Unmarshal(answer, &got); err != nil {
				t.Fatal(err)
			}
			if got.Metadata[ownerKey] != "SandboxRuntime/shop/open/digest-0" {
				t.Errorf("metadata %v", got.Metadata)
			}
			if tc.registration.Metadata != nil && got.Metadata["a"] != 1.0 {
				t.Errorf("the guest's own metadata are lost: %v", got.Metadata)
			}
		})
	}
}

// Of many functions, only those of the prefix are looked at.
func TestAuthorizeRegistration_looksAtThePrefixOnly(t *testing.T) {
	objects := []client.Object{functionOf("shop", "mine::held"), functionOf("shop", "mine::other")}
	for i := range 50 {
		objects = append(objects, functionOf("other", fmt.Sprintf("mine%d::f", i)))
	}
	var seen []string
	api := interceptor.NewClient(newClient(t, objects...), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			for _, f := range list.(*v1alpha1.SandboxFunctionList).Items {
				seen = append(seen, f.Spec.FunctionID)
			}
			return err
		},
	})
	s := newService(t, &listedBus{}, api, api)
	guest := instanceOf(runtimeOnBus("open"), "digest-0") // in namespace shop
	for id, want := range map[string][]string{
		"mine::new":  {"mine::held", "mine::other"},
		"mine":       {"mine::held", "mine::other"},
		"mine7::new": {"mine7::f"},
		"fresh::new": nil,
	} {
		seen = nil
		if _, err := s.authorizeRegistration(t.Context(), bus.Invocation{
			Data: encoded(t, registration{FunctionID: id, Context: sessionContext{guest}}),
		}); err != nil {
			t.Fatal(err)
		}
		if slices.Sort(seen); !slices.Equal(seen, want) {
			t.Errorf("a registration of %s looked at %q, want %q", id, seen, want)
		}
	}
}

// A cache that cannot be asked frees no id.
func TestAuthorizeRegistration_failsClosed(t *testing.T) {
	broken := interceptor.NewClient(newClient(t), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("no")
		},
	})
	s := newService(t, &listedBus{}, broken, broken)
	guest := instanceOf(runtimeOnBus("open"), "digest-0")
	answer, err := s.authorizeRegistration(t.Context(), bus.Invocation{
		Data: encoded(t, registration{FunctionID: "fresh::f", Context: sessionContext{guest}}),
	})
	if answer != nil || err != nil {
		t.Errorf("got %s, %v", answer, err)
	}
}

func TestAuthorizeTrigger(t *testing.T) {
	guest := instanceOf(runtimeOnBus("open"), "digest-0")
	other := guest
	other.Instance = "digest-1"
	functions := map[string]bus.FunctionInfo{"plain::f": {}}
	for id, owner := range map[string]Guest{"own::f": guest, "own::g": guest, "other::f": other} {
		metadata, _ := marked(nil, owner)
		functions[id] = bus.FunctionInfo{Metadata: encoded(t, metadata)}
	}
	engine := &listedBus{functions: functions, triggers: map[string]string{"taken": "plain::f", "again": "own::f"}}
	api := newClient(t)
	s := newService(t, engine, api, api)
	config := func(text string) func(*binding) { return func(b *binding) { b.Config = json.RawMessage(text) } }
	for name, tc := range map[string]struct {
		change  func(*binding)
		allowed bool
	}{
		"its own function":                    {func(*binding) {}, true},
		"a type of another worker":            {func(b *binding) { b.TriggerType = "mailbox" }, true},
		"its own trigger again":               {func(b *binding) { b.TriggerID = "again" }, true},
		"somebody's trigger":                  {func(b *binding) { b.TriggerID = "taken" }, false},
		"another sandbox's function":          {func(b *binding) { b.FunctionID = "other::f" }, false},
		"a published function":                {func(b *binding) { b.FunctionID = "plain::f" }, false},
		"a function that is not there":        {func(b *binding) { b.FunctionID = "own::absent" }, false},
		"the daemon's":                        {func(b *binding) { b.FunctionID = "sandbox::create" }, false},
		"its own condition":                   {config(`{"condition_function_id":"own::g"}`), true},
		"a condition that is not its own":     {config(`{"condition_function_id":"sandbox::list"}`), false},
		"middleware that is not its own":      {config(`{"middleware_function_ids":["own::g","plain::f"]}`), false},
		"a config of another shape":           {config(`[1]`), false},
		"what others store":                   {func(b *binding) { b.TriggerType = "state" }, false},
		"what others log":                     {func(b *binding) { b.TriggerType = "log" }, false},
		"who comes and goes":                  {func(b *binding) { b.TriggerType = "engine::workers-available" }, false},
		"a function in another bus namespace": {func(b *binding) { b.Namespace = "space" }, false},
		"a session that nobody admitted":      {func(b *binding) { b.Context = sessionContext{} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := binding{TriggerID: "t", TriggerType: "http", FunctionID: "own::f", Config: json.RawMessage(`{"api_path":"/x"}`), Context: sessionContext{guest}}
			tc.change(&b)
			answer, err := s.authorizeTrigger(t.Context(), bus.Invocation{Data: encoded(t, b)})
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			if tc.allowed {
				want = "{}"
			}
			if diff := cmp.Diff(want, string(answer)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
	engine.err = errors.New("away")
	answer, err := s.authorizeTrigger(t.Context(), bus.Invocation{
		Data: encoded(t, binding{TriggerID: "t", TriggerType: "http", FunctionID: "own::f", Context: sessionContext{guest}}),
	})
	if answer != nil || err != nil {
		t.Errorf("with the engine away: %s, %v", answer, err)
	}
}
