package sandboxruntime_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/guestaccess"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/index"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/testenv"
	"github.com/sandbox-operator/sandbox-operator/controllers/sandboxruntime"
	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/guest/runner"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/capacity"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fleet"
)

var environment *testenv.Environment

func TestSandboxRuntime(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "SandboxRuntime")
}

var _ = BeforeSuite(func() {
	ctrl.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)))
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	SetDefaultConsistentlyDuration(500 * time.Millisecond)
	var err error
	environment, err = testenv.Start(testenv.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(environment.Stop()).To(Succeed()) })
})

// backEnd is a fake provider that can be away, and can lose the answer to a
// create that it obeyed.
type backEnd struct {
	*fake.Provider
	away       atomic.Bool
	loseAnswer atomic.Bool
	// onCreate, if set, sees each create at the moment it is asked for.
	onCreate atomic.Pointer[func(sandbox.CreateRequest)]
	// setupFails makes every setup command fail.
	setupFails atomic.Bool
}

var errAway = sandbox.NewUnavailableError(errors.New("not connected"))

func newBackEnd() *backEnd {
	b := &backEnd{Provider: fake.New()}
	b.OnExec(func(_ context.Context, _ sandbox.Info, req sandbox.ExecRequest) (sandbox.ExecResult, error) {
		frame, err := wire.EncodeReply(b.reply(req))
		return sandbox.ExecResult{Stdout: frame}, err
	})
	return b
}

// reply is that of the agent.
func (b *backEnd) reply(req sandbox.ExecRequest) wire.Reply {
	switch {
	case req.Argv[1] == wire.CommandInit:
		return wire.Reply{Init: &wire.Init{AgentDigest: program.Digest}}
	case req.Argv[1] == wire.CommandSetup && b.setupFails.Load():
		return wire.Reply{Run: &wire.Run{ExitCode: 3, Stderr: "the shell says no"}}
	default:
		return wire.Reply{Run: &wire.Run{}}
	}
}

func (b *backEnd) List(ctx context.Context) ([]sandbox.Info, error) {
	if b.away.Load() {
		return nil, errAway
	}
	return b.Provider.List(ctx)
}

func (b *backEnd) Create(ctx context.Context, req sandbox.CreateRequest) (sandbox.ID, error) {
	if see := b.onCreate.Load(); see != nil {
		(*see)(req)
	}
	if b.away.Load() {
		return sandbox.ID{}, errAway
	}
	id, err := b.Provider.Create(ctx, req)
	if err == nil && b.loseAnswer.CompareAndSwap(true, false) {
		return sandbox.ID{}, sandbox.NewUnknownOutcomeError(errors.New("connection lost"))
	}
	return id, err
}

func (b *backEnd) Stop(ctx context.Context, id sandbox.ID) error {
	if b.away.Load() {
		return errAway
	}
	return b.Provider.Stop(ctx, id)
}

// ids are the sandboxes there are.
func (b *backEnd) ids() []sandbox.ID {
	infos, err := b.Provider.List(context.Background())
	Expect(err).NotTo(HaveOccurred())
	var ids []sandbox.ID
	for _, info := range infos {
		ids = append(ids, info.ID)
	}
	return ids
}

var program = guest.AgentProgram{Bytes: []byte("agent"), Digest: strings.Repeat("a", 64)}

// operator is one process of the operator as far as this kind goes.
type operator struct {
	table *publish.Table
	stop  func()
}

// startOperator runs a manager for one namespace until the spec ends or stop is
// called.
func startOperator(namespace string, b *backEnd, idle time.Duration) *operator {
	GinkgoHelper()
	mgr, err := ctrl.NewManager(environment.Config, ctrl.Options{
		Scheme:  environment.Scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		// Every spec has a controller of its own under the same name.
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	Expect(index.Register(ctx, mgr.GetFieldIndexer())).To(Succeed())
	o := &operator{table: publish.NewTable(clock.RealClock{}, publish.Hooks{})}
	watcher := fleet.NewWatcher(b, "operator", 50*time.Millisecond, nil)
	broker := capacity.New(b, nil)
	reconciler := sandboxruntime.New(sandboxruntime.Options{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Provider: broker, Runner: runner.New(broker, program), Fleet: watcher,
		Table: o.table, Recorder: mgr.GetEventRecorder("sandboxruntime"), Clock: clock.RealClock{},
		OperatorID: "operator", GuestBus: newGuestBus(), IdleTimeout: idle,
		DigestKey: []byte("key of the suite"), DisplaceAfter: 100 * time.Millisecond,
	})
	broker.SetDisplacer(reconciler)
	o.table.SetHooks(publish.Hooks{Wake: reconciler.WakeRuntime, Lost: reconciler.MarkLost})
	watcher.Subscribe(func(c fleet.Change) { reconciler.HandleFleet(ctx, c) })
	Expect(reconciler.SetupWithManager(mgr)).To(Succeed())
	Expect(mgr.Add(manager.RunnableFunc(watcher.Run))).To(Succeed())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stopped := false
	o.stop = func() {
		GinkgoHelper()
		if stopped {
			return
		}
		stopped = true
		cancel()
		Eventually(ended).WithTimeout(40 * time.Second).Should(Receive(BeNil()))
	}
	DeferCleanup(func() { o.stop() })
	return o
}

// newObject is a runtime called shop.
func newObject(namespace string) *sandboxv1alpha1.SandboxRuntime {
	return &sandboxv1alpha1.SandboxRuntime{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"},
		Spec:       sandboxv1alpha1.SandboxRuntimeSpec{Language: sandboxv1alpha1.LanguageNode},
	}
}

func create(ctx context.Context, obj client.Object) {
	GinkgoHelper()
	Expect(environment.Client.Create(ctx, obj)).To(Succeed())
}

// edit changes an object as a user does, from its present state.
func edit(ctx context.Context, obj *sandboxv1alpha1.SandboxRuntime, change func()) {
	GinkgoHelper()
	Eventually(func() error {
		if err := environment.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		change()
		return environment.Client.Update(ctx, obj)
	}).Should(Succeed())
}

// expectReady waits until Ready says this of the present generation.
func expectReady(ctx context.Context, obj *sandboxv1alpha1.SandboxRuntime, status metav1.ConditionStatus, reason string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(environment.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
		ready := conditions.Find(obj, sandboxv1alpha1.ReadyCondition)
		g.Expect(ready).NotTo(BeNil())
		g.Expect([]any{ready.Status, ready.Reason, ready.ObservedGeneration}).To(Equal([]any{status, reason, obj.Generation}),
			ready.Message)
	}).Should(Succeed())
}

// expectSettled checks that looking again writes nothing.
func expectSettled(ctx context.Context, o *operator, obj *sandboxv1alpha1.SandboxRuntime) {
	GinkgoHelper()
	Expect(environment.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
	version := obj.ResourceVersion
	o.table.Want(runtimeOf(obj))
	Consistently(func() (string, error) {
		err := environment.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj)
		return obj.ResourceVersion, err
	}).Should(Equal(version))
}

func expectGone(ctx context.Context, obj client.Object) {
	GinkgoHelper()
	Eventually(func() bool {
		return apierrors.IsNotFound(environment.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj))
	}).Should(BeTrue())
}

func runtimeOf(obj *sandboxv1alpha1.SandboxRuntime) publish.Runtime {
	return publish.Runtime{Namespace: obj.Namespace, Name: obj.Name, UID: string(obj.UID)}
}

// events returns what was told of an object, as JSON by reason.
func events(ctx context.Context, obj *sandboxv1alpha1.SandboxRuntime) map[string]string {
	GinkgoHelper()
	var list eventsv1.EventList
	Expect(environment.Client.List(ctx, &list, client.InNamespace(obj.Namespace))).To(Succeed())
	told := map[string]string{}
	for _, e := range list.Items {
		if e.Regarding.UID == obj.UID {
			encoded, err := json.Marshal(e)
			Expect(err).NotTo(HaveOccurred())
			told[e.Reason] = string(encoded)
		}
	}
	return told
}

func newGuestBus() *guestaccess.Access {
	GinkgoHelper()
	authority, err := guestaccess.NewAuthority(make([]byte, guestaccess.KeyBytes))
	Expect(err).NotTo(HaveOccurred())
	access, err := guestaccess.NewAccess("ws://127.0.0.1:1", authority, false)
	Expect(err).NotTo(HaveOccurred())
	return access
}
