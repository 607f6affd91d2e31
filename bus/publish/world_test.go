package publish

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// patience bounds every wait of these tests; it passes only when something is
// wrong.
const patience = 20 * time.Second

var (
	start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	shop  = Runtime{Namespace: "apps", Name: "shop", UID: "uid-1"}
)

// told counts what the hooks of a table were told.
type told struct {
	mu                 sync.Mutex
	woken, added, lost int
}

func (c *told) hooks() Hooks {
	count := func(n *int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		*n++
	}
	return Hooks{
		Wake:  func(Runtime) { count(&c.woken) },
		Added: func(Runtime) { count(&c.added) },
		Lost:  func(Runtime, Instance) { count(&c.lost) },
	}
}

func (c *told) counts() (woken, added, lost int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.woken, c.added, c.lost
}

func newTestTable() (*Table, *told, *clocktesting.FakeClock) {
	clk, hooks := clocktesting.NewFakeClock(start), &told{}
	return NewTable(clk, hooks.hooks()), hooks, clk
}

func testInstance(name string, slots int) Instance {
	return Instance{Name: name, ID: sandbox.NewID("id-" + name), Slots: slots}
}

// mustAcquire takes a slot that must be free.
func mustAcquire(t *testing.T, table *Table, digest string) *Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lease, err := table.Acquire(ctx, shop, digest)
	if err != nil {
		t.Fatalf("acquiring: %v", err)
	}
	return lease
}

type answer struct {
	lease *Lease
	err   error
}

// enqueue acquires in the background and returns once the call waits.
func enqueue(ctx context.Context, t *testing.T, table *Table, digest string) <-chan answer {
	t.Helper()
	before := waiting(table)
	answers := make(chan answer, 1)
	go func() {
		lease, err := table.Acquire(ctx, shop, digest)
		answers <- answer{lease, err}
	}()
	eventually(t, "the call to wait", func() bool { return waiting(table) == before+1 })
	return answers
}

func waiting(table *Table) int {
	table.mu.Lock()
	defer table.mu.Unlock()
	return len(table.runtimes[shop].waitingCalls())
}

func (s *runtimeState) waitingCalls() []*waiter {
	if s == nil {
		return nil
	}
	return s.waiting
}

func receive(t *testing.T, answers <-chan answer) answer {
	t.Helper()
	select {
	case a := <-answers:
		return a
	case <-time.After(patience):
		t.Fatal("no answer")
		return answer{}
	}
}

// stillWaits fails if the call has an answer. It may be called only when nothing
// is under way that could give one.
func stillWaits(t *testing.T, answers <-chan answer) {
	t.Helper()
	select {
	case a := <-answers:
		t.Fatalf("the call was answered: %+v", a)
	default:
	}
}

// eventually polls until the condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	gomega.NewWithT(t).Eventually(holds, patience, time.Millisecond).Should(gomega.BeTrue(), what)
}

func names(instances []Instance) string {
	var list []string
	for _, i := range instances {
		list = append(list, i.Name)
	}
	return fmt.Sprint(list)
}
