package link

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

var agent = guest.AgentProgram{Bytes: []byte("#!agent"), Digest: "0123456789abcdef"}

// setWorld is a set whose sandboxes and connections are in memory; the guests have
// the program once it was written, and serve all calls.
type setWorld struct {
	*Set
	clock    *testClock
	provider *fake.Provider
	denied   atomic.Bool

	mu sync.Mutex
	// openError and answer change what opening comes to.
	openError error
	answer    *wire.Failure
	opened    int
	guests    []*far
	serving   sync.WaitGroup
}

func newSetWorld(t *testing.T) *setWorld {
	t.Helper()
	w := &setWorld{clock: newTestClock(), provider: fake.New()}
	w.Set = NewSet(Options{
		Opener: w, Provider: w.provider, Agent: agent, Program: func() ([]byte, error) { return []byte("#!link"), nil },
		Permit: func() bool { return !w.denied.Load() }, Now: w.clock.Now,
	})
	w.provider.OnExec(func(_ context.Context, info sandbox.Info, req sandbox.ExecRequest) (sandbox.ExecResult, error) {
		frame, err := wire.EncodeReply(wire.Reply{Error: w.link(t, info.ID, req)})
		return sandbox.ExecResult{Stdout: frame}, err
	})
	t.Cleanup(func() {
		w.Close()
		if w.count() != 0 {
			t.Errorf("%d links are open after the end", w.count())
		}
		w.serving.Wait()
	})
	return w
}

// link is the agent.
func (w *setWorld) link(t *testing.T, id sandbox.ID, req sandbox.ExecRequest) *wire.Failure {
	var request wire.LinkRequest
	if err := json.Unmarshal(req.Stdin, &request); err != nil || req.Argv[1] != wire.CommandLink {
		t.Errorf("the agent got %v, %v", req.Argv, err)
	}
	if request.Calls.AccessKey != "calls" || request.Replies.AccessKey != "replies" || len(request.ProgramDigest) != 64 {
		t.Errorf("the agent got %+v", request)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answer != nil {
		return w.answer
	}
	if _, there := w.provider.File(id, agent.LinkPath()); !there {
		return wire.Failf(wire.NoProgram, "no program")
	}
	return nil
}

// Open implements Opener.
func (w *setWorld) Open(context.Context) (calls, replies wire.LinkEnd, ends io.ReadWriteCloser, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opened++
	if w.openError != nil {
		return calls, replies, nil, w.openError
	}
	near, there := pair()
	w.guests = append(w.guests, there)
	w.serving.Go(there.serve)
	return wire.LinkEnd{AccessKey: "calls"}, wire.LinkEnd{AccessKey: "replies"}, near, nil
}

func (w *setWorld) set(openError error, answer *wire.Failure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.openError, w.answer = openError, answer
}

func (w *setWorld) attempts() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.opened
}

func (w *setWorld) guest() *far {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.guests[len(w.guests)-1]
}

// execute has a sandbox execute calls at one moment, each of which took as long.
func (w *setWorld) execute(id sandbox.ID, calls int, took time.Duration) {
	for range calls {
		w.Executed(id, took, wire.Reply{Start: wire.StartReady})
	}
}

// connect opens a sandbox's link.
func (w *setWorld) connect(t *testing.T, id sandbox.ID) {
	t.Helper()
	open := w.count()
	w.execute(id, burstCalls, time.Hour)
	eventually(t, "a link", func() bool { return w.count() == open+1 })
}

// count is the number of links, as Open of the world opens one.
func (w *setWorld) count() int { return w.Set.Open() }

func (w *setWorld) settled(t *testing.T, id sandbox.ID) {
	t.Helper()
	eventually(t, "the opening's end", func() bool {
		w.Set.mu.Lock()
		defer w.Set.mu.Unlock()
		return w.boxes[id] == nil || !w.boxes[id].opening
	})
}

var warmCall = wire.CallRequest{Warm: true, Payload: json.RawMessage("7"), TimeoutMs: 1000, Token: "token"}

func TestSet_opensForFrequentCalls(t *testing.T) {
	w := newSetWorld(t)
	id := w.provider.Adopt("box", "node")
	w.execute(id, burstCalls-1, time.Second)
	w.clock.add(burstWindow + 1)
	w.execute(id, burstCalls-1, time.Second)
	for range burstCalls {
		w.Executed(id, time.Second, wire.Reply{Start: wire.StartCold})
	}
	if _, err := w.Call(t.Context(), id, warmCall); !isNotRun(err) || w.attempts() != 0 {
		t.Fatalf("a call without a link: %v after %d attempts to open one", err, w.attempts())
	}
	w.execute(id, 1, time.Second)
	eventually(t, "a link", func() bool { return w.count() == 1 })
	if file, _ := w.provider.File(id, agent.LinkPath()); string(file) != "#!link" {
		t.Errorf("the program in the guest is %q", file)
	}
	reply, err := w.Call(t.Context(), id, warmCall)
	if err != nil || string(reply.Result) != "7" {
		t.Errorf("a call over the link: %s, %v", reply.Result, err)
	}
	w.execute(id, burstCalls, time.Second)
	w.settled(t, id)
	if w.attempts() != 1 {
		t.Errorf("%d attempts, want 1", w.attempts())
	}
}

func TestSet_callsThatAreExecuted(t *testing.T) {
	w := newSetWorld(t)
	id, other := w.provider.Adopt("box", "node"), w.provider.Adopt("other", "node")
	w.connect(t, id)
	for name, change := range map[string]func(*wire.CallRequest){
		"cold":            func(r *wire.CallRequest) { r.Warm = false },
		"a large payload": func(r *wire.CallRequest) { r.Payload = json.RawMessage(longBody + " ") },
		"a large request": func(r *wire.CallRequest) { r.Payload = json.RawMessage(longBody) },
		"no JSON":         func(r *wire.CallRequest) { r.Context.Metadata = json.RawMessage("{") },
	} {
		request := warmCall
		change(&request)
		if _, err := w.Call(t.Context(), id, request); !isNotRun(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.Call(t.Context(), other, warmCall); !isNotRun(err) {
		t.Errorf("another sandbox: %v", err)
	}
	w.denied.Store(true)
	if _, err := w.Call(t.Context(), id, warmCall); !isNotRun(err) {
		t.Errorf("without a permit: %v", err)
	}
	w.tend(w.clock.Now())
	eventually(t, "no links", func() bool { return w.count() == 0 })
}

func TestSet_failures(t *testing.T) {
	w := newSetWorld(t)
	id := w.provider.Adopt("box", "node")
	w.set(errors.New("no bus"), nil)
	wait := firstBackoff
	for attempt := 1; attempt <= 12; attempt++ {
		w.execute(id, burstCalls, time.Second)
		w.settled(t, id)
		if w.attempts() != attempt {
			t.Fatalf("%d attempts, want %d", w.attempts(), attempt)
		}
		w.clock.add(wait - 1)
		w.execute(id, burstCalls, time.Second)
		w.settled(t, id)
		if w.attempts() != attempt {
			t.Fatalf("it did not wait %s before attempt %d", wait, attempt+1)
		}
		w.clock.add(1)
		wait = min(2*wait, lastBackoff)
	}
	w.set(nil, wire.Failf(wire.Internal, "no supervisor"))
	w.execute(id, burstCalls, time.Second)
	w.settled(t, id)
	if w.guest(); w.count() != 0 {
		t.Error("there is a link that the guest did not open")
	}
	w.set(nil, nil)
	w.clock.add(lastBackoff)
	w.connect(t, id)
}

func TestSet_guestWithoutBus(t *testing.T) {
	w := newSetWorld(t)
	id := w.provider.Adopt("box", "node")
	w.set(nil, wire.Failf(wire.NoBus, "no bus"))
	w.execute(id, burstCalls, time.Second)
	w.settled(t, id)
	w.set(nil, nil)
	w.tend(w.clock.add(lastBackoff + idleAfter))
	w.execute(id, burstCalls, time.Second)
	w.settled(t, id)
	if w.attempts() != 1 {
		t.Errorf("%d attempts, want 1", w.attempts())
	}
	w.Forget(id) // Another sandbox may have the same handle.
	w.connect(t, id)
}

func TestSet_opensAgainAfterABreak(t *testing.T) {
	w := newSetWorld(t)
	id := w.provider.Adopt("box", "node")
	w.connect(t, id)
	_ = w.guest().Close()
	eventually(t, "its end", func() bool { return w.count() == 0 })
	if _, err := w.Call(t.Context(), id, warmCall); !isNotRun(err) {
		t.Errorf("a call after the break: %v", err)
	}
	w.execute(id, burstCalls, time.Second)
	if w.count() != 0 || w.attempts() != 1 {
		t.Error("a link was opened at once")
	}
	w.clock.add(firstBackoff)
	w.connect(t, id)
	if _, err := w.Call(t.Context(), id, warmCall); err != nil {
		t.Errorf("a call over the new link: %v", err)
	}
}

func TestSet_closesUnusedLinks(t *testing.T) {
	w := newSetWorld(t)
	used, unused := w.provider.Adopt("used", "node"), w.provider.Adopt("unused", "node")
	w.connect(t, used)
	w.connect(t, unused)
	w.clock.add(idleAfter - 1)
	if _, err := w.Call(t.Context(), used, warmCall); err != nil {
		t.Fatal(err)
	}
	w.tend(w.clock.add(1))
	if _, err := w.Call(t.Context(), used, warmCall); err != nil || w.count() != 1 {
		t.Errorf("%d links, want the one that was used: %v", w.count(), err)
	}
	w.tend(w.clock.add(idleAfter))
	if w.count() != 0 || len(w.boxes) != 0 {
		t.Errorf("%d links, and %d sandboxes are known", w.count(), len(w.boxes))
	}
}

func TestSet_isBounded(t *testing.T) {
	w := newSetWorld(t)
	w.limit = 2
	one, two, three := w.provider.Adopt("1", "node"), w.provider.Adopt("2", "node"), w.provider.Adopt("3", "node")
	w.connect(t, one)
	w.connect(t, two)
	w.execute(three, burstCalls, time.Second)
	w.settled(t, three)
	if w.count() != 2 || w.attempts() != 2 {
		t.Fatalf("%d links after %d attempts, want 2: all are in use", w.count(), w.attempts())
	}
	w.clock.add(evictAfter)
	if _, err := w.Call(t.Context(), one, warmCall); err != nil {
		t.Fatal(err)
	}
	w.execute(three, burstCalls, time.Second)
	eventually(t, "a third link", func() bool { return w.attempts() == 3 })
	w.settled(t, three)
	for name, id := range map[string]sandbox.ID{"one": one, "three": three} {
		if _, err := w.Call(t.Context(), id, warmCall); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.Call(t.Context(), two, warmCall); !isNotRun(err) {
		t.Errorf("the link that was used least is still there: %v", err)
	}
}

func TestSet_slowLinksRest(t *testing.T) {
	w := newSetWorld(t)
	id := w.provider.Adopt("box", "node")
	w.execute(id, burstCalls, 0)
	eventually(t, "a link", func() bool { return w.count() == 1 })
	box := w.boxes[id]
	slower := func() {
		for range enoughSamples {
			w.called(id, time.Second, wire.Reply{Start: wire.StartReady}, nil)
		}
	}
	slower()
	if _, err := w.Call(t.Context(), id, warmCall); err != nil {
		t.Errorf("a call before executions were tried again: %v", err)
	}
	w.execute(id, enoughSamples, 0)
	slower()
	if _, err := w.Call(t.Context(), id, warmCall); !isNotRun(err) || box.link == nil {
		t.Errorf("a call although the link is slower: %v", err)
	}
	w.clock.add(slowPause)
	if _, err := w.Call(t.Context(), id, warmCall); err != nil {
		t.Errorf("it is not tried again: %v", err)
	}
}

func TestSet_cancelsAndForgets(t *testing.T) {
	w := newSetWorld(t)
	id := w.provider.Adopt("box", "node")
	if known, err := w.Cancel(t.Context(), id, "token"); known || err != nil {
		t.Errorf("without a link: %t, %v", known, err)
	}
	w.connect(t, id)
	if known, err := w.Cancel(t.Context(), id, "another"); known || err != nil {
		t.Errorf("a call that is not there: %t, %v", known, err)
	}
	w.Forget(id)
	if _, err := w.Call(t.Context(), id, warmCall); !isNotRun(err) || w.count() != 0 {
		t.Errorf("a sandbox that is gone: %v", err)
	}
	w.Forget(id) // Twice is no harm.
	w.connect(t, id)
	w.Close()
	w.execute(id, burstCalls, time.Second)
	if _, err := w.Call(t.Context(), id, warmCall); !isNotRun(err) || w.count() != 0 || w.attempts() != 2 {
		t.Errorf("after the end: %v, %d attempts", err, w.attempts())
	}
}

// What is opened while the sandbox goes, or the set, is closed again.
func TestSet_opensTooLate(t *testing.T) {
	for name, end := range map[string]func(*setWorld, sandbox.ID){
		"the sandbox is gone": func(w *setWorld, id sandbox.ID) { w.Forget(id) },
		"the set is closed":   func(w *setWorld, _ sandbox.ID) { go w.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newSetWorld(t)
			id := w.provider.Adopt("box", "node")
			asked, proceed := make(chan struct{}), make(chan struct{})
			w.provider.OnExec(func(context.Context, sandbox.Info, sandbox.ExecRequest) (sandbox.ExecResult, error) {
				close(asked)
				<-proceed
				frame, err := wire.EncodeReply(wire.Reply{})
				return sandbox.ExecResult{Stdout: frame}, err
			})
			w.execute(id, burstCalls, time.Second)
			receive(t, asked)
			end(w, id)
			eventually(t, "the end", func() bool { w.Set.mu.Lock(); defer w.Set.mu.Unlock(); return w.boxes[id] == nil })
			close(proceed)
			w.serving.Wait() // until the connection is closed
			if w.count() != 0 {
				t.Error("there is a link")
			}
		})
	}
}
