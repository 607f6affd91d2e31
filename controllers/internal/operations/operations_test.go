package operations_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/controllers/internal/operations"
)

const patience = 20 * time.Second

// newTable returns a table that is closed at the end of the test, by when all
// operations must have ended.
func newTable(t *testing.T) *operations.Table[string] {
	t.Helper()
	table := operations.NewTable[string]()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := table.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return table
}

func wait(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("gave up waiting for %s", what)
	}
}

func TestTable_oneOperationAKey(t *testing.T) {
	table := newTable(t)
	goOn, done := make(chan struct{}), make(chan struct{})
	first := func(context.Context) (string, error) { <-goOn; return "first", nil }
	if !table.Start("a", first, func() { close(done) }) {
		t.Fatal("the first operation was refused")
	}
	second := func(context.Context) (string, error) { t.Error("a second operation ran"); return "", nil }
	never := func() { t.Error("a refused operation is done") }
	if table.Start("a", second, never) || !table.Running("a") {
		t.Error("a second operation was taken while the first runs")
	}
	if _, ok := table.Take("a"); ok {
		t.Error("a running operation was taken away")
	}
	close(goOn)
	wait(t, "the operation", done)
	if table.Start("a", second, never) || table.Running("a") {
		t.Error("a second operation was taken before the first was collected")
	}
	if got, ok := table.Get("a"); !ok || !got.Done || got.Result != "first" {
		t.Errorf("the operation is %+v, %t", got, ok)
	}
	if got, ok := table.Take("a"); !ok || got.Result != "first" || got.Err != nil {
		t.Errorf("collected %+v, %t", got, ok)
	}
	if _, ok := table.Take("a"); ok {
		t.Error("an operation was collected twice")
	}
	again := make(chan struct{})
	if !table.Start("a", func(context.Context) (string, error) { return "", nil }, func() { close(again) }) {
		t.Error("a collected key takes no new operation")
	}
	wait(t, "the new operation", again)
}

func TestTable_failures(t *testing.T) {
	refused, stop := errors.New("refused"), errors.New("not wanted")
	for name, tc := range map[string]struct {
		run  func(context.Context) (string, error)
		want func(error) bool
	}{
		"an error": {
			func(context.Context) (string, error) { return "", refused },
			func(err error) bool { return errors.Is(err, refused) },
		},
		"a panic": {
			func(context.Context) (string, error) { panic("boom") },
			func(err error) bool {
				var p *operations.PanicError
				return errors.As(err, &p) && p.Value == "boom" && len(p.Stack) > 0
			},
		},
		"a cancellation with its cause": {
			func(ctx context.Context) (string, error) { <-ctx.Done(); return "", context.Cause(ctx) },
			func(err error) bool { return errors.Is(err, stop) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			table, done := newTable(t), make(chan struct{})
			table.Start("a", tc.run, func() { close(done) })
			table.Cancel("unknown", stop)
			if name == "a cancellation with its cause" {
				table.Cancel("a", stop)
			}
			wait(t, "the operation", done)
			if got, ok := table.Take("a"); !ok || !tc.want(got.Err) {
				t.Errorf("collected %+v, %t", got, ok)
			}
		})
	}
}

func TestTable_discard(t *testing.T) {
	table, stop := newTable(t), errors.New("not wanted")
	causes, done := make(chan error, 1), make(chan struct{})
	table.Start("a", func(ctx context.Context) (string, error) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return "late", nil
	}, func() { close(done) })
	table.Discard("a", stop)
	table.Discard("unknown", stop)
	wait(t, "the operation", done)
	if cause := <-causes; !errors.Is(cause, stop) {
		t.Errorf("the cause is %v", cause)
	}
	if _, known := table.Get("a"); known {
		t.Error("a discarded operation is still known")
	}
	again := make(chan struct{})
	if !table.Start("a", func(context.Context) (string, error) { return "", nil }, func() { close(again) }) {
		t.Error("a discarded key takes no new operation")
	}
	wait(t, "the new operation", again)
}

func TestTable_close(t *testing.T) {
	table, goOn := operations.NewTable[string](), make(chan struct{})
	var cause atomic.Value
	table.Start("slow", func(ctx context.Context) (string, error) {
		<-ctx.Done()
		cause.Store(context.Cause(ctx))
		<-goOn
		return "", nil
	}, func() {})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := table.Close(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("closing without patience: %v", err)
	}
	if table.Start("late", func(context.Context) (string, error) { return "", nil }, func() {}) {
		t.Error("a closed table took an operation")
	}
	closed := make(chan error, 1)
	go func() { closed <- table.Close(t.Context()) }()
	select {
	case err := <-closed:
		t.Fatalf("closed while an operation runs: %v", err)
	default:
	}
	close(goOn)
	if err := <-closed; err != nil || !errors.Is(cause.Load().(error), operations.ErrStopped) {
		t.Errorf("closing: %v; the operation was told %v", err, cause.Load())
	}
}

// TestTable_concurrently starts one key from everywhere: it never runs twice at
// the same time, and every operation that began is done once.
func TestTable_concurrently(t *testing.T) {
	table := newTable(t)
	var running, began, done atomic.Int32
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 200 {
				table.Start("a", func(context.Context) (string, error) {
					began.Add(1)
					if running.Add(1) > 1 {
						t.Error("two operations under one key")
					}
					running.Add(-1)
					return "", nil
				}, func() { done.Add(1); table.Take("a") })
			}
		})
	}
	all.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := table.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if began.Load() == 0 || began.Load() != done.Load() {
		t.Errorf("%d operations began, %d are done", began.Load(), done.Load())
	}
}
