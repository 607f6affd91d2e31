package orphans_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/orphans"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fleet"
)

const operatorID = "operator"

// world is a sweeper over a back end in memory, with a real watcher of its list.
type world struct {
	t        *testing.T
	provider *fake.Provider
	watcher  *fleet.Watcher
	sweeper  *orphans.Sweeper
}

func newWorld(t *testing.T, cached, stored []client.Object) *world {
	t.Helper()
	provider := fake.New()
	watcher := fleet.NewWatcher(provider, operatorID, time.Hour, nil)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- watcher.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the watcher ended with %v", err)
		}
	})
	return &world{t: t, provider: provider, watcher: watcher, sweeper: &orphans.Sweeper{
		Client: reader(t, cached), Reader: reader(t, stored), Provider: provider, Fleet: watcher, Clock: clock.RealClock{},
		Held: func(*v1alpha1.SandboxRuntime) []sandbox.ID { return nil },
	}}
}

func reader(t *testing.T, objects []client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

// reading waits for a reading of the list that was asked for after now, good or
// bad.
func (w *world) reading(available bool) {
	w.t.Helper()
	since := time.Now()
	limit := time.After(10 * time.Second)
	for {
		w.watcher.Poke()
		s := w.watcher.Snapshot()
		if s.Available == available && (!available || s.Time.After(since)) {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-limit:
			w.t.Fatal("no reading came")
		}
	}
}

// sweep reads the list and sweeps.
func (w *world) sweep() {
	w.t.Helper()
	w.reading(true)
	if err := w.sweeper.Sweep(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// names lists what is left.
func (w *world) names() []string {
	w.t.Helper()
	infos, err := w.provider.List(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	names := []string{}
	for _, i := range infos {
		names = append(names, i.Name)
	}
	return names
}

func marker(operator, object, nonce string) string {
	return sandbox.Marker{Operator: operator, Object: object, Nonce: nonce}.String()
}

func digest(nonce string) string {
	sum := sha256.Sum256([]byte(nonce))
	return hex.EncodeToString(sum[:])
}

func run(uid, nonce string, phase v1alpha1.RunPhase) *v1alpha1.SandboxRun {
	return &v1alpha1.SandboxRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "run-" + uid, UID: types.UID(uid)},
		Status:     v1alpha1.SandboxRunStatus{Phase: phase, AttemptDigest: digest(nonce)},
	}
}

func runtimeWith(uid, nonce string, state v1alpha1.InstanceState) *v1alpha1.SandboxRuntime {
	return &v1alpha1.SandboxRuntime{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "runtime-" + uid, UID: types.UID(uid)},
		Status: v1alpha1.SandboxRuntimeStatus{Instances: []v1alpha1.InstanceStatus{
			{Name: "0", State: state, Digest: digest(nonce)},
		}},
	}
}

func TestSweep(t *testing.T) {
	for name, tc := range map[string]struct {
		sandbox string
		// cached and stored are the objects of the cache and of the API server.
		cached, stored []client.Object
		survives       bool
	}{
		"a stranger's sandbox is not touched":   {sandbox: "somebody's", survives: true},
		"a nameless sandbox is not touched":     {sandbox: "", survives: true},
		"another operator's is not touched":     {sandbox: marker("other", "object", "n"), survives: true},
		"one without an object is destroyed":    {sandbox: marker(operatorID, "gone", "n")},
		"a running run's stays":                 {sandbox: marker(operatorID, "r", "n"), cached: one(run("r", "n", v1alpha1.RunRunning)), survives: true},
		"a finished run's is destroyed":         {sandbox: marker(operatorID, "r", "n"), cached: one(run("r", "n", v1alpha1.RunFailed)), stored: one(run("r", "n", v1alpha1.RunFailed))},
		"a succeeded run's is destroyed":        {sandbox: marker(operatorID, "r", "n"), stored: one(run("r", "n", v1alpha1.RunSucceeded))},
		"a late twin of a run is destroyed":     {sandbox: marker(operatorID, "r", "old"), cached: one(run("r", "new", v1alpha1.RunRunning)), stored: one(run("r", "new", v1alpha1.RunRunning))},
		"a ready instance stays":                {sandbox: marker(operatorID, "i", "n"), cached: one(runtimeWith("i", "n", v1alpha1.InstanceReady)), survives: true},
		"a booting instance stays":              {sandbox: marker(operatorID, "i", "n"), cached: one(runtimeWith("i", "n", v1alpha1.InstanceBooting)), survives: true},
		"a stopping instance stays":             {sandbox: marker(operatorID, "i", "n"), cached: one(runtimeWith("i", "n", v1alpha1.InstanceStopping)), survives: true},
		"a late twin of a boot is destroyed":    {sandbox: marker(operatorID, "i", "old"), cached: one(runtimeWith("i", "new", v1alpha1.InstanceReady)), stored: one(runtimeWith("i", "new", v1alpha1.InstanceReady))},
		"an object that the cache lacks counts": {sandbox: marker(operatorID, "r", "n"), stored: one(run("r", "n", v1alpha1.RunRunning)), survives: true},
		"the nonce of another object does not":  {sandbox: marker(operatorID, "x", "n"), cached: one(run("r", "n", v1alpha1.RunRunning)), stored: one(run("r", "n", v1alpha1.RunRunning))},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.cached, tc.stored)
			w.provider.Adopt(tc.sandbox, "node")
			w.sweep()
			if diff := cmp.Diff([]string{tc.sandbox}, w.names()); diff != "" {
				t.Fatalf("one reading is not enough to destroy anything (-want +got):\n%s", diff)
			}
			w.sweep()
			want := []string{}
			if tc.survives {
				want = append(want, tc.sandbox)
			}
			if diff := cmp.Diff(want, w.names()); diff != "" {
				t.Errorf("after two readings (-want +got):\n%s", diff)
			}
		})
	}
}

func one(o client.Object) []client.Object { return []client.Object{o} }

// oneReading is a list that is never read again.
type oneReading struct{ snapshot fleet.Snapshot }

func (o oneReading) Snapshot() fleet.Snapshot { return o.snapshot }
func (o oneReading) Poke()                    {}

func TestSweep_oneReadingCountsOnce(t *testing.T) {
	w := newWorld(t, nil, nil)
	orphan := marker(operatorID, "gone", "n")
	w.provider.Adopt(orphan, "node")
	w.reading(true)
	// A poke of reading may still be on its way and would bring another.
	w.sweeper.Fleet = oneReading{w.watcher.Snapshot()}
	for range 3 {
		if err := w.sweeper.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{orphan}, w.names()); diff != "" {
		t.Errorf("the same reading was taken for two (-want +got):\n%s", diff)
	}
}

func TestSweep_anObjectMayAppearBetweenTwoReadings(t *testing.T) {
	w := newWorld(t, nil, nil)
	name := marker(operatorID, "r", "n")
	w.provider.Adopt(name, "node")
	w.sweep()
	w.sweeper.Reader = reader(t, one(run("r", "n", v1alpha1.RunRunning)))
	w.sweep()
	if diff := cmp.Diff([]string{name}, w.names()); diff != "" {
		t.Errorf("a known sandbox went (-want +got):\n%s", diff)
	}
}

func TestSweep_sandboxesWithTheSameMarker(t *testing.T) {
	object := one(runtimeWith("i", "n", v1alpha1.InstanceReady))
	w := newWorld(t, object, object)
	name := marker(operatorID, "i", "n")
	first, second := w.provider.Adopt(name, "node"), w.provider.Adopt(name, "node")
	for range 3 {
		w.sweep()
	}
	if diff := cmp.Diff([]string{name, name}, w.names()); diff != "" {
		t.Fatalf("nobody knew which one will be used (-want +got):\n%s", diff)
	}
	w.sweeper.Held = func(runtime *v1alpha1.SandboxRuntime) []sandbox.ID {
		if runtime.UID != "i" {
			return nil
		}
		return []sandbox.ID{second}
	}
	for range 3 {
		w.sweep()
	}
	infos, err := w.provider.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(infos) != 1 || infos[0].ID != second || first == second {
		t.Errorf("%d sandboxes are left, and perhaps not the one in use", len(infos))
	}
}

func TestSweep_readsWatchedNamespacesOnly(t *testing.T) {
	run := run("r", "n", v1alpha1.RunRunning)
	run.Namespace = "watched"
	w := newWorld(t, nil, one(run))
	stored := w.sweeper.Reader.(client.WithWatch)
	w.sweeper.Namespaces = []string{"runs", "watched"}
	w.sweeper.Reader = interceptor.NewClient(stored, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			options := client.ListOptions{}
			options.ApplyOptions(opts)
			if options.Namespace == "" {
				return errors.New("forbidden at the cluster scope")
			}
			return c.List(ctx, list, opts...)
		},
	})
	known := marker(operatorID, "r", "n")
	w.provider.Adopt(known, "node")
	w.provider.Adopt(marker(operatorID, "gone", "n"), "node")
	for range 2 {
		w.sweep()
	}
	if diff := cmp.Diff([]string{known}, w.names()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSweep_nothingWithoutTheDaemon(t *testing.T) {
	w := newWorld(t, nil, nil)
	w.provider.Adopt(marker(operatorID, "gone", "n"), "node")
	w.sweep()
	for range 100 {
		w.provider.FailNext(fake.List, sandbox.NewUnavailableError(errors.New("the bus is down")))
	}
	w.reading(false)
	if err := w.sweeper.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if stops := w.provider.Calls(fake.Stop); len(stops) > 0 {
		t.Errorf("stopped %d sandboxes by an old list", len(stops))
	}
}

func TestSweep_failuresDestroyNothingAndAreRepeated(t *testing.T) {
	w := newWorld(t, nil, nil)
	w.provider.Adopt(marker(operatorID, "gone", "n"), "node")
	w.sweep()

	broken := errors.New("no API server")
	healthy := w.sweeper.Reader
	w.sweeper.Reader = interceptor.NewClient(reader(t, nil), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return broken },
	})
	w.reading(true)
	if err := w.sweeper.Sweep(t.Context()); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if stops := w.provider.Calls(fake.Stop); len(stops) > 0 {
		t.Fatal("stopped a sandbox without knowing the objects")
	}

	w.sweeper.Reader = healthy
	w.provider.FailNext(fake.Stop, sandbox.NewUnavailableError(broken))
	w.sweep()
	if len(w.names()) != 1 {
		t.Fatal("the stop that failed had an effect")
	}
	w.sweep()
	if names := w.names(); len(names) > 0 {
		t.Errorf("left %v", names)
	}
}

func TestStart_sweepsUntilItsContextEnds(t *testing.T) {
	w := newWorld(t, nil, nil)
	w.provider.Adopt(marker(operatorID, "gone", "n"), "node")
	w.sweep()
	w.reading(true)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.sweeper.Start(ctx) }()
	limit := time.After(10 * time.Second)
	for len(w.names()) > 0 {
		select {
		case <-time.After(time.Millisecond):
		case <-limit:
			t.Fatal("nothing was swept")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
