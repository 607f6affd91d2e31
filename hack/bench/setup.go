package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/hack/bench/results"
)

const (
	functionPrefix = "bench::"
	// credentialFunction answers with its guest's way to the bus.
	credentialFunction = "credential"
	// functionTimeout is a limit that no call comes near.
	functionTimeout = time.Minute
)

var isolations = map[results.Way]v1alpha1.FunctionIsolation{
	results.PerCall: v1alpha1.IsolationPerCall, results.Shared: v1alpha1.IsolationShared,
}

func functionName(workName, languageName string, w results.Way) string {
	return workName + "-" + languageName + "-" + string(w)
}

// prepare makes the runtimes and functions of the operator, and the original's
// sandboxes.
func (b *bench) prepare(ctx context.Context) error {
	if err := b.serveNext(); err != nil {
		return err
	}
	for _, l := range languages {
		for way := range isolations {
			if err := b.kube.Create(ctx, newRuntime(runtimeName(l, way), l, markOf(l.name, way))); err != nil {
				return err
			}
		}
	}
	if err := b.applyWorks(ctx); err != nil {
		return err
	}
	address, err := b.guestAddress(ctx)
	if err != nil {
		return err
	}
	for _, l := range languages {
		// The end of the daemon removes what is left when this fails half way.
		if b.originals[l.name], err = b.newOriginal(ctx, l, b.plan.most(), address); err != nil {
			return err
		}
	}
	return b.tryAll(ctx)
}

// tryAll has every way do every work once, so that one that cannot is no competitor.
func (b *bench) tryAll(ctx context.Context) error {
	for _, l := range languages {
		for _, w := range works {
			ways, err := b.waysOf(results.Cell{Language: l.name, Handler: w.name, Callers: 1, Instances: 1})
			if err != nil {
				return err
			}
			for _, way := range ways {
				if err := try(ctx, way, w); err != nil {
					return fmt.Errorf("%s, %s: %w", l.name, way.name, err)
				}
			}
		}
	}
	return nil
}

func try(ctx context.Context, w way, wk work) (err error) {
	if w.end != nil {
		defer closing(&err, w.end)
	}
	if w.before != nil {
		if err := w.before(ctx); err != nil {
			return err
		}
	}
	n := int(numbers.Add(1))
	answer, err := w.call(ctx, 0, wk.payload(n))
	if err == nil {
		err = wk.check(n, answer)
	}
	return err
}

// serveNext answers the function that handlers trigger.
func (b *bench) serveNext() error {
	return b.bus.RegisterFunction(bus.Function{
		ID: peerFunction, Description: "Answers n + 1",
		Handler: func(_ context.Context, inv bus.Invocation) (json.RawMessage, error) {
			var request struct {
				N int `json:"n"`
			}
			if err := json.Unmarshal(inv.Data, &request); err != nil {
				return nil, err
			}
			return fmt.Appendf(nil, "%d", request.N+1), nil
		},
	})
}

func runtimeName(l language, w results.Way) string { return l.name + "-" + string(w) }

// newRuntime has a network and access to the bus, as everything has with the
// original.
func newRuntime(name string, l language, mark string) *v1alpha1.SandboxRuntime {
	runtime := &v1alpha1.SandboxRuntime{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	runtime.Spec.Language = l.api
	runtime.Spec.Network, runtime.Spec.BusAccess = v1alpha1.AccessEnabled, v1alpha1.AccessEnabled
	runtime.Spec.Files = []v1alpha1.File{{Path: markPath, Content: &mark}}
	runtime.Spec.Replicas = ptr.To[int32](1)
	runtime.Spec.Idle = &v1alpha1.IdlePolicy{Action: v1alpha1.IdleKeep}
	return runtime
}

// applyWorks publishes every handler with both isolations, and waits for all.
func (b *bench) applyWorks(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, l := range languages {
		for way, isolation := range isolations {
			for _, w := range works {
				fn := newFunction(functionName(w.name, l.name, way), w.sources[l.name], runtimeName(l, way))
				fn.Spec.Isolation = isolation
				group.Go(func() error {
					_, err := b.applyFunction(ctx, fn)
					return err
				})
			}
		}
	}
	return group.Wait()
}

func newFunction(name, source, runtime string) *v1alpha1.SandboxFunction {
	return &v1alpha1.SandboxFunction{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.SandboxFunctionSpec{
			FunctionID: functionPrefix + name, RuntimeRef: &v1alpha1.LocalReference{Name: runtime},
			Source:              v1alpha1.FunctionSource{Inline: &source},
			TimeoutMilliseconds: ptr.To(int32(functionTimeout.Milliseconds())),
		},
	}
}

// guestAddress is the way to the bus of a guest of ours, credential included: the
// sandboxes that stand for the original reach the bus as ours do. It is a secret.
func (b *bench) guestAddress(ctx context.Context) (string, error) {
	source := "export const handler = () => process.env.III_URL;\n"
	fn := newFunction(credentialFunction, source, runtimeName(languages[0], results.PerCall))
	if _, err := b.applyFunction(ctx, fn); err != nil {
		return "", err
	}
	var address string
	if err := b.call(ctx, fn.Spec.FunctionID, struct{}{}, &address); err != nil {
		return "", err
	}
	if address == "" {
		return "", errors.New("a guest with access to the bus has no III_URL")
	}
	return address, nil
}

// scale changes the number of instances of the runtimes, and waits until they have
// all functions.
func (b *bench) scale(ctx context.Context, replicas int32) error {
	var runtimes v1alpha1.SandboxRuntimeList
	for _, l := range languages {
		for way := range isolations {
			runtime := v1alpha1.SandboxRuntime{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: runtimeName(l, way)}}
			patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
			if err := b.kube.Patch(ctx, &runtime, client.RawPatch("application/merge-patch+json", patch)); err != nil {
				return err
			}
			runtimes.Items = append(runtimes.Items, runtime)
		}
	}
	for i := range runtimes.Items {
		err := b.awaitRuntime(ctx, &runtimes.Items[i], func(r *v1alpha1.SandboxRuntime) bool {
			return r.Status.ReadyReplicas == replicas
		})
		if err != nil {
			return err
		}
	}
	return b.rest(ctx)
}

// awaitRuntime reads a runtime until it is as wanted.
func (b *bench) awaitRuntime(ctx context.Context, r *v1alpha1.SandboxRuntime, is func(*v1alpha1.SandboxRuntime) bool) error {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	for {
		if err := b.kube.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		if is(r) {
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("SandboxRuntime %s has %d of its instances ready: %w", r.Name, r.Status.ReadyReplicas, err)
		}
	}
}

// release ends what the matrix needs and the rest would share the machine with.
func (b *bench) release(ctx context.Context) error {
	errs := []error{b.stopOriginals(ctx)}
	for _, l := range languages {
		for way := range isolations {
			runtime := &v1alpha1.SandboxRuntime{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: runtimeName(l, way)}}
			for _, w := range works {
				fn := &v1alpha1.SandboxFunction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: functionName(w.name, l.name, way)}}
				errs = append(errs, b.kube.Delete(ctx, fn))
			}
			errs = append(errs, b.kube.Delete(ctx, runtime))
		}
	}
	return errors.Join(errs...)
}

func (b *bench) stopOriginals(ctx context.Context) error {
	var errs []error
	for name, o := range b.originals {
		errs = append(errs, o.stop(ctx, b))
		delete(b.originals, name)
	}
	return errors.Join(errs...)
}
