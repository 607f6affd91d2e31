package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// TestRegistry_properties lets workers come, register, take back, reattach and
// vanish at random, and compares the table after every step with a model that
// knows only the rules of contracts/iii-bus.md §4 and §6.1.
func TestRegistry_properties(t *testing.T) {
	for seed := range uint64(60) {
		w := newWorld(t, seed)
		for range 120 {
			w.step()
			if problem := w.check(); problem != "" {
				t.Fatalf("seed %d: %s\nafter %v", seed, problem, w.history)
			}
		}
		w.end()
	}
}

var (
	worldNamespaces = []string{"default", "team"}
	worldNames      = []string{"", "a", "b", "c"}
	worldFunctions  = []string{"f::1", "f::2", "f::3", "engine::x"}
	worldTypes      = []string{"mailbox", "clock"}
	worldTriggers   = []string{"t1", "t2", "t3", "t4", "t5"}
)

// member is a worker, with what the model believes of it.
type member struct {
	*connection
	name, space string
	// triggers are those that the engine's frames have told it to serve.
	triggers map[string]bool
	// rejected counts refusals that the engine has told it.
	rejected int
}

// modelTrigger is a binding; refused ones wait for a provider to come.
type modelTrigger struct {
	owner   *member
	kind    string
	refused bool
}

type world struct {
	t       *testing.T
	engine  *Engine
	random  *rand.Rand
	history []string

	members   []*member
	functions map[key]*member
	types     map[key]*member
	triggers  map[string]*modelTrigger
	// wantRejected counts the refusals that members should have been told.
	wantRejected map[*member]int
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	e, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	return &world{
		t: t, engine: e, random: rand.New(rand.NewPCG(seed, 1)), functions: map[key]*member{},
		types: map[key]*member{}, triggers: map[string]*modelTrigger{}, wantRejected: map[*member]int{},
	}
}

func (w *world) end() {
	for len(w.members) > 0 {
		w.drop(w.members[0])
	}
	if problem := w.check(); problem != "" {
		w.t.Fatal(problem)
	}
	if err := w.engine.Close(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

func pick[T any](w *world, from []T) T { return from[w.random.IntN(len(from))] }

func (w *world) note(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

func (w *world) step() {
	if len(w.members) == 0 || w.random.IntN(6) == 0 {
		w.connect()
		return
	}
	m := pick(w, w.members)
	switch w.random.IntN(11) {
	case 0:
		w.note("drop %s", m.id[:4])
		w.drop(m)
	case 1:
		w.reattach(m)
	case 2, 3, 4:
		w.registerFunction(m)
	case 5:
		w.unregisterFunction(m)
	case 6:
		w.registerType(m)
	case 7, 8:
		w.registerTrigger(m)
	case 9:
		w.unregisterTrigger(m)
	case 10:
		w.refuseTrigger(m)
	}
}

// newMember opens a connection that is not identified yet.
func (w *world) newMember() *member {
	c := w.engine.newConnection(nil, nil, &http.Request{RemoteAddr: "127.0.0.1:1"})
	c.open()
	return &member{connection: c, triggers: map[string]bool{}}
}

func (w *world) connect() { w.identify(w.newMember(), pick(w, worldNames), pick(w, worldNamespaces)) }

// identify claims a name, which another live member may have (§3.1).
func (w *world) identify(m *member, name, space string) {
	w.note("connect %s as %q in %s", m.id[:4], name, space)
	taken := name != "" && slices.ContainsFunc(w.members, func(o *member) bool { return o.name == name && o.space == space })
	metadata := map[string]any{"pid": 1, "namespace": space}
	if name != "" {
		metadata["name"] = name
	}
	m.handle(&protocol.InvokeFunction{FunctionID: protocol.FunctionWorkersRegister, Data: mustJSON(metadata)})
	m.name, m.space = name, space
	if taken {
		w.wantRejected[m]++
		m.readFrames()
		if m.rejected != 1 {
			w.t.Fatalf("a taken name was not refused after %v", w.history)
		}
		w.engine.disconnect(m.connection)
		return
	}
	w.members = append(w.members, m)
}

// reattach lets a new connection take the place of m (§4.3), with its token or
// with a stolen or missing one.
func (w *world) reattach(m *member) {
	token := pick(w, []string{m.token, m.token, "", "stolen"})
	next := w.newMember()
	w.note("reattach %s for %s", next.id[:4], m.id[:4])
	next.handle(&protocol.Reattach{PreviousWorkerID: m.id, ReattachToken: token})
	if token == m.token {
		w.forget(m)
	}
	w.identify(next, m.name, m.space)
}

func (w *world) drop(m *member) {
	w.engine.disconnect(m.connection)
	w.forget(m)
}

// forget is §4.2 in the model.
func (w *world) forget(m *member) {
	w.members = slices.DeleteFunc(w.members, func(o *member) bool { return o == m })
	owned := func(_ key, owner *member) bool { return owner == m }
	maps.DeleteFunc(w.functions, owned)
	maps.DeleteFunc(w.triggers, func(_ string, b *modelTrigger) bool { return b.owner == m })
	maps.DeleteFunc(w.types, owned)
}

func (w *world) registerFunction(m *member) {
	id := pick(w, worldFunctions)
	w.note("function %s of %s", id, m.id[:4])
	m.handle(&protocol.RegisterFunction{ID: id})
	at := key{m.space, id}
	if owner := w.functions[at]; id == "engine::x" || owner != nil && owner != m {
		w.wantRejected[m]++
		return
	}
	w.functions[at] = m
}

func (w *world) unregisterFunction(m *member) {
	id := pick(w, worldFunctions)
	w.note("unregister %s of %s", id, m.id[:4])
	m.handle(&protocol.UnregisterFunction{ID: id})
	if at := (key{m.space, id}); w.functions[at] == m {
		delete(w.functions, at)
	}
}

func (w *world) registerType(m *member) {
	id := pick(w, worldTypes)
	w.note("type %s of %s", id, m.id[:4])
	m.handle(&protocol.RegisterTriggerType{ID: id})
	w.types[key{m.space, id}] = m
	for _, b := range w.triggers {
		if b.kind == id && w.provider(b) == m {
			b.refused = false
		}
	}
}

func (w *world) registerTrigger(m *member) {
	id, kind := pick(w, worldTriggers), pick(w, append(worldTypes, "subscribe"))
	w.note("trigger %s of type %s of %s", id, kind, m.id[:4])
	m.handle(&protocol.RegisterTrigger{ID: id, TriggerType: kind, FunctionID: "f::1", Config: json.RawMessage(`{"topic":"x"}`)})
	w.triggers[id] = &modelTrigger{owner: m, kind: kind}
}

// unregisterTrigger may be anybody's (§2.9).
func (w *world) unregisterTrigger(m *member) {
	id := pick(w, worldTriggers)
	w.note("unregister trigger %s by %s", id, m.id[:4])
	m.handle(&protocol.UnregisterTrigger{ID: id})
	delete(w.triggers, id)
}

// refuseTrigger answers for a trigger; only its provider is heard (§2.8).
func (w *world) refuseTrigger(m *member) {
	id := pick(w, worldTriggers)
	w.note("%s refuses trigger %s", m.id[:4], id)
	m.handle(&protocol.TriggerRegistrationResult{ID: id, Error: &protocol.ErrorBody{Code: "no"}})
	if b := w.triggers[id]; b != nil && !b.refused && w.provider(b) == m {
		b.refused = true
		// A provider that refused a trigger does not serve it.
		m.readFrames()
		delete(m.triggers, id)
	}
}

// provider is who should serve a trigger, nil for nobody and the engine.
func (w *world) provider(b *modelTrigger) *member {
	for _, space := range []string{b.owner.space, "default"} {
		if p := w.types[key{space, b.kind}]; p != nil {
			return p
		}
	}
	return nil
}

func (w *world) servedBy(m *member) map[string]bool {
	served := map[string]bool{}
	for id, b := range w.triggers {
		if !b.refused && w.provider(b) == m {
			served[id] = true
		}
	}
	return served
}

// readFrames lets a member see what the engine has sent it.
func (m *member) readFrames() {
	for {
		batch, _ := m.outbox.tryTake(nil)
		if len(batch) == 0 {
			return
		}
		for _, frame := range batch {
			m.see(frame)
		}
	}
}

func (m *member) see(frame []byte) {
	msg, err := protocol.Decode(frame)
	if err != nil {
		panic(err)
	}
	switch f := msg.(type) {
	case *protocol.RegisterTrigger:
		m.triggers[f.ID] = true
	case *protocol.UnregisterTrigger:
		delete(m.triggers, f.ID)
	case *protocol.RegistrationRejected:
		m.rejected++
	}
}
