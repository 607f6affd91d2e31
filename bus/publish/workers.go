package publish

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// Workers knows the names of the workers on the bus. The engine vouches for a
// caller's id only, and names are how the programs in slots are known.
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
)

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
	if name := w.known(id); name != "" {
		return name
	}
	// Shared by all who ask at the same time, so it must not end with one of them.
	listed := w.group.DoChan("", func() (any, error) { return nil, w.refresh(context.WithoutCancel(ctx)) })
	select {
	case <-listed:
	case <-ctx.Done():
	}
	return w.known(id)
}

func (w *Workers) known(id string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.names[id]
}

func (w *Workers) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	names, err := w.list(ctx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.names)+len(names) > maxNames {
		clear(w.names)
	}
	for id, name := range names {
		w.names[id] = name
	}
	return nil
}

// listWorkers asks the engine for the workers that have a name
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
		if worker.Name != "" {
			names[worker.ID] = worker.Name
		}
	}
	return names, nil
}
