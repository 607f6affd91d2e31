package shim

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

const (
	testNamespace = "runs"
	patience      = 20 * time.Second
)

// functionIDIndex is how the manager's cache finds functions.
const (
	functionIDIndex      = "spec.functionID"
	functionPrefixIndex  = "prefix"
	functionRuntimeIndex = "runtime"
)

// world is a shim between a recorded bus and a fake API server.
type world struct {
	t   *testing.T
	api client.WithWatch
	// behind is the API server without a record of who writes.
	behind  client.WithWatch
	clock   *testclock.FakeClock
	bus     *recordedBus
	fleet   *listedFleet
	results *scriptedResults
	shim    *Shim

	mu sync.Mutex
	// fault is asked before each write; an error stands for the API server's.
	fault func(verb string, obj client.Object) error
	// onFunction acts as the functions' controller on a new one.
	onFunction func(*v1alpha1.SandboxFunction)
	writes     []string
}

func newWorld(t *testing.T, change ...func(*Options)) *world {
	t.Helper()
	w := &world{t: t, clock: testclock.NewFakeClock(time.Unix(1_790_000_000, 0))}
	w.onFunction = w.serve
	w.behind = newFakeAPI(t)
	w.api = interceptor.NewClient(w.behind, interceptor.Funcs{Create: w.create, Delete: w.delete, Patch: w.patch})
	w.fleet = &listedFleet{}
	w.bus = &recordedBus{functions: map[string]bus.Function{}, info: notOnBus}
	w.results = &scriptedResults{w: w, offers: map[string]int{}, await: settle(Outcome{Success: true})}
	options := Options{
		Bus: w.bus, Client: w.api, Reader: w.api, Namespace: testNamespace, Results: w.results, Clock: w.clock,
		Fleet: w.fleet, FunctionIDIndex: functionIDIndex, FunctionPrefixIndex: functionPrefixIndex,
		FunctionRuntimeIndex: functionRuntimeIndex,
	}
	for _, c := range change {
		c(&options)
	}
	shim, err := New(options)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	shim.deleteAttempts = wait.Backoff{Steps: 6, Duration: time.Millisecond, Factor: 1}
	if err := shim.Register(); err != nil {
		t.Fatalf("Register: %v", err)
	}
	w.shim = shim
	t.Cleanup(func() {
		w.drain()
		w.shim.events.close()
	})
	return w
}

func newFakeAPI(t *testing.T) client.WithWatch {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatalf("scheme: %v", err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).
		WithIndex(&v1alpha1.SandboxFunction{}, functionIDIndex, func(obj client.Object) []string {
			return []string{obj.(*v1alpha1.SandboxFunction).Spec.FunctionID}
		}).
		WithIndex(&v1alpha1.SandboxFunction{}, functionPrefixIndex, func(obj client.Object) []string {
			prefix, _, _ := strings.Cut(obj.(*v1alpha1.SandboxFunction).Spec.FunctionID, separator)
			return []string{prefix}
		}).
		WithIndex(&v1alpha1.SandboxFunction{}, functionRuntimeIndex, func(obj client.Object) []string {
			return []string{obj.(*v1alpha1.SandboxFunction).Status.RuntimeName}
		}).
		WithStatusSubresource(&v1alpha1.SandboxFunction{}, &v1alpha1.SandboxRun{}, &v1alpha1.SandboxRuntime{}).
		Build()
}

// create gives the object a UID, as the API server does, and then lets the
// functions' controller act.
func (w *world) create(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
	if err := w.note("create", obj); err != nil {
		return err
	}
	obj.SetUID(types.UID(uuid.NewString()))
	obj.SetGeneration(1)
	obj.SetCreationTimestamp(metav1.NewTime(w.clock.Now().Truncate(time.Second)))
	if err := c.Create(ctx, obj, opts...); err != nil {
		return err
	}
	if f, ok := obj.(*v1alpha1.SandboxFunction); ok {
		w.onFunction(f.DeepCopy())
	}
	return nil
}

func (w *world) delete(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
	if err := w.note("delete", obj); err != nil {
		return err
	}
	return c.Delete(ctx, obj, opts...)
}

func (w *world) patch(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
	if err := w.note("patch", obj); err != nil {
		return err
	}
	if _, ok := obj.(*v1alpha1.SandboxFunction); ok {
		// Only specs are patched, which the API server counts.
		obj.SetGeneration(obj.GetGeneration() + 1)
	}
	if err := c.Patch(ctx, obj, p, opts...); err != nil {
		return err
	}
	if f, ok := obj.(*v1alpha1.SandboxFunction); ok {
		w.onFunction(f.DeepCopy())
	}
	return nil
}

// serve does what the functions' controller does with a good function.
func (w *world) serve(f *v1alpha1.SandboxFunction) {
	f.Status.RuntimeName = prefixOf(f.Spec.FunctionID) + "-" + languageWords[languageOf(f)]
	if f.Spec.Runtime != nil {
		f.Status.RuntimeName = f.Name
	}
	runtime := &v1alpha1.SandboxRuntime{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.Namespace, Name: f.Status.RuntimeName, UID: types.UID(uuid.NewString()),
			Labels:            map[string]string{v1alpha1.ImplicitLabel: "true"},
			Annotations:       map[string]string{v1alpha1.RegisteredAtAnnotation: f.Annotations[v1alpha1.RegisteredAtAnnotation]},
			CreationTimestamp: metav1.NewTime(w.clock.Now().Truncate(time.Second)),
		},
		Spec: v1alpha1.SandboxRuntimeSpec{Language: languageOf(f)},
	}
	if err := client.IgnoreAlreadyExists(w.behind.Create(context.Background(), runtime)); err != nil {
		w.t.Errorf("runtime of %s: %v", f.Name, err)
	}
	w.setCondition(f, v1alpha1.ReadyCondition, v1alpha1.ReadyReason, "")
}

func (w *world) note(verb string, obj client.Object) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	kind := strings.TrimPrefix(strings.ToLower(kindOf(obj)), "sandbox")
	w.writes = append(w.writes, verb+" "+kind)
	if w.fault != nil {
		return w.fault(verb, obj)
	}
	return nil
}

func (w *world) setFault(fault func(verb string, obj client.Object) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = fault
}

// wrote is every write so far, deletions in the background included.
func (w *world) wrote() []string {
	w.t.Helper()
	w.drain()
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{}, w.writes...)
}

func (w *world) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := await(ctx, w.shim.background.Wait); err != nil {
		w.t.Errorf("deletions still run in the background: %v", err)
	}
}

// call goes the way of a bus call.
func (w *world) call(ctx context.Context, function string, payload any) (map[string]any, error) {
	w.t.Helper()
	raw, ok := payload.(string)
	if !ok {
		data, err := json.Marshal(payload)
		if err != nil {
			w.t.Fatalf("payload: %v", err)
		}
		raw = string(data)
	}
	data, err := w.bus.handler(w.shim.WorkerName+"::"+function)(ctx, bus.Invocation{Data: json.RawMessage(raw)})
	if err != nil {
		return nil, err
	}
	var response map[string]any
	if err := json.Unmarshal(data, &response); err != nil {
		w.t.Fatalf("response %s: %v", data, err)
	}
	return response, nil
}

func (w *world) mustCall(function string, payload any) map[string]any {
	w.t.Helper()
	response, err := w.call(w.t.Context(), function, payload)
	if err != nil {
		w.t.Fatalf("%s(%v): %v", function, payload, err)
	}
	return response
}

// callError calls and returns the text that a caller gets, without the bus's
// framing.
func (w *world) callError(function string, payload any) string {
	w.t.Helper()
	response, err := w.call(w.t.Context(), function, payload)
	if err == nil {
		w.t.Fatalf("%s(%v) answered %v, want an error", function, payload, response)
	}
	return errorText(w.t, err)
}

func errorText(t *testing.T, err error) string {
	t.Helper()
	var remote *bus.RemoteError
	if !errors.As(err, &remote) || remote.Code != protocol.CodeInvocationFailed {
		t.Fatalf("error %v is not in the envelope of a handler error", err)
	}
	text, framed := strings.CutPrefix(remote.Message, "handler error: sandbox-code-runner::")
	if !framed {
		t.Fatalf("message %q lacks its frame", remote.Message)
	}
	return text
}

func wantText(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("text %q lacks %q", text, want)
		}
	}
}

func (w *world) setCondition(f *v1alpha1.SandboxFunction, kind, reason, message string) {
	status := "True"
	if kind == "NotReady" {
		kind, status = v1alpha1.ReadyCondition, "False"
	}
	setCondition(f, kind, status, reason, message)
	if err := w.api.Status().Update(context.Background(), f); err != nil {
		w.t.Errorf("status of %s: %v", f.Name, err)
	}
}

func (w *world) runs() []v1alpha1.SandboxRun {
	w.t.Helper()
	w.drain()
	var list v1alpha1.SandboxRunList
	w.list(&list)
	return list.Items
}

func (w *world) runtimes() []v1alpha1.SandboxRuntime {
	w.t.Helper()
	w.drain()
	var list v1alpha1.SandboxRuntimeList
	w.list(&list)
	return list.Items
}

func (w *world) functions() []v1alpha1.SandboxFunction {
	w.t.Helper()
	w.drain()
	var list v1alpha1.SandboxFunctionList
	w.list(&list)
	return list.Items
}

func (w *world) configMaps() []corev1.ConfigMap {
	w.t.Helper()
	w.drain()
	var list corev1.ConfigMapList
	w.list(&list)
	return list.Items
}

func (w *world) list(list client.ObjectList) {
	w.t.Helper()
	if err := w.api.List(context.Background(), list); err != nil {
		w.t.Fatalf("listing: %v", err)
	}
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(context.Background(), time.Millisecond, patience, true,
		func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatalf("%s did not come about: %v", what, err)
	}
}

// release finishes what the functions' controller does when one is deleted.
func (w *world) release(functionID string) {
	w.t.Helper()
	for _, f := range w.functions() {
		if f.Spec.FunctionID == functionID {
			f.Finalizers = nil
			if err := w.api.Update(context.Background(), &f); err != nil {
				w.t.Fatalf("releasing %s: %v", functionID, err)
			}
		}
	}
}
