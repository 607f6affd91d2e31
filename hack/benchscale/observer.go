package main

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// observer watches all functions, as a user would.
type observer struct {
	mu      sync.Mutex
	ready   map[string]bool
	stalled string
	changed chan struct{}
}

// observe begins to watch and returns once it has read what there is.
func observe(ctx context.Context, watched cache.Cache) (*observer, error) {
	o := &observer{ready: map[string]bool{}, changed: make(chan struct{}, 1)}
	informer, err := watched.GetInformer(ctx, &v1alpha1.SandboxFunction{})
	if err != nil {
		return nil, err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    o.see,
		UpdateFunc: func(_, now any) { o.see(now) },
	})
	return o, err
}

func (o *observer) see(seen any) {
	fn, ok := seen.(*v1alpha1.SandboxFunction)
	if !ok {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if meta.IsStatusConditionTrue(fn.Status.Conditions, v1alpha1.ReadyCondition) {
		o.ready[fn.Spec.FunctionID] = true
	}
	if c := meta.FindStatusCondition(fn.Status.Conditions, v1alpha1.StalledCondition); c != nil {
		o.stalled = fn.Spec.FunctionID + ": " + c.Message
	}
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

// state says how many functions have been Ready; a stalled one is an error.
func (o *observer) state() (ready int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stalled != "" {
		return 0, fmt.Errorf("a function is stalled: %s", o.stalled)
	}
	return len(o.ready), nil
}

// await waits until so many functions have been Ready.
func (o *observer) await(ctx context.Context, functions int) error {
	for {
		ready, err := o.state()
		if err != nil || ready >= functions {
			return err
		}
		select {
		case <-o.changed:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d functions are Ready: %w", ready, functions, ctx.Err())
		}
	}
}
