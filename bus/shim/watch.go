package shim

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// Informers is the part of the manager's cache that tells of changes.
type Informers interface {
	GetInformer(ctx context.Context, obj client.Object, opts ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error)
}

// Watch turns the ends of objects and the changes of the daemon's list into
// events until ctx ends. Only the leader runs it, which alone is on the bus.
func (s *Shim) Watch(ctx context.Context, informers Informers) error {
	var stops []func()
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	for _, kind := range []client.Object{&v1alpha1.SandboxRuntime{}, &v1alpha1.SandboxFunction{}} {
		stop, err := s.watchKind(ctx, informers, kind)
		if err != nil {
			return err
		}
		stops = append(stops, stop)
	}
	s.watchFleet(ctx)
	return nil
}

func (s *Shim) watchKind(ctx context.Context, informers Informers, kind client.Object) (stop func(), err error) {
	informer, err := informers.GetInformer(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("watching %T: %w", kind, err)
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    s.onAdd,
		DeleteFunc: s.onDelete,
	})
	if err != nil {
		return nil, fmt.Errorf("watching %T: %w", kind, err)
	}
	return func() {
		if err := informer.RemoveEventHandler(registration); err != nil && !errors.Is(err, context.Canceled) {
			s.Logger.Debug("A watch could not be ended", "error", err)
		}
	}, nil
}

// onAdd adopts what a former leader's callers made.
func (s *Shim) onAdd(obj any, initial bool) {
	if object, ok := obj.(client.Object); ok && initial && object.GetNamespace() == s.Namespace && ofBus(object) {
		s.lifetimes.adopt(object.GetUID())
	}
}

// ofBus leaves out what kubectl made. The runtime that functions share has no
// mark of its own.
func ofBus(obj client.Object) bool {
	return isFromBus(obj.GetLabels()) || obj.GetLabels()[v1alpha1.ImplicitLabel] != ""
}

func (s *Shim) onDelete(obj any) {
	if last, missed := obj.(cache.DeletedFinalStateUnknown); missed {
		obj = last.Obj
	}
	switch object := obj.(type) {
	case *v1alpha1.SandboxRuntime:
		if object.Namespace != s.Namespace {
			return
		}
		s.lifetimes.end(object.UID, s.tellTeardown(object))
		s.ids.drop(object.Name)
	case *v1alpha1.SandboxFunction:
		s.lifetimes.end(object.UID, s.tellUnregistered(object))
	}
}
