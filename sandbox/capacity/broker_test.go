package capacity_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/capacity"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

func TestBroker_ordersByClass(t *testing.T) {
	bubble(t, 2, func(w *world) {
		ids := w.fill(2, false)
		w.queue("refill", patient(capacity.Refill), "node")
		w.queue("boot", patient(capacity.Boot), "node")
		w.queue("run", patient(capacity.Run), "node")
		w.queue("wake", patient(capacity.Wake), "node")
		w.queue("second wake", patient(capacity.Wake), "node")
		for range 5 {
			w.stop(ids[0])
			ids = append(ids[1:], w.newest())
		}
		w.expectOrder("wake", "second wake", "run", "boot", "refill")
	})
}

func TestBroker_classesThatChange(t *testing.T) {
	bubble(t, 1, func(w *world) {
		ids := w.fill(1, false)
		var called bool
		w.queue("boot", capacity.Ticket{Wait: time.Minute, Class: func() capacity.Class {
			if called {
				return capacity.Wake
			}
			return capacity.Boot
		}}, "node")
		w.queue("run", patient(capacity.Run), "node")
		called = true
		w.stop(ids[0])
		w.expectOrder("boot")
		w.stop(w.newest())
	})
}

func TestBroker_starvesNobody(t *testing.T) {
	bubble(t, 1, func(w *world) {
		ids := w.fill(1, false)
		w.queue("refill", patient(capacity.Refill), "node")
		// A stream of calls that never ends is always before it, for two minutes.
		for n := range 15 {
			<-time.After(10 * time.Second)
			w.queue(fmt.Sprint("wake ", n), patient(capacity.Wake), "node")
		}
		for range 16 {
			w.stop(ids[0])
			ids = []sandbox.ID{w.newest()}
		}
		if at := slices.Index(w.order, "refill"); at < 10 || at > 12 {
			t.Errorf("the refill came at place %d: %v", at, w.order)
		}
	})
}

func TestBroker_repeatedCreatesKeepTheirPlace(t *testing.T) {
	bubble(t, 1, func(w *world) {
		ids := w.fill(1, false)
		w.queue("young", patient(capacity.Run), "node")
		old := patient(capacity.Run)
		old.Since = time.Now().Add(-time.Minute)
		w.queue("old", old, "node")
		w.stop(ids[0])
		w.expectOrder("old")
		w.stop(w.newest())
	})
}

func TestBroker_displacesIdleSandboxes(t *testing.T) {
	for name, tc := range map[string]struct {
		ticket capacity.Ticket
		want   bool
	}{
		"for a patient create":                   {capacity.Ticket{Displace: true, Wait: time.Minute}, true},
		"for one that would not wait":            {capacity.Ticket{Displace: true}, true},
		"for nobody who did not ask":             {capacity.Ticket{}, false},
		"for nobody who only waits, as a refill": {capacity.Ticket{Wait: time.Second}, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(w *world) {
				ids := w.fill(2, true)
				_, err := w.create(w.t.Context(), tc.ticket, "node")
				if (err == nil) != tc.want || err != nil && !sandbox.IsCapacity(err) {
					t.Errorf("create: %v", err)
				}
				if err := w.Touch(w.t.Context(), ids[1]); err != nil {
					t.Errorf("more went than had to: %v", err)
				}
				if err := w.Touch(w.t.Context(), ids[0]); (err != nil) != tc.want {
					t.Errorf("the longest idle one: %v", err)
				}
			})
		})
	}
}

func TestBroker_displacesOneForEach(t *testing.T) {
	bubble(t, 8, func(w *world) {
		w.fill(8, true)
		for n := range 5 {
			w.queue(fmt.Sprint(n), capacity.Ticket{Class: capacity.Always(capacity.Wake), Displace: true}, "node")
		}
		w.group.Wait()
		if len(w.order) != 5 {
			t.Errorf("through came %v", w.order)
		}
		if left := len(w.idle); left != 3 || w.metric("sandbox_capacity_displaced_total") != 5 {
			t.Errorf("%d idle sandboxes are left of 8, want 3", left)
		}
	})
}

func TestBroker_waitsForOneToBecomeIdle(t *testing.T) {
	bubble(t, 1, func(w *world) {
		ids := w.fill(1, false)
		time.AfterFunc(3*time.Second, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.idle = ids
		})
		begin := time.Now()
		ticket := patient(capacity.Wake)
		ticket.Displace = true
		if _, err := w.create(w.t.Context(), ticket, "node"); err != nil || time.Since(begin) > 4*time.Second {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
	})
}

func TestBroker_waitsNoLongerThanAsked(t *testing.T) {
	for name, tc := range map[string]struct {
		ticket capacity.Ticket
		within time.Duration
		want   time.Duration
	}{
		"not at all":             {capacity.Ticket{}, time.Hour, 0},
		"for its time":           {capacity.Ticket{Wait: 7 * time.Second}, time.Hour, 7 * time.Second},
		"until its context ends": {capacity.Ticket{Wait: time.Hour}, 3 * time.Second, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(w *world) {
				w.fill(1, false)
				ctx, cancel := context.WithTimeout(w.t.Context(), tc.within)
				defer cancel()
				begin := time.Now()
				_, err := w.create(ctx, tc.ticket, "node")
				if !sandbox.IsCapacity(err) || time.Since(begin) != tc.want {
					t.Errorf("after %s: %v", time.Since(begin), err)
				}
				if got := w.metric("sandbox_capacity_unserved_total"); got != 1 {
					t.Errorf("%v creates count as unserved", got)
				}
			})
		})
	}
}

func TestBroker_asksTheDaemonOnceForAnImpatientCreate(t *testing.T) {
	bubble(t, 1, func(w *world) {
		w.fill(1, false)
		if _, err := w.create(w.t.Context(), capacity.Ticket{Displace: true}, "node"); !sandbox.IsCapacity(err) {
			t.Errorf("create: %v", err)
		}
		if got := len(w.provider.Calls(fake.Create)); got != 2 {
			t.Errorf("%d creates", got)
		}
	})
}

// TestBroker_findsPlacesOfStrangers has a sandbox go that the broker did not
// stop, and then many.
func TestBroker_findsPlacesOfStrangers(t *testing.T) {
	bubble(t, 4, func(w *world) {
		ids := w.fill(4, false)
		for n := range 4 {
			w.queue(fmt.Sprint(n), patient(capacity.Run), "node")
		}
		for _, id := range ids {
			w.provider.Lose(id)
		}
		begin := time.Now()
		w.group.Wait()
		w.expectOrder("0", "1", "2", "3")
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// TestBroker_capsOfOneImage has a daemon that refuses one image although it has
// places.
func TestBroker_capsOfOneImage(t *testing.T) {
	bubble(t, 4, func(w *world) {
		w.fill(2, true)
		w.provider.LimitImage("python", 0)
		for n := range 2 {
			ticket := patient(capacity.Wake)
			ticket.Displace, ticket.Wait = true, 30*time.Second
			w.queue(fmt.Sprint("python ", n), ticket, "python")
		}
		w.queue("node", capacity.Ticket{}, "node")
		w.expectOrder("node")
		w.group.Wait()
		if len(w.failed) != 2 {
			t.Errorf("failed: %v", w.failed)
		}
	})
}

func TestBroker_handsOnAPlaceThatWasNotUsed(t *testing.T) {
	bubble(t, 1, func(w *world) {
		ids := w.fill(1, false)
		w.queue("broken", patient(capacity.Wake), "node")
		w.queue("next", patient(capacity.Run), "node")
		broken := errors.New("S300")
		w.provider.NextCreateErr(broken)
		w.stop(ids[0])
		w.expectOrder("next")
		if !errors.Is(w.failed["broken"], broken) {
			t.Errorf("failed: %v", w.failed)
		}
	})
}

func TestBroker_tellsOnceThatItWaits(t *testing.T) {
	bubble(t, 1, func(w *world) {
		ids := w.fill(1, false)
		told := 0
		ticket := patient(capacity.Boot)
		ticket.OnWait = func() { told++ }
		var waited time.Duration
		ticket.OnPlace = func(d time.Duration) { waited = d }
		w.queue("one", ticket, "node")
		<-time.After(20 * time.Second) // Several probes are refused.
		w.stop(ids[0])
		w.expectOrder("one")
		if told != 1 || waited != 20*time.Second {
			t.Errorf("told %d times, waited %s", told, waited)
		}
	})
}

// TestBroker_manyRuntimesOnFewPlaces has 100 callers take turns on 32 places:
// each wants a sandbox ten times, works in it, and leaves it idle.
func TestBroker_manyRuntimesOnFewPlaces(t *testing.T) {
	bubble(t, 32, func(w *world) {
		for n := range 100 {
			w.group.Go(func() {
				for range 10 {
					ticket := patient(capacity.Wake)
					ticket.Displace, ticket.Wait = true, time.Minute
					id, err := w.create(context.Background(), ticket, "node")
					if err != nil {
						t.Errorf("caller %d: %v", n, err)
						return
					}
					<-time.After(100 * time.Millisecond)
					w.mu.Lock()
					w.idle = append(w.idle, id)
					w.mu.Unlock()
				}
			})
		}
	})
}
