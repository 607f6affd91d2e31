package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
)

// subscribe binds a function to the events, as the engine does.
func (w *world) subscribe(function string) bus.Binding {
	w.t.Helper()
	binding := bus.Binding{ID: "t-" + function, FunctionID: function, Namespace: "elsewhere", Metadata: json.RawMessage(`{"mine":1}`)}
	if err := w.bus.types[0].Register(w.t.Context(), binding); err != nil {
		w.t.Fatalf("subscribing %s: %v", function, err)
	}
	return binding
}

// told are the events that a function got so far.
func (w *world) told(function string) (events []map[string]any) {
	w.bus.mu.Lock()
	defer w.bus.mu.Unlock()
	for _, call := range w.bus.sent {
		if call.FunctionID != function {
			continue
		}
		var e map[string]any
		if err := json.Unmarshal(call.Data, &e); err != nil {
			w.t.Fatalf("event %s: %v", call.Data, err)
		}
		events = append(events, e)
	}
	return events
}

// wantKinds waits for events and compares their kinds.
func (w *world) wantKinds(function string, want ...string) []map[string]any {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("%d events", len(want)), func() bool { return len(w.told(function)) >= len(want) })
	events := w.told(function)
	var kinds []string
	for i, e := range events {
		kinds = append(kinds, e["kind"].(string))
		if i > 0 && e["sequence"].(float64) != events[i-1]["sequence"].(float64)+1 {
			w.t.Errorf("sequence %v follows %v", e["sequence"], events[i-1]["sequence"])
		}
		if !matches(w.t, schemaOf("event"), string(mustJSON(w.t, e))) {
			w.t.Errorf("event %v does not match its schema", e)
		}
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		w.t.Fatalf("kinds (-want +got):\n%s", diff)
	}
	return events
}

func mustJSON(t *testing.T, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestEvents_ofRuns(t *testing.T) {
	w := newWorld(t)
	w.mustCall("run", `{"code":"1","lang":"node"}`)
	w.subscribe("a::f")
	id := w.keep(`{"code":"1","lang":"python","keep":true}`)
	reference := referenceOf(&w.runtimes()[0])
	w.results.set(settle(Outcome{ExitCode: 1}))
	w.mustCall("run", `{"code":"1","runtime_id":"`+id+`"}`)
	w.mustCall("run", `{"code":"1","lang":"node"}`)
	w.results.set(fail(Failure{Code: FailureTimeout}))
	w.callError("run", `{"code":"1","lang":"node"}`)
	w.callError("run", `{"code":"1","lang":"node","keep":true}`)
	w.callError("run", `{"code":"1","runtime_id":"`+id+`"}`)
	w.callError("run", `{"code":"1"}`)

	events := w.wantKinds("a::f", "runtime_created", "run_settled", "run_settled", "run_settled", "run_failed", "run_failed", "run_failed")
	for i := range events {
		delete(events[i], "kind")
		delete(events[i], "sequence")
		delete(events[i], "time_ms")
	}
	want := []map[string]any{
		{"reference": reference, "lang": "python"},
		{"reference": reference, "lang": "python", "outcome": "success"},
		{"reference": reference, "lang": "python", "outcome": "failure"},
		{"lang": "node", "outcome": "failure"},
		{"lang": "node", "outcome": "timeout"},
		{"lang": "node", "outcome": "timeout"},
		{"reference": reference, "lang": "python", "outcome": "timeout"},
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	for _, call := range w.bus.sent {
		if strings.Contains(string(call.Data), "rt-") || call.Namespace != "elsewhere" || string(call.Metadata) != `{"mine":1}` {
			t.Errorf("sent %s to %q with %s", call.Data, call.Namespace, call.Metadata)
		}
	}
}

func TestEvents_ofRegistrations(t *testing.T) {
	w := newWorld(t)
	w.subscribe("a::f")
	w.mustCall("register_function", registration("shop::a"))
	w.mustCall("register_function", registration("shop::b"))
	w.mustCall("register_function", registration("shop::b", "source", "export const handler = () => 2", "replace", true))
	w.callError("register_function", registration("shop::b"))
	w.onFunction = func(f *v1alpha1.SandboxFunction) {
		w.setCondition(f, v1alpha1.StalledCondition, v1alpha1.SandboxFunctionSourceInvalidReason, "no handler")
	}
	w.callError("register_function", registration("shop::bad"))

	events := w.wantKinds("a::f", "runtime_created", "function_registered", "function_registered", "function_registered")
	for i, want := range []string{"", "shop::a", "shop::b", "shop::b"} {
		if got, _ := events[i]["function_id"].(string); got != want {
			t.Errorf("event %d: function %q, want %q", i, got, want)
		}
		if events[i]["reference"] != events[0]["reference"] || events[i]["lang"] != "node" {
			t.Errorf("event %d: %v", i, events[i])
		}
	}
	if events[2]["outcome"] != "new" || events[3]["outcome"] != "replaced" {
		t.Errorf("outcomes %v and %v", events[2]["outcome"], events[3]["outcome"])
	}
}

func TestEvents_openCapabilities(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.OpenCapabilities = true })
	w.subscribe("a::f")
	id := w.keep(`{"code":"1","lang":"python","keep":true}`)
	for _, e := range w.wantKinds("a::f", "runtime_created", "run_settled") {
		if e["runtime_id"] != id {
			t.Errorf("event %v lacks the runtime's id", e)
		}
	}
}

func TestEvents_subscribers(t *testing.T) {
	w := newWorld(t)
	w.mustCall("run", `{"code":"1","lang":"node"}`)
	first, second := w.subscribe("a::first"), w.subscribe("a::second")
	w.mustCall("run", `{"code":"1","lang":"node"}`)
	w.wantKinds("a::first", "run_settled")
	w.wantKinds("a::second", "run_settled")
	w.bus.types[0].Unregister(first)
	w.mustCall("run", `{"code":"1","lang":"node"}`)
	w.wantKinds("a::second", "run_settled", "run_settled")
	w.wantKinds("a::first", "run_settled")
	w.bus.types[0].Unregister(second)
	if w.shim.events.hasSubscribers() {
		t.Error("a subscriber is left")
	}
	if sequence := w.told("a::second")[0]["sequence"]; sequence != 1.0 {
		t.Errorf("the run before the first subscriber was counted: %v", sequence)
	}
}

func TestEvents_tooManySubscribers(t *testing.T) {
	w := newWorld(t)
	for i := range maxSubscribers {
		w.subscribe(fmt.Sprintf("a::f%d", i))
	}
	if err := w.bus.types[0].Register(t.Context(), bus.Binding{ID: "more", FunctionID: "a::more"}); err == nil {
		t.Error("one more was taken")
	}
	w.bus.types[0].Unregister(bus.Binding{ID: "t-a::f0"})
	w.subscribe("a::more")
}

// slowBus takes no event until it is released, and fails one function's.
type slowBus struct {
	*recordedBus
	release chan struct{}
}

func (b slowBus) Void(ctx context.Context, call bus.Call) error {
	if call.FunctionID == "a::broken" {
		return errors.New("no such worker")
	}
	if call.FunctionID == "a::slow" {
		select {
		case <-b.release:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return b.recordedBus.Void(ctx, call)
}

func TestHub_aSlowSubscriberHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorded := &recordedBus{}
		h := newHub(slowBus{recorded, make(chan struct{})}, clock.RealClock{}, discard)
		for _, function := range []string{"a::slow", "a::broken", "a::good"} {
			if err := h.subscribe(bus.Binding{ID: function, FunctionID: function}); err != nil {
				t.Fatal(err)
			}
		}
		const events = maxWaiting + 10
		begin := time.Now()
		for range events {
			h.emit(event{Kind: eventRunSettled})
			synctest.Wait()
		}
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("callers waited %s", waited)
		}
		if got := len(recorded.sent); got != events {
			t.Errorf("the good subscriber got %d events, want %d", got, events)
		}
		if waiting := len(h.subscribers["a::slow"].queue); waiting != maxWaiting {
			t.Errorf("%d events wait for the slow one, want at most %d", waiting, maxWaiting)
		}
		<-time.After(deliveryTimeout)
		synctest.Wait()
		if waiting := len(h.subscribers["a::slow"].queue); waiting != maxWaiting-1 {
			t.Errorf("%d events wait, the first should have been given up", waiting)
		}
		h.close()
		if err := h.subscribe(bus.Binding{ID: "late"}); err == nil {
			t.Error("subscribed after the end")
		}
	})
}

func TestLifetimes(t *testing.T) {
	cases := map[string]struct {
		act  func(l *lifetimes, tell func(string) func(), end func(bool))
		want []string
	}{
		"begins once and ends once": {func(l *lifetimes, tell func(string) func(), end func(bool)) {
			l.begin("u", tell("begin"), end)
			l.begin("u", tell("again"), end)
			l.end("u", end)
			l.end("u", end)
		}, []string{"begin", "end false"}},
		"an end that was asked for": {func(l *lifetimes, tell func(string) func(), end func(bool)) {
			l.begin("u", tell("begin"), end)
			l.request("u")
			l.end("u", end)
		}, []string{"begin", "end true"}},
		"an end before the beginning is told after it": {func(l *lifetimes, tell func(string) func(), end func(bool)) {
			l.expect("u")
			l.request("u")
			l.end("u", end)
			l.begin("u", tell("begin"), end)
			l.end("u", end)
		}, []string{"begin", "end true"}},
		"what came to nothing is not told": {func(l *lifetimes, _ func(string) func(), end func(bool)) {
			l.expect("u")
			l.forget("u")
			l.end("u", end)
		}, nil},
		"what is unknown has no end": {func(l *lifetimes, _ func(string) func(), end func(bool)) {
			l.request("u")
			l.end("u", end)
		}, nil},
		"what was there before has an end only": {func(l *lifetimes, tell func(string) func(), end func(bool)) {
			l.adopt("u")
			l.begin("u", tell("begin"), end)
			l.end("u", end)
		}, []string{"end false"}},
		"what is expected is not adopted": {func(l *lifetimes, tell func(string) func(), end func(bool)) {
			l.expect("u")
			l.adopt("u")
			l.begin("u", tell("begin"), end)
		}, []string{"begin"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var l lifetimes
			var got []string
			tc.act(&l,
				func(text string) func() { return func() { got = append(got, text) } },
				func(requested bool) { got = append(got, fmt.Sprintf("end %t", requested)) })
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
			delete(l.objects, "u")
			if len(l.objects) != 0 {
				t.Errorf("%d objects kept", len(l.objects))
			}
		})
	}
}

func TestCallers(t *testing.T) {
	var c callers
	ctx := withCaller(t.Context(), "w1")
	first, leaveFirst := c.enter(ctx)
	second, leaveSecond := c.enter(withCaller(t.Context(), "w2"))
	nobody, leaveNobody := c.enter(t.Context())
	defer leaveNobody()
	c.end("w1")
	if !errors.Is(context.Cause(first), errCallerLeft) || second.Err() != nil || nobody.Err() != nil {
		t.Errorf("ended: %v, %v, %v", context.Cause(first), second.Err(), nobody.Err())
	}
	var group sync.WaitGroup
	group.Go(leaveFirst)
	group.Go(leaveSecond)
	group.Wait()
	if c.busy("w1") || len(c.calls) != 0 {
		t.Errorf("%d callers left", len(c.calls))
	}
}
