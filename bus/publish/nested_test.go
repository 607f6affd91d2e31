package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	neturl "net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/baggage"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

var bank = Runtime{Namespace: "apps", Name: "bank", UID: "uid-2"}

// nestedTable has the functions f and g in one sandbox of shop, with two slots:
// one for a call, one in reserve. The function b is in a sandbox of bank.
func nestedTable(t *testing.T, slots int) *Table {
	t.Helper()
	table, _, _ := newTestTable()
	for id, runtime := range map[string]Runtime{"f": shop, "g": shop, "b": bank} {
		table.Bind(Binding{FunctionID: id, Runtime: runtime, SourceDigest: id})
		instance := testInstance("0", slots)
		table.SetInstance(runtime, instance)
		table.MarkPlanted(runtime, instance, id)
	}
	return table
}

// by is a caller that is known on the bus by this name.
func by(worker string) Caller { return func(context.Context) string { return worker } }

// mustEnter takes a slot for a call and runs it under a name.
func mustEnter(t *testing.T, table *Table, function string, caller Caller, name string) *Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lease, _, err := table.AcquireFor(ctx, function, caller)
	if err != nil {
		t.Fatalf("calling %s: %v", function, err)
	}
	lease.RunsAs(name, caller)
	return lease
}

func TestNested_selfCallHasTheReserve(t *testing.T) {
	table := nestedTable(t, 2)
	outer := mustEnter(t, table, "f", nil, "w:f:1")
	// The agent's hosts add a suffix to the name.
	inner := mustEnter(t, table, "g", by("w:f:1:0a1b2c3d"), "w:g:2")
	if _, _, err := table.AcquireFor(t.Context(), "f", by("w:g:2")); !errors.Is(err, ErrNestedFull) {
		t.Errorf("a third level got %v, want ErrNestedFull at once", err)
	}
	if got := table.Activity(shop).InFlight; got != 2 {
		t.Errorf("%d calls in flight, want 2", got)
	}
	inner.Release()
	mustEnter(t, table, "g", by("w:f:1"), "w:g:3").Release()
	outer.Release()
	if got := table.Activity(shop).InFlight; got != 0 || len(table.programs) > 0 {
		t.Errorf("%d calls in flight and %d programs afterwards", got, len(table.programs))
	}
}

func TestNested_otherCallersDoNotGetTheReserve(t *testing.T) {
	table := nestedTable(t, 2)
	outer := mustEnter(t, table, "f", nil, "w:f:1")
	for _, caller := range []Caller{nil, by(""), by("somebody"), by("w:f:9:00")} {
		ctx, cancel := context.WithCancel(t.Context())
		answers := enqueueFor(ctx, t, table, "f", caller)
		stillWaits(t, answers)
		cancel()
		receive(t, answers)
	}
	outer.Release()
}

func TestNested_waitsForTheReserveBeforeOthers(t *testing.T) {
	table := nestedTable(t, 3)
	one, two := mustEnter(t, table, "f", nil, "w:f:1"), mustEnter(t, table, "f", nil, "w:f:2")
	inner := mustEnter(t, table, "g", by("w:f:1"), "w:g:1")
	plain := enqueueFor(t.Context(), t, table, "g", nil)
	nested := enqueueFor(t.Context(), t, table, "g", by("w:f:2"))
	inner.Release()
	got := receive(t, nested)
	if got.err != nil || !got.lease.reserve {
		t.Fatalf("the nested call got %+v", got)
	}
	stillWaits(t, plain)
	got.lease.Release()
	one.Release()
	receive(t, plain).lease.Release()
	two.Release()
}

func TestNested_acrossRuntimes(t *testing.T) {
	table := nestedTable(t, 2)
	first := mustEnter(t, table, "f", nil, "w:f:1")
	second := mustEnter(t, table, "b", by("w:f:1"), "w:b:1")
	third := mustEnter(t, table, "f", by("w:b:1"), "w:f:2")
	if !third.reserve {
		t.Error("the call back did not use the reserve")
	}
	// Its ancestors hold all of bank's ordinary slots, but not the reserve there.
	fourth := mustEnter(t, table, "b", by("w:f:2"), "w:b:2")
	if !fourth.reserve {
		t.Error("the second call of bank did not use the reserve")
	}
	if _, _, err := table.AcquireFor(t.Context(), "g", by("w:b:2")); !errors.Is(err, ErrNestedFull) {
		t.Errorf("the fifth got %v, want ErrNestedFull", err)
	}
	for _, lease := range []*Lease{fourth, third, second, first} {
		lease.Release()
	}
}

func TestNested_withoutAReserve(t *testing.T) {
	table := nestedTable(t, 1)
	outer := mustEnter(t, table, "f", nil, "w:f:1")
	if _, _, err := table.AcquireFor(t.Context(), "g", by("w:f:1")); !errors.Is(err, ErrNestedFull) {
		t.Errorf("a self-call where nothing is in reserve got %v, want ErrNestedFull", err)
	}
	elsewhere := mustEnter(t, table, "b", nil, "w:b:1")
	answers := enqueueFor(t.Context(), t, table, "b", by("w:f:1"))
	elsewhere.Release()
	receive(t, answers).lease.Release()
	outer.Release()
}

func TestNested_waitsForABoot(t *testing.T) {
	table := nestedTable(t, 2)
	outer := mustEnter(t, table, "f", nil, "w:f:1")
	inner := mustEnter(t, table, "g", by("w:f:1"), "w:g:1")
	table.RemoveInstance(bank, "0")
	answers := make(chan answer, 1)
	go func() {
		lease, _, err := table.AcquireFor(t.Context(), "b", by("w:g:1"))
		answers <- answer{lease, err}
	}()
	eventually(t, "the call to wait", func() bool { return table.Activity(bank).Wanted })
	instance := testInstance("1", 2)
	table.SetInstance(bank, instance)
	table.MarkPlanted(bank, instance, "b")
	if got := receive(t, answers); got.err != nil {
		t.Errorf("a call that boots a runtime got %v", got.err)
	}
	inner.Release()
	outer.Release()
}

// enqueueFor calls a function of shop in the background and returns once it waits.
func enqueueFor(ctx context.Context, t *testing.T, table *Table, function string, caller Caller) <-chan answer {
	t.Helper()
	all := func() int {
		table.mu.Lock()
		defer table.mu.Unlock()
		n := 0
		for _, state := range table.runtimes {
			n += len(state.waiting)
		}
		return n
	}
	before := all()
	answers := make(chan answer, 1)
	go func() {
		lease, _, err := table.AcquireFor(ctx, function, caller)
		answers <- answer{lease, err}
	}()
	eventually(t, "the call to wait", func() bool { return all() == before+1 })
	return answers
}

// TestNested_overTheBus has a handler that calls its own function as a worker of
// the name that the call was given, which fills the sandbox's only ordinary slot
// (contracts/code-runner.md §19 W2, row E20).
func TestNested_overTheBus(t *testing.T) {
	url, w := startEngine(t), newCallWorld(t)
	id := w.provider.Adopt("sandbox 0", "node")
	instance := Instance{Name: "0", ID: id, Slots: 2}
	w.table.SetInstance(shop, instance)
	w.table.MarkPlanted(shop, instance, "d")
	operator := connect(t, url, "sandbox-code-runner")
	w.Workers = NewWorkers(operator)
	publisher := NewPublisher(operator, w.Server, "sandbox-code-runner")
	w.answers(t, func(ctx context.Context, call wire.CallRequest) (wire.Reply, error) {
		inner := deeper(t, call.Payload)
		if inner == nil {
			return wire.Reply{Result: json.RawMessage(`"bottom"`)}, nil
		}
		name := call.WorkerName + ":0a1b2c3d"
		guest := connect(t, url, name)
		// As the agent's hosts do.
		result, err := guest.Call(ctx, bus.Call{FunctionID: "shop::price", Data: inner, Baggage: "sandbox-worker=" + neturl.QueryEscape(name)})
		if err != nil {
			return wire.Reply{Error: wire.Failf(wire.Thrown, "%v", err)}, nil
		}
		return wire.Reply{Result: result}, nil
	})
	if err := publisher.Publish(Publication{FunctionID: "shop::price"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the engine to name us", func() bool { return ownerOf(t, publisher, "shop::price").Ours })
	caller := connect(t, url, "caller")
	call := func(payload string) (json.RawMessage, error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return caller.Call(ctx, bus.Call{FunctionID: "shop::price", Data: json.RawMessage(payload)})
	}
	for one, two := range map[string]string{`{"left":1}`: `{"left":2}`, `1`: `2`} {
		if got, err := call(one); err != nil || string(got) != `"bottom"` {
			t.Errorf("a handler that calls itself with %s got %s, %v", one, got, err)
		}
		if _, err := call(two); err == nil || !strings.Contains(err.Error(), "sandbox-code-runner::capacity: ") {
			t.Errorf("a handler two levels down with %s got %v, want capacity", two, err)
		}
	}
	w.idle(t)
}

// deeper is the payload of the next call, an object or a number as the present
// one, or nil.
func deeper(t *testing.T, payload json.RawMessage) json.RawMessage {
	t.Helper()
	var object struct{ Left int }
	if left, err := strconv.Atoi(string(payload)); err == nil {
		object.Left = left
	} else if err := json.Unmarshal(payload, &object); err != nil {
		t.Errorf("payload %s: %v", payload, err)
	}
	if object.Left == 0 {
		return nil
	}
	if payload[0] != '{' {
		return json.RawMessage(strconv.Itoa(object.Left - 1))
	}
	return json.RawMessage(fmt.Sprintf(`{"left":%d}`, object.Left-1))
}

func TestInside(t *testing.T) {
	table := nestedTable(t, 3)
	if table.Inside(t.Context(), shop, func(context.Context) string { t.Error("asked for an empty runtime"); return "" }) {
		t.Error("somebody calls from inside an empty runtime")
	}
	first := mustEnter(t, table, "f", nil, "w:f:1")
	second := mustEnter(t, table, "b", by("w:f:1"), "w:b:1")
	for name, tc := range map[string]struct {
		caller  Caller
		runtime Runtime
		want    bool
	}{
		"the program":           {by("w:f:1:0a1b2c3d"), shop, true},
		"one that it called":    {by("w:b:1"), shop, true},
		"the program, below":    {by("w:f:1"), bank, false},
		"a stranger":            {by("somebody"), shop, false},
		"nobody":                {by(""), shop, false},
		"of an unknown runtime": {by("w:f:1"), Runtime{Name: "other"}, false},
	} {
		if got := table.Inside(t.Context(), tc.runtime, tc.caller); got != tc.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	second.Release()
	first.Release()
	if table.Inside(t.Context(), shop, by("w:f:1")) {
		t.Error("a program that has ended is still inside")
	}
}

// The baggage of a call names the program that made it, and nothing of those above.
func TestInside_byBaggage(t *testing.T) {
	workers := newWorkers(func(context.Context) (map[string]string, error) { return nil, errors.New("not asked") })
	table := nestedTable(t, 3)
	first := mustEnter(t, table, "f", nil, "w:f:1")
	defer first.Release()
	second := mustEnter(t, table, "b", workers.CallerOf(named(t, "w:f:1"), func() string { t.Error("asked for"); return "" }), "w:b:1")
	defer second.Release()
	if !table.Inside(named(t, "w:b:1"), shop, workers.CallerOf(named(t, "w:b:1"), func() string { return "" })) {
		t.Error("a call by way of another runtime does not come from inside the first")
	}
}

// named is the context of a call whose baggage names its caller.
func named(t *testing.T, worker string) context.Context {
	t.Helper()
	member, err := baggage.NewMemberRaw(workerMember, worker)
	if err != nil {
		t.Fatal(err)
	}
	members, err := baggage.New(member)
	if err != nil {
		t.Fatal(err)
	}
	return baggage.ContextWithBaggage(t.Context(), members)
}

func TestWorkers_name(t *testing.T) {
	var mu sync.Mutex
	lists := 0
	present := map[string]string{"1": "a"}
	var failure error
	workers := newWorkers(func(context.Context) (map[string]string, error) {
		mu.Lock()
		defer mu.Unlock()
		lists++
		return present, failure
	})
	expect := func(id, want string, wantLists int) {
		t.Helper()
		if got := workers.Name(t.Context(), id); got != want || lists != wantLists {
			t.Errorf("worker %q is %q after %d lists, want %q after %d", id, got, lists, want, wantLists)
		}
	}
	expect("", "", 0)
	expect("1", "a", 1)
	expect("1", "a", 1)
	// It may be about to tell its name.
	expect("2", "", 1+nameAttempts)
	present = map[string]string{"2": ""}
	expect("2", "", 2+nameAttempts)
	failure = errors.New("not connected")
	expect("3", "", 3+nameAttempts)
	present, failure = map[string]string{"2": "b"}, nil
	expect("2", "b", 4+nameAttempts)
	expect("1", "a", 4+nameAttempts)
	if got := (*Workers)(nil).Name(t.Context(), "1"); got != "" {
		t.Errorf("nobody knows %q", got)
	}
}

func TestWorkers_nameThatComesLate(t *testing.T) {
	lists := 0
	workers := newWorkers(func(context.Context) (map[string]string, error) {
		if lists++; lists < 3 {
			return nil, nil
		}
		return map[string]string{"1": "a"}, nil
	})
	if got := workers.Name(t.Context(), "1"); got != "a" || lists != 3 {
		t.Errorf("the worker is %q after %d lists", got, lists)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got := workers.Name(ended, "2"); got != "" {
		t.Errorf("a caller that has gone is %q", got)
	}
}

func TestWorkers_callerOf(t *testing.T) {
	workers := newWorkers(func(context.Context) (map[string]string, error) {
		return map[string]string{"1": "known:to:the:engine"}, nil
	})
	for text, tc := range map[string]struct{ id, want string }{
		"":                             {"1", "known:to:the:engine"},
		"a=b":                          {"1", "known:to:the:engine"},
		"sandbox-worker=w%3Af%3A%3Ag":  {"", "w:f::g"},
		"a=b,sandbox-worker=w;c=d,e=f": {"1", "w"},
		"b=c":                          {"", ""},
	} {
		members, err := baggage.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		ctx := baggage.ContextWithBaggage(t.Context(), members)
		if got := workers.CallerOf(ctx, func() string { return tc.id })(ctx); got != tc.want {
			t.Errorf("with %q the caller is %q, want %q", text, got, tc.want)
		}
	}
}
