package fleet

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

// watched is a watcher under way over a fake back end, in virtual time.
type watched struct {
	*Watcher
	provider *fake.Provider

	mu      sync.Mutex
	changes []Change
}

// watch runs the test in a bubble whose clock moves when all goroutines wait.
func watch(t *testing.T, body func(w *watched)) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{provider: fake.New()}
		w.Watcher = NewWatcher(w.provider, "op", 2*time.Second, nil)
		w.Subscribe(func(c Change) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.changes = append(w.changes, c)
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		synctest.Wait()
		body(w)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the watcher ended with %v", err)
		}
	})
}

// add makes a sandbox of ours for an object.
func (w *watched) add(object string, ordinal int) sandbox.ID {
	return w.provider.Adopt(sandbox.Marker{Operator: "op", Object: object, Ordinal: ordinal, Nonce: "n"}.String(), "node")
}

// poke has the list read and returns the changes since the last poke.
func (w *watched) poke() []Change {
	w.Poke()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	changes := w.changes
	w.changes = nil
	return changes
}

// pass lets virtual time pass and returns the number of readings in it.
func (w *watched) pass(d time.Duration) int {
	before := len(w.provider.Calls(fake.List))
	<-time.After(d)
	synctest.Wait()
	return len(w.provider.Calls(fake.List)) - before
}

func TestWatcher_changes(t *testing.T) {
	watch(t, func(w *watched) {
		expect := func(what string, want ...Change) {
			t.Helper()
			if diff := cmp.Diff(want, w.poke()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		expect("at first the back end is there", Change{AvailabilityChanged: true, Available: true})
		one := w.add("a", 0)
		w.add("b", 1)
		w.add("b", 0)
		w.provider.Adopt("somebody's", "node")
		w.provider.Adopt(sandbox.Marker{Operator: "other", Object: "c", Nonce: "n"}.String(), "node")
		expect("ours appear, strangers do not", Change{Objects: []string{"a", "b"}, Available: true})
		expect("nothing changes")
		w.provider.Lose(one)
		w.add("a", 0)
		expect("a sandbox that was replaced", Change{Objects: []string{"a"}, Available: true})
		snapshot := w.Snapshot()
		if len(snapshot.All) != 5 || len(snapshot.Ours) != 2 || snapshot.Ours["b"][0].Marker.Ordinal != 0 {
			t.Errorf("snapshot is %+v", snapshot)
		}
		if _, found := snapshot.Find(one); found {
			t.Error("the lost sandbox is found")
		}
		if info, found := snapshot.Find(snapshot.Ours["a"][0].Info.ID); !found || info.Image != "node" {
			t.Error("a sandbox of the list is not found")
		}
	})
}

func TestWatcher_absence(t *testing.T) {
	watch(t, func(w *watched) {
		w.add("a", 0)
		w.poke()
		read := w.Snapshot().Time
		down := sandbox.NewUnavailableError(errors.New("down"))
		w.provider.FailNext(fake.List, down, down)
		if diff := cmp.Diff([]Change{{AvailabilityChanged: true}}, w.poke()); diff != "" {
			t.Errorf("loss of the back end (-want +got):\n%s", diff)
		}
		got := w.Snapshot()
		if got.Available || !errors.Is(got.Err, down) || len(got.Ours["a"]) != 1 || !got.Time.Equal(read) {
			t.Errorf("the last list is not kept: %+v", got)
		}
		if changes := w.poke(); changes != nil {
			t.Errorf("a second failure is no change, got %+v", changes)
		}
		if diff := cmp.Diff([]Change{{AvailabilityChanged: true, Available: true}}, w.poke()); diff != "" {
			t.Errorf("return of the back end (-want +got):\n%s", diff)
		}
	})
}

func TestWatcher_hiccups(t *testing.T) {
	for name, hiccup := range map[string]error{
		"a reading that took too long": sandbox.NewUnavailableError(context.DeadlineExceeded),
		"an error of the daemon":       sandbox.NewTransientError("S218", "stalled"),
	} {
		t.Run(name, func(t *testing.T) {
			watch(t, func(w *watched) {
				w.poke()
				w.provider.FailNext(fake.List, hiccup)
				if changes := w.poke(); changes != nil || !w.Snapshot().Available || w.Snapshot().Err == nil {
					t.Errorf("one failure changed %+v", changes)
				}
				w.poke()
				w.provider.FailNext(fake.List, hiccup, hiccup)
				w.poke()
				if diff := cmp.Diff([]Change{{AvailabilityChanged: true}}, w.poke()); diff != "" {
					t.Errorf("two in a row (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestWatcher_rate(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(w *watched) (undo func())
		want    int
	}{
		"nobody is interested": {func(*watched) func() { return func() {} }, 10},
		"somebody is":          {func(w *watched) func() { return w.Interest() }, 50},
		"a sandbox of ours":    {func(w *watched) func() { w.add("a", 0); return func() {} }, 50},
		"the daemon is absent": {func(w *watched) func() {
			for range 100 {
				w.provider.FailNext(fake.List, errors.New("down"))
			}
			return func() {}
		}, 50},
	} {
		t.Run(name, func(t *testing.T) {
			watch(t, func(w *watched) {
				undo := tc.prepare(w)
				// Until the rate has settled.
				w.pass(time.Minute)
				if got := w.pass(100 * time.Second); got != tc.want {
					t.Errorf("%d readings in 100 s, want %d", got, tc.want)
				}
				undo()
				undo()
			})
		})
	}
}

// However long the daemon was away, its return is noticed at the next reading.
func TestWatcher_noticesTheReturn(t *testing.T) {
	watch(t, func(w *watched) {
		const away = 300
		for range away {
			w.provider.FailNext(fake.List, sandbox.NewUnavailableError(errors.New("down")))
		}
		if failed := w.pass(away * 2 * time.Second); w.Snapshot().Available || failed > away {
			t.Fatalf("the daemon was there in one of %d readings", failed)
		} else {
			w.pass(time.Duration(away-failed) * 2 * time.Second)
		}
		w.pass(2 * time.Second)
		if !w.Snapshot().Available {
			t.Error("the daemon is away 2 s after its return")
		}
	})
}

func TestWatcher_interestEnds(t *testing.T) {
	watch(t, func(w *watched) {
		done := w.Interest()
		w.pass(time.Minute)
		done()
		done()
		w.pass(time.Minute)
		if got := w.pass(100 * time.Second); got != 10 {
			t.Errorf("%d readings in 100 s after the interest ended, want 10", got)
		}
	})
}

func TestGroup(t *testing.T) {
	marker := sandbox.Marker{Operator: "op", Object: "a", Nonce: "n"}
	stopping := sandbox.Info{ID: sandbox.NewID("1"), Name: marker.String(), Stopped: true}
	if got := group([]sandbox.Info{stopping}, "op"); len(got) != 0 {
		t.Errorf("a sandbox that is being removed counts: %+v", got)
	}
}
