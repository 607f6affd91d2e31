package guestaccess

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// catalogAge is how long the engine's list is good for. What comes within it is
// forbidden to later guests only, unless knownFunctions has it.
const catalogAge = 2 * time.Second

// catalog is the engine's list of what may have to be forbidden.
type catalog struct {
	bus   Bus
	clock clock.PassiveClock

	mu   sync.Mutex
	ids  []string
	read time.Time
}

// list returns the ids below all guarded prefixes. Guests that come together
// share one reading.
func (c *catalog) list(ctx context.Context) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.read.IsZero() && c.clock.Since(c.read) < catalogAge {
		return c.ids, nil
	}
	ids, err := c.fetch(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing what guests may not call: %w", err)
	}
	c.ids, c.read = ids, c.clock.Now()
	return ids, nil
}

func (c *catalog) fetch(ctx context.Context) ([]string, error) {
	found := make([][]string, len(guardedPrefixes))
	group, ctx := errgroup.WithContext(ctx)
	for i, prefix := range guardedPrefixes {
		group.Go(func() (err error) {
			found[i], err = c.below(ctx, prefix)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(found...), nil
}

func (c *catalog) below(ctx context.Context, prefix string) ([]string, error) {
	request, err := json.Marshal(map[string]any{"prefix": prefix, "include_internal": true})
	if err != nil {
		return nil, err
	}
	answer, err := c.bus.Call(ctx, bus.Call{FunctionID: protocol.FunctionFunctionsList, Data: request})
	if err != nil {
		return nil, err
	}
	var response struct {
		Functions []struct {
			ID string `json:"function_id"`
		} `json:"functions"`
	}
	if err := json.Unmarshal(answer, &response); err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(response.Functions))
	for _, f := range response.Functions {
		ids = append(ids, f.ID)
	}
	return ids, nil
}
