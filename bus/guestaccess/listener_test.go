package guestaccess

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/engine"
)

const patience = 30 * time.Second

// guarded is what the documentation tells to configure.
func guarded() *engine.Policy {
	return &engine.Policy{
		AuthFunctionID:                   workerName + AuthorizeGuest,
		OnFunctionRegistrationFunctionID: workerName + AuthorizeRegistration,
		OnTriggerRegistrationFunctionID:  workerName + AuthorizeTrigger,
	}
}

// listening is an engine with a trusted listener and one for guests, and the
// operator's worker on the former.
type listening struct {
	t        *testing.T
	engine   *engine.Engine
	operator *bus.Client
	service  *Service
	api      client.WithWatch
}

func listen(t *testing.T, guests *engine.Policy, objects ...client.Object) *listening {
	t.Helper()
	e, err := engine.New(engine.Config{Listeners: []engine.Listener{
		{Name: "trusted", Address: "127.0.0.1:0"}, {Name: "guests", Address: "127.0.0.1:0", Policy: guests},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	l := &listening{t: t, engine: e, api: newClient(t, objects...)}
	l.operator = l.worker(e.URL("trusted"), workerName)
	l.service = newService(t, l.operator, l.api, l.api)
	if err := l.service.Register(); err != nil {
		t.Fatal(err)
	}
	l.serve("sandbox::list", "sandbox::fs::new", "shop::price", "shop::stock", "other::secret")
	return l
}

// serve publishes functions that answer "served".
func (l *listening) serve(ids ...string) {
	l.t.Helper()
	for _, id := range ids {
		err := l.operator.RegisterFunction(bus.Function{ID: id, Handler: func(context.Context, bus.Invocation) (json.RawMessage, error) {
			return json.RawMessage(`"served"`), nil
		}})
		if err != nil {
			l.t.Fatal(err)
		}
	}
	l.eventually("all functions", func() bool { return l.has(ids[len(ids)-1]) })
}

func (l *listening) has(id string) bool {
	_, err := l.operator.FunctionInfo(l.t.Context(), id, "default")
	return err == nil
}

func (l *listening) eventually(what string, holds func() bool) {
	l.t.Helper()
	deadline := time.After(patience)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !holds() {
		select {
		case <-poll.C:
		case <-deadline:
			l.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// start runs a worker until the end of the test.
func (l *listening) start(address, name string) (*bus.Client, <-chan error) {
	l.t.Helper()
	client, err := bus.New(bus.Options{URL: address, Name: name, DrainTimeout: time.Millisecond})
	if err != nil {
		l.t.Fatal(err)
	}
	refused := make(chan error, 1)
	client.Subscribe(func(e bus.Event) {
		if e.Kind == bus.WorkerRejected {
			select {
			case refused <- e.Err:
			default:
			}
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	l.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			l.t.Error(err)
		}
	})
	return client, refused
}

func (l *listening) worker(address, name string) *bus.Client {
	l.t.Helper()
	client, _ := l.start(address, name)
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	if err := client.WaitConnected(ctx); err != nil {
		l.t.Fatalf("%s: %v", name, err)
	}
	return client
}

func (l *listening) access(required bool) *Access {
	l.t.Helper()
	access, err := NewAccess(l.engine.URL("guests"), l.service.Authority, required)
	if err != nil {
		l.t.Fatal(err)
	}
	return access
}

// answerTo calls a function as a guest and returns its answer or error code.
func answerTo(t *testing.T, guest *bus.Client, id string) string {
	t.Helper()
	answer, err := guest.Call(t.Context(), bus.Call{FunctionID: id})
	if err != nil {
		return bus.RemoteCode(err)
	}
	return string(answer)
}

func TestListener_calls(t *testing.T) {
	open, exact, glob, none := runtimeOnBus("open"), runtimeOnBus("exact"), runtimeOnBus("glob"), runtimeOnBus("none")
	exact.Spec.BusAllow, glob.Spec.BusAllow, none.Spec.BusAllow = []string{"shop::price"}, []string{"shop::*"}, []string{}
	l := listen(t, guarded(), open, exact, glob, none)
	const served, forbidden = `"served"`, "FORBIDDEN"
	for _, tc := range []struct {
		guest Guest
		want  map[string]string
	}{
		{instanceOf(open, "digest-0"), map[string]string{
			"shop::price": served, "other::secret": served, "sandbox::list": forbidden, "sandbox::fs::new": forbidden,
			"sandbox::create": forbidden, "engine::workers::list": forbidden, "engine::registered-triggers::list": forbidden,
			"engine::register_trigger": forbidden, "engine::unregister_trigger": forbidden, "state::list_groups": forbidden,
			workerName + AuthorizeGuest: forbidden, "shop::absent": "function_not_found",
		}},
		{instanceOf(exact, "digest-0"), map[string]string{
			"shop::price": served, "shop::stock": forbidden, "other::secret": forbidden, "sandbox::list": forbidden,
		}},
		{instanceOf(glob, "digest-0"), map[string]string{
			"shop::price": served, "shop::stock": served, "other::secret": forbidden, "sandbox::list": forbidden,
		}},
		{instanceOf(none, "digest-0"), map[string]string{
			"shop::price": forbidden, "other::secret": forbidden, "sandbox::list": forbidden, "engine::functions::list": forbidden,
		}},
	} {
		t.Run(tc.guest.Name, func(t *testing.T) {
			guest := l.worker(l.access(false).URL(tc.guest), "guest-"+tc.guest.Name)
			for id, want := range tc.want {
				if got := answerTo(t, guest, id); got != want {
					t.Errorf("%s: %s, want %s", id, got, want)
				}
			}
			if _, err := guest.Call(t.Context(), bus.Call{FunctionID: "engine::channels::create"}); err != nil {
				t.Errorf("a channel: %v", err)
			}
		})
	}
}

func TestListener_refusals(t *testing.T) {
	runtime := runtimeOnBus("open")
	l := listen(t, guarded(), runtime)
	foreign, err := NewAccess(l.engine.URL("guests"), authorityOf(t, 9), false)
	if err != nil {
		t.Fatal(err)
	}
	for name, address := range map[string]string{
		"no credential":    l.engine.URL("guests"),
		"of another key":   foreign.URL(instanceOf(runtime, "digest-0")),
		"an ended sandbox": l.access(false).URL(instanceOf(runtime, "digest-9")),
		"a stopping one":   l.access(false).URL(instanceOf(runtime, "digest-2")),
	} {
		t.Run(name, func(t *testing.T) {
			_, refused := l.start(address, "guest")
			select {
			case err := <-refused:
				if bus.RemoteCode(err) != "AUTH_ERROR" {
					t.Errorf("got %v", err)
				}
			case <-time.After(patience):
				t.Error("neither in nor refused")
			}
		})
	}
}

// A sandbox that ends takes its credential along, whoever has it.
func TestListener_theCredentialEndsWithTheSandbox(t *testing.T) {
	runtime := runtimeOnBus("open")
	l := listen(t, guarded(), runtime)
	address := l.access(false).URL(instanceOf(runtime, "digest-0"))
	l.worker(address, "guest")
	runtime.Status.Instances = nil
	if err := l.api.Update(t.Context(), runtime); err != nil {
		t.Fatal(err)
	}
	_, refused := l.start(address, "late")
	select {
	case err := <-refused:
		if bus.RemoteCode(err) != "AUTH_ERROR" {
			t.Errorf("got %v", err)
		}
	case <-time.After(patience):
		t.Error("an ended sandbox is let in")
	}
}

func TestListener_registrations(t *testing.T) {
	first, second := runtimeOnBus("first"), runtimeOnBus("second")
	l := listen(t, guarded(), first, second, functionOf("shop", "held::f"), functionOf("else", "theirs::f"))
	mine := l.worker(l.access(false).URL(instanceOf(first, "digest-0")), "mine")
	yours := l.worker(l.access(false).URL(instanceOf(second, "digest-0")), "yours")
	echo := func(context.Context, bus.Invocation) (json.RawMessage, error) {
		return json.RawMessage(`"mine"`), nil
	}
	for _, id := range []string{"held::f", "theirs::g", "sandbox::list2", workerName + "::x", "own::f"} {
		if err := mine.RegisterFunction(bus.Function{ID: id, Handler: echo, Metadata: json.RawMessage(`{"team":"a"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	l.eventually("the guest's function", func() bool { return l.has("own::f") })
	for _, id := range []string{"held::f", "theirs::g", "sandbox::list2", workerName + "::x"} {
		if l.has(id) {
			t.Errorf("a guest took %s", id)
		}
	}
	info, err := l.operator.FunctionInfo(t.Context(), "own::f", "default")
	if err != nil || string(info.Metadata) != `{"sandbox.iii.dev/guest":"SandboxRuntime/shop/first/digest-0","team":"a"}` {
		t.Errorf("metadata %s, %v", info.Metadata, err)
	}
	if got := answerTo(t, yours, "own::f"); got != `"mine"` {
		t.Errorf("another guest calls it: %s", got)
	}
	for id, by := range map[string]*bus.Client{"stolen": yours, "kept": mine} {
		if err := by.RegisterTrigger(bus.Trigger{ID: id, Type: "subscribe", FunctionID: "own::f", Config: json.RawMessage(`{"topic":"news"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := mine.RegisterTrigger(bus.Trigger{ID: "other", Type: "subscribe", FunctionID: "shop::price", Config: json.RawMessage(`{"topic":"news"}`)}); err != nil {
		t.Fatal(err)
	}
	l.eventually("the guest's trigger", func() bool { return slices.Contains(l.triggers(), "kept") })
	answerTo(t, mine, "shop::price") // by now the engine has seen what was sent before
	answerTo(t, yours, "shop::price")
	if got := l.triggers(); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("triggers %v", got)
	}
}

func (l *listening) triggers() []string {
	l.t.Helper()
	list, err := l.operator.RegisteredTriggers(l.t.Context(), "")
	if err != nil {
		l.t.Fatal(err)
	}
	ids := []string{}
	for _, trigger := range list {
		ids = append(ids, trigger.ID)
	}
	return ids
}

// A guest without a single grant may not go where nobody looks after it.
func TestListener_namespaces(t *testing.T) {
	none := runtimeOnBus("none")
	none.Spec.BusAllow = []string{}
	l := listen(t, guarded(), none)
	guest, err := bus.New(bus.Options{URL: l.access(false).URL(instanceOf(none, "digest-0")), Name: "g", Namespace: "hidden"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := guest.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if guest.Reattach().WorkerID != "" && guest.Connected() {
		t.Error("a guest joined another bus namespace")
	}
}
