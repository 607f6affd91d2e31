package link_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
	"github.com/sandbox-operator/sandbox-operator/hack/chaos/link"
)

// patience bounds what takes milliseconds on an idle machine.
const patience = 60 * time.Second

// scene is an engine, a worker behind a link and a caller without one.
type scene struct {
	t      *testing.T
	link   *link.Link
	caller *bus.Client
	worker *bus.Client
	seen   *observer
}

func newScene(t *testing.T) *scene {
	t.Helper()
	e, err := engine.New(engine.Config{Listeners: []engine.Listener{{Name: "workers", Address: "127.0.0.1:0"}}})
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
	s := &scene{t: t, seen: &observer{}}
	if s.link, err = link.New(t.Context(), s.seen); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.link.Close(); err != nil {
			t.Error(err)
		}
	})
	s.link.Lead(e.URL("workers"))
	s.caller = s.connect(e.URL("workers"), "caller")
	s.worker = s.connect(s.link.URL, "worker")
	s.serve("work::echo")
	return s
}

func (s *scene) connect(address, name string) *bus.Client {
	s.t.Helper()
	client, err := bus.New(bus.Options{
		URL: address, Name: name, DrainTimeout: time.Second, RetryNameConflict: true,
		Backoff: bus.Backoff{Initial: 10 * time.Millisecond, Max: 50 * time.Millisecond},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	})
	bounded, stop := context.WithTimeout(s.t.Context(), patience)
	defer stop()
	if err := client.WaitConnected(bounded); err != nil {
		s.t.Fatal(err)
	}
	return client
}

func (s *scene) serve(id string) {
	s.t.Helper()
	err := s.worker.RegisterFunction(bus.Function{ID: id, Handler: func(_ context.Context, inv bus.Invocation) (json.RawMessage, error) {
		return inv.Data, nil
	}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.eventually(id+" answers", func() bool { return s.call(patience, id, 1) == nil })
}

// call expects its own number back.
func (s *scene) call(limit time.Duration, id string, number int) error {
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	answer, err := s.caller.Call(ctx, bus.Call{FunctionID: id, Data: json.RawMessage(fmt.Sprintf("[%d]", number))})
	if err == nil && string(answer) != fmt.Sprintf("[%d]", number) {
		s.t.Errorf("call %d was answered by %s", number, answer)
	}
	return err
}

func (s *scene) eventually(what string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); {
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: not within %s", what, patience)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// observer collects what it is told.
type observer struct {
	mutex            sync.Mutex
	passed, answered int
}

func (o *observer) Passed(_ string, call *protocol.InvokeFunction) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if call.FunctionID == "work::echo" {
		o.passed++
	}
}

func (o *observer) Answered(answer *protocol.InvocationResult) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if answer.FunctionID == "work::echo" {
		o.answered++
	}
}

func (o *observer) counts() [2]int {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return [2]int{o.passed, o.answered}
}

func TestLink_passesCalls(t *testing.T) {
	s := newScene(t)
	before := s.seen.counts()
	var calls sync.WaitGroup
	for i := range 20 {
		calls.Go(func() {
			if err := s.call(patience, "work::echo", i); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if diff := cmp.Diff([2]int{before[0] + 20, before[1] + 20}, s.seen.counts()); diff != "" {
		t.Errorf("calls and answers seen (-want +got):\n%s", diff)
	}
	if s.link.Workers() != 1 {
		t.Errorf("%d workers, want 1", s.link.Workers())
	}
}

func TestLink_connectionsFail(t *testing.T) {
	for name, fail := range map[string]func(*link.Link){
		"cut":          func(l *link.Link) { l.Cut() },
		"torn a frame": func(l *link.Link) { l.Tear() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			id := s.worker.WorkerID()
			fail(s.link)
			_ = s.call(patience, "work::echo", 2) // the frame that is torn
			s.eventually("the worker is on the bus again, as another one", func() bool {
				return s.worker.WorkerID() != id && s.call(time.Second, "work::echo", 3) == nil
			})
		})
	}
}

func TestLink_refuses(t *testing.T) {
	s := newScene(t)
	s.link.Refuse(true)
	s.link.Cut()
	s.eventually("the worker is off the bus", func() bool { return bus.IsNotFound(s.call(patience, "work::echo", 1)) })
	if s.link.Workers() != 0 {
		t.Errorf("%d workers behind a link that refuses", s.link.Workers())
	}
	s.link.Refuse(false)
	s.eventually("the worker is back", func() bool { return s.call(patience, "work::echo", 1) == nil })
}

func TestLink_hole(t *testing.T) {
	s := newScene(t)
	s.link.SetHole(true)
	answered := make(chan error, 1)
	go func() { answered <- s.call(patience, "work::echo", 1) }()
	select {
	case err := <-answered:
		t.Errorf("an answer came through the hole: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	s.link.SetHole(false)
	if err := <-answered; err != nil {
		t.Errorf("the call did not go on after the hole: %v", err)
	}
}

// TestLink_latency wants every frame late and none overtaken: a client's
// registration and the calls after it rely on the order.
func TestLink_latency(t *testing.T) {
	s := newScene(t)
	var mutex sync.Mutex
	delays := []time.Duration{40 * time.Millisecond, 0, 0, 0}
	s.link.SetLatency(func() time.Duration {
		mutex.Lock()
		defer mutex.Unlock()
		next := delays[0]
		delays = append(delays[1:], next)
		return next
	})
	for i := range 8 {
		s.serve(fmt.Sprintf("work::late%d", i))
	}
	var calls sync.WaitGroup
	for i := range 20 {
		calls.Go(func() {
			if err := s.call(patience, "work::echo", i); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
}

func TestLink_rules(t *testing.T) {
	echo := func(function string) bool { return function == "work::echo" }
	t.Run("fault", func(t *testing.T) {
		s := newScene(t)
		before := s.seen.counts()
		remove := s.link.Add(&link.Rule{Hits: echo, Fault: func(string) *protocol.ErrorBody { return link.DaemonFault("S300", "broken") }})
		if err := s.call(patience, "work::echo", 1); err == nil || !strings.Contains(err.Error(), `"code":"S300"`) {
			t.Errorf("the answer is %v, want the fault", err)
		}
		if diff := cmp.Diff(before, s.seen.counts()); diff != "" {
			t.Errorf("the worker got a call that was answered in its place:\n%s", diff)
		}
		remove()
		if err := s.call(patience, "work::echo", 1); err != nil {
			t.Error(err)
		}
	})
	t.Run("lost answer", func(t *testing.T) {
		s := newScene(t)
		before := s.seen.counts()
		remove := s.link.Add(&link.Rule{Hits: echo, Lose: true})
		lost := make(chan error, 1)
		go func() { lost <- s.call(patience, "work::echo", 1) }()
		s.eventually("the worker answered", func() bool { return s.seen.counts() == [2]int{before[0] + 1, before[1] + 1} })
		remove()
		s.link.Cut()
		if err := <-lost; bus.RemoteCode(err) != protocol.CodeInvocationStopped {
			t.Errorf("the caller hears %v, want that the worker has gone", err)
		}
	})
	t.Run("delayed answer", func(t *testing.T) {
		s := newScene(t)
		held := make(chan struct{})
		s.link.Add(&link.Rule{Hits: echo, Delay: func() time.Duration {
			close(held)
			return 200 * time.Millisecond
		}})
		if err := s.call(patience, "work::echo", 1); err != nil {
			t.Error(err)
		}
		select {
		case <-held:
		default:
			t.Error("the answer was not held back")
		}
	})
}
