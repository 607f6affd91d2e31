package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fleet"
)

// recordedBus keeps what is registered and answers the catalog.
type recordedBus struct {
	mu        sync.Mutex
	functions map[string]bus.Function
	order     []string
	probes    []string
	info      func(id string) error
	triggers  []bus.Trigger
	types     []bus.TriggerType
	// workers are the ids that the engine lists.
	workers []string
	sent    []bus.Call
}

func (b *recordedBus) RegisterTrigger(t bus.Trigger) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.triggers = append(b.triggers, t)
	return nil
}

func (b *recordedBus) RegisterTriggerType(t bus.TriggerType) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.types = append(b.types, t)
	return nil
}

// Call answers engine::workers::list.
func (b *recordedBus) Call(_ context.Context, call bus.Call) (json.RawMessage, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if call.FunctionID != protocol.FunctionWorkersList {
		return nil, errors.New("unexpected call of " + call.FunctionID)
	}
	rows := []map[string]string{}
	for _, id := range b.workers {
		rows = append(rows, map[string]string{"id": id})
	}
	return json.Marshal(map[string]any{"workers": rows})
}

func (b *recordedBus) Void(_ context.Context, call bus.Call) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent = append(b.sent, call)
	return nil
}

// listedFleet is a daemon's list as the test says.
type listedFleet struct {
	mu         sync.Mutex
	snapshot   fleet.Snapshot
	interested int
}

func (f *listedFleet) Snapshot() fleet.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.snapshot
}

func (f *listedFleet) set(s fleet.Snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.snapshot = s
}

func (f *listedFleet) Interest() func() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.interested++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.interested--
	}
}

// notOnBus is the engine's answer for an id that nobody has.
func notOnBus(string) error {
	return fmt.Errorf("calling: %w", &bus.RemoteError{Code: protocol.CodeNotFound, Message: "no such function"})
}

func (b *recordedBus) RegisterFunction(f bus.Function) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.functions[f.ID] = f
	b.order = append(b.order, f.ID)
	return nil
}

func (b *recordedBus) FunctionInfo(_ context.Context, id, namespace string) (bus.FunctionInfo, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if namespace != protocol.DefaultNamespace {
		return bus.FunctionInfo{}, errors.New("asked another namespace than the functions land in")
	}
	b.probes = append(b.probes, id)
	return bus.FunctionInfo{FunctionID: id, WorkerName: "stranger"}, b.info(id)
}

func (b *recordedBus) handler(id string) bus.Handler {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.functions[id].Handler
}

func (b *recordedBus) probed() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.probes)
}

// scriptedResults answers for the runs' controller.
type scriptedResults struct {
	w      *world
	mu     sync.Mutex
	offers map[string]int
	// seen are the runs that were awaited, with the code that was on offer.
	seen  []seenRun
	await func(ctx context.Context, run *v1alpha1.SandboxRun) (Outcome, error)
}

type seenRun struct {
	spec    v1alpha1.SandboxRunSpec
	name    string
	labels  map[string]string
	owner   string
	offered bool
}

func (r *scriptedResults) Offer(sha256 string, _ []byte) func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offers[sha256]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.offers[sha256]--
	}
}

func (r *scriptedResults) Await(ctx context.Context, uid types.UID) (Outcome, error) {
	run, err := r.find(uid)
	if err != nil {
		return Outcome{}, err
	}
	r.record(run)
	return r.script()(ctx, run)
}

func (r *scriptedResults) find(uid types.UID) (*v1alpha1.SandboxRun, error) {
	var list v1alpha1.SandboxRunList
	if err := r.w.api.List(context.Background(), &list); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].UID == uid {
			return &list.Items[i], nil
		}
	}
	return nil, errors.New("no run has the awaited UID")
}

func (r *scriptedResults) record(run *v1alpha1.SandboxRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := seenRun{spec: run.Spec, name: run.Name, labels: run.Labels, owner: run.Annotations[ownerAnnotation]}
	if t := run.Spec.Source.Transient; t != nil {
		seen.offered = r.offers[t.SHA256] > 0
	}
	r.seen = append(r.seen, seen)
}

func (r *scriptedResults) script() func(context.Context, *v1alpha1.SandboxRun) (Outcome, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.await
}

func (r *scriptedResults) set(await func(context.Context, *v1alpha1.SandboxRun) (Outcome, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.await = await
}

// all are the awaited runs so far.
func (r *scriptedResults) all() []seenRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]seenRun{}, r.seen...)
}

// onOffer counts the code that is in memory.
func (r *scriptedResults) onOffer() (count int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.offers {
		count += n
	}
	return count
}

func settle(o Outcome) func(context.Context, *v1alpha1.SandboxRun) (Outcome, error) {
	return func(context.Context, *v1alpha1.SandboxRun) (Outcome, error) { return o, nil }
}

func fail(f Failure) func(context.Context, *v1alpha1.SandboxRun) (Outcome, error) {
	return settle(Outcome{Failure: &f})
}

// hang is a run that takes until its caller gives up.
func hang(ctx context.Context, _ *v1alpha1.SandboxRun) (Outcome, error) {
	<-ctx.Done()
	return Outcome{}, ctx.Err()
}

func setCondition(f *v1alpha1.SandboxFunction, kind, status, reason, message string) {
	meta.SetStatusCondition(&f.Status.Conditions, metav1.Condition{
		Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message,
		ObservedGeneration: f.Generation,
	})
}

func kindOf(obj client.Object) string { return reflect.TypeOf(obj).Elem().Name() }

// observedClient tells of every read of a function.
type observedClient struct {
	client.Client
	gets chan struct{}
}

func (c observedClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	select {
	case c.gets <- struct{}{}:
	case <-ctx.Done():
	}
	return c.Client.Get(ctx, key, obj, opts...)
}

// drainUntil lets an observed client go on until its caller returns.
func drainUntil(gets <-chan struct{}, failures <-chan error) error {
	for {
		select {
		case <-gets:
		case err := <-failures:
			return err
		}
	}
}

// muteClient creates, but loses the answer.
type muteClient struct{ client.Client }

func (c muteClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	if err := c.Client.Create(ctx, obj.DeepCopyObject().(client.Object), opts...); err != nil {
		return err
	}
	return errors.New("connection reset")
}

func contextThatEnded(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx, cancel
}

// staleClient reads from a cache that has nothing yet.
type staleClient struct{ client.Client }

func (c staleClient) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (c staleClient) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

var discard = slog.New(slog.DiscardHandler)
