package publish

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/baggage"
	"golang.org/x/sync/singleflight"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// Workers knows the names of the workers on the bus, by which the programs in
// slots are known.
type Workers struct {
	list  func(ctx context.Context) (map[string]string, error)
	group singleflight.Group

	mu    sync.Mutex
	names map[string]string
}

const (
	listTimeout = 2 * time.Second
	// maxNames bounds the names that are remembered; the present ones are listed
	// again when they are asked for.
	maxNames = 4096
	// A client may call before it has told the engine its name.
	nameAttempts = 5
	namePause    = 20 * time.Millisecond
)

// workerMember is the member of the baggage in which the agent's hosts name the
// worker that a program is (guest/agent/node/iii.mjs, sandbox_iii.py).
const workerMember = "sandbox-worker"

// CallerOf is the caller of a call with this context and worker id, which the engine
// vouches for; empty for payloads that are no objects (contracts/iii-bus.md §5.2).
// What the call's baggage says comes first: it is there in every call of the agent's
// hosts and costs nothing. A program gains nothing by a lie in it: at most a slot
// in reserve, or a refusal. The context in which the caller is asked for may be that
// of another call, which it led to. The id is asked for only where it is needed.
func (w *Workers) CallerOf(call context.Context, id func() string) Caller {
	name := baggage.FromContext(call).Member(workerMember).Value()
	return func(ctx context.Context) string {
		if name != "" {
			return name
		}
		return w.Name(ctx, id())
	}
}

// NewWorkers returns the workers of the client's bus.
func NewWorkers(client *bus.Client) *Workers {
	return newWorkers(func(ctx context.Context) (map[string]string, error) { return listWorkers(ctx, client) })
}

func newWorkers(list func(context.Context) (map[string]string, error)) *Workers {
	return &Workers{list: list, names: map[string]string{}}
}

// Name returns the name of a worker, empty if it has none or the engine does not
// say so in time. A worker keeps its name as long as its id.
func (w *Workers) Name(ctx context.Context, id string) string {
	if w == nil || id == "" {
		return ""
	}
	for range nameAttempts {
		if name := w.known(id); name != "" {
			return name
		}
		listed, err := w.lookUp(ctx)
		if name, ok := listed[id]; ok || err != nil {
			return name
		}
		select {
		case <-time.After(namePause):
		case <-ctx.Done():
			return ""
		}
	}
	return w.known(id)
}

// lookUp asks the engine. Those who ask at the same time share the answer, so it
// must not end with one of them.
func (w *Workers) lookUp(ctx context.Context) (map[string]string, error) {
	answer := w.group.DoChan("", func() (any, error) { return w.refresh(context.WithoutCancel(ctx)) })
	select {
	case listed := <-answer:
		names, _ := listed.Val.(map[string]string)
		return names, listed.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w *Workers) known(id string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.names[id]
}

func (w *Workers) refresh(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	names, err := w.list(ctx)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.names)+len(names) > maxNames {
		clear(w.names)
	}
	for id, name := range names {
		if name != "" {
			w.names[id] = name
		}
	}
	return names, nil
}

// listWorkers asks the engine for the workers and their names, empty for none
// (contracts/iii-bus.md §7).
func listWorkers(ctx context.Context, client *bus.Client) (map[string]string, error) {
	type answer struct {
		Workers []struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"workers"`
	}
	list, err := bus.Invoke[answer](ctx, client, protocol.FunctionWorkersList, struct{}{})
	if err != nil {
		return nil, err
	}
	names := make(map[string]string, len(list.Workers))
	for _, worker := range list.Workers {
		names[worker.ID] = worker.Name
	}
	return names, nil
}
