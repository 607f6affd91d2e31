package sandboxruntime

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/guestaccess"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/index"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/testenv"
	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/guest/runner"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fleet"
)

const (
	patience   = 20 * time.Second
	operatorID = "operator-uid"
	objectUID  = "runtime-uid"
	idleTime   = 15 * time.Minute
)

// agentDigest is that of the agent which the tests plant.
var agentDigest = strings.Repeat("a", 64)

var objectKey = types.NamespacedName{Namespace: "apps", Name: "shop"}

// world is a reconciler whose API server and sandboxes are in memory and whose
// time stands still. Reconcile is called, not awaited.
type world struct {
	*Reconciler
	t        *testing.T
	api      client.WithWatch
	provider *spy
	clock    *clocktesting.FakeClock
	fleet    *list
	recorder *events.FakeRecorder
	// failWrites makes the next writes of the status fail.
	failWrites []error
	writes     int
	// bus is the guests' way to the bus; restart keeps it.
	bus *guestaccess.Access
}

// spy sees every create at the moment it is asked for.
type spy struct {
	*fake.Provider
	mu       sync.Mutex
	onCreate func(sandbox.CreateRequest)
}

func (s *spy) Create(ctx context.Context, req sandbox.CreateRequest) (sandbox.ID, error) {
	s.mu.Lock()
	see := s.onCreate
	s.mu.Unlock()
	if see != nil {
		see(req)
	}
	return s.Provider.Create(ctx, req)
}

// list is a Fleet that is read when the test says so.
type list struct {
	mu       sync.Mutex
	snapshot fleet.Snapshot
}

func (l *list) Snapshot() fleet.Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.snapshot
}

func (l *list) Poke() {}

func newRuntime(adjust ...func(*sandboxv1alpha1.SandboxRuntime)) *sandboxv1alpha1.SandboxRuntime {
	obj := &sandboxv1alpha1.SandboxRuntime{
		ObjectMeta: metav1.ObjectMeta{Namespace: objectKey.Namespace, Name: objectKey.Name, UID: objectUID, Generation: 1},
		Spec:       sandboxv1alpha1.SandboxRuntimeSpec{Language: sandboxv1alpha1.LanguageNode},
	}
	for _, a := range adjust {
		a(obj)
	}
	return obj
}

func withReplicas(n int32) func(*sandboxv1alpha1.SandboxRuntime) {
	return func(obj *sandboxv1alpha1.SandboxRuntime) { obj.Spec.Replicas = &n }
}

func withSecret(obj *sandboxv1alpha1.SandboxRuntime) {
	obj.Spec.Env = []sandboxv1alpha1.EnvVar{{Name: "TOKEN", ValueFrom: &sandboxv1alpha1.KeySource{
		SecretKeyRef: &sandboxv1alpha1.KeyReference{Name: "keys", Key: "token"},
	}}}
}

func keptByTheBus(obj *sandboxv1alpha1.SandboxRuntime) {
	obj.Labels = map[string]string{sandboxv1alpha1.OriginLabel: sandboxv1alpha1.OriginBus}
	obj.Spec.Idle = &sandboxv1alpha1.IdlePolicy{Action: sandboxv1alpha1.IdleDelete}
}

func theSecret(token string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: objectKey.Namespace, Name: "keys"},
		Data:       map[string][]byte{"token": []byte(token)},
	}
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme, err := testenv.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, clock: clocktesting.NewFakeClock(time.Now()), provider: &spy{Provider: fake.New()}, fleet: &list{}}
	builder := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&sandboxv1alpha1.SandboxRuntime{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: w.patchStatus})
	for _, d := range index.Definitions() {
		builder = builder.WithIndex(d.Object, d.Field, d.Extract)
	}
	w.api = builder.Build()
	w.provider.OnExec(agentReplies(t))
	w.bus = guestBus(t, false)
	w.look()
	w.restart()
	return w
}

func (w *world) patchStatus(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, o ...client.SubResourcePatchOption) error {
	if len(w.failWrites) > 0 {
		err := w.failWrites[0]
		w.failWrites = w.failWrites[1:]
		return err
	}
	w.writes++
	return c.SubResource(sub).Patch(ctx, obj, p, o...)
}

// restart replaces the reconciler by one of a new process. The old one ends when
// the test does.
func (w *world) restart() {
	w.recorder = events.NewFakeRecorder(64)
	program := guest.AgentProgram{Bytes: []byte("agent"), Digest: agentDigest}
	w.Reconciler = New(Options{
		Client: w.api, Reader: w.api, Provider: w.provider, Runner: runner.New(w.provider, program), Fleet: w.fleet,
		Table: publish.NewTable(w.clock, publish.Hooks{}), Recorder: w.recorder, Clock: w.clock,
		OperatorID: operatorID, GuestBus: w.bus, IdleTimeout: idleTime,
		DigestKey: []byte("key of the tests"),
	})
	r := w.Reconciler
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := r.boots.Close(ctx); err != nil {
			w.t.Error(err)
		}
		if err := r.stops.Close(ctx); err != nil {
			w.t.Error(err)
		}
	})
}

// look reads the back end's list, as the watcher does every two seconds.
func (w *world) look() {
	w.t.Helper()
	infos, err := w.provider.List(w.t.Context())
	next := fleet.Snapshot{Time: w.clock.Now(), Available: err == nil, Err: err, All: infos, Ours: map[string][]fleet.Instance{}}
	for _, info := range infos {
		if marker, err := sandbox.ParseMarker(info.Name); err == nil && marker.Operator == operatorID {
			next.Ours[marker.Object] = append(next.Ours[marker.Object], fleet.Instance{Info: info, Marker: marker})
		}
	}
	w.fleet.mu.Lock()
	defer w.fleet.mu.Unlock()
	w.fleet.snapshot = next
}

// daemonAway makes the back end unreachable until the next look.
func (w *world) daemonAway() {
	w.fleet.mu.Lock()
	defer w.fleet.mu.Unlock()
	w.fleet.snapshot.Available = false
	w.fleet.snapshot.Err = sandbox.NewUnavailableError(context.DeadlineExceeded)
}

// reconcile looks at the object once.
func (w *world) reconcile() ctrl.Result {
	w.t.Helper()
	result, err := w.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: objectKey})
	if err != nil {
		w.t.Fatalf("reconciling: %v", err)
	}
	return result
}

// settle reads the list and looks at the object until nothing is under way and
// nothing changes, and returns the last result.
func (w *world) settle() ctrl.Result {
	w.t.Helper()
	for quiet, n := 0, 0; ; n++ {
		before := w.writes
		w.look()
		result := w.reconcile()
		w.wait()
		if w.writes == before && !w.collectable() {
			quiet++
		} else {
			quiet = 0
		}
		if quiet == 2 {
			return result
		}
		if n == 50 {
			w.t.Fatalf("it never settles: %+v", w.get().Status)
		}
	}
}

// wait returns when no operation runs.
func (w *world) wait() {
	w.t.Helper()
	eventually(w.t, "the operations to end", func() bool { return !w.busy() })
}

func (w *world) busy() bool {
	known := w.memory.get(objectUID)
	if known == nil {
		return false
	}
	for _, i := range known.instances {
		key := operationKey(objectUID, i)
		if w.boots.Running(key) || w.stops.Running(key) || w.stops.Running(key+"/touch") {
			return true
		}
	}
	return false
}

// collectable says that an operation has ended that no reconciliation has seen.
func (w *world) collectable() bool {
	known := w.memory.get(objectUID)
	if known == nil {
		return false
	}
	for _, i := range known.instances {
		_, boots := w.boots.Get(operationKey(objectUID, i))
		_, stops := w.stops.Get(operationKey(objectUID, i))
		if boots || stops {
			return true
		}
	}
	return false
}

func (w *world) get() *sandboxv1alpha1.SandboxRuntime {
	w.t.Helper()
	var obj sandboxv1alpha1.SandboxRuntime
	if err := w.api.Get(w.t.Context(), objectKey, &obj); err != nil {
		w.t.Fatal(err)
	}
	return &obj
}

func (w *world) gone() bool {
	w.t.Helper()
	var obj sandboxv1alpha1.SandboxRuntime
	err := w.api.Get(w.t.Context(), objectKey, &obj)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return err != nil
}

// edit changes the spec as a user does.
func (w *world) edit(change func(*sandboxv1alpha1.SandboxRuntime)) {
	w.t.Helper()
	obj := w.get()
	change(obj)
	obj.Generation++
	if err := w.api.Update(w.t.Context(), obj); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) delete() {
	w.t.Helper()
	if err := w.api.Delete(w.t.Context(), w.get()); err != nil {
		w.t.Fatal(err)
	}
}

// sandboxes are what the back end has, by name.
func (w *world) sandboxes() []sandbox.Info {
	w.t.Helper()
	infos, err := w.provider.List(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return infos
}

func (w *world) creates() int { return len(w.provider.Calls(fake.Create)) }

func (w *world) tableRuntime() publish.Runtime {
	return publish.Runtime{Namespace: objectKey.Namespace, Name: objectKey.Name, UID: objectUID}
}

// events are the reasons of the events so far.
func (w *world) events() []string {
	var reasons []string
	for {
		select {
		case text := <-w.recorder.Events:
			reasons = append(reasons, strings.Fields(text)[1])
		default:
			return reasons
		}
	}
}

func (w *world) states() string {
	var words []string
	for _, i := range w.get().Status.Instances {
		words = append(words, i.Name+":"+strings.ToLower(string(i.State)))
	}
	return strings.Join(words, " ")
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	gomega.NewWithT(t).Eventually(holds, patience, time.Millisecond).Should(gomega.BeTrue(), what)
}
