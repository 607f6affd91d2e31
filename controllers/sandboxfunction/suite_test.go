package sandboxfunction_test

import (
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/testenv"
	"github.com/sandbox-operator/sandbox-operator/controllers/operatortest"
)

var (
	environment *testenv.Environment
	logs        = &operatortest.Logs{}

	// stack and caller are new for every spec.
	stack  *operatortest.Stack
	caller *bus.Client
)

func TestSandboxFunction(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "SandboxFunction")
}

var _ = BeforeSuite(func() {
	SetDefaultEventuallyTimeout(20 * time.Second)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	ctrl.SetLogger(logs.Logger())
	var err error
	environment, err = testenv.Start(testenv.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(environment.Stop()).To(Succeed()) })
})

// startStack gives the spec an operator and a worker that calls.
func startStack(ctx SpecContext, options operatortest.Options) {
	GinkgoHelper()
	var err error
	stack, err = operatortest.Start(ctx, environment, options)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(stack.Stop()).To(Succeed()) })
	DeferCleanup(func(ctx SpecContext) {
		Expect(stack.Leaks(ctx, logs)).To(BeEmpty(), "a capability was written down")
		if CurrentSpecReport().Failed() {
			AddReportEntry("operator log", logs.String())
			AddReportEntry("objects", stack.Objects(ctx))
		}
	})
	caller, _, err = stack.Peer(ctx, "caller")
	Expect(err).NotTo(HaveOccurred())
}

// function is a Node function with an inline source.
func function(name, id, source string) *v1alpha1.SandboxFunction {
	return &v1alpha1.SandboxFunction{
		ObjectMeta: metav1.ObjectMeta{Namespace: stack.Namespace, Name: name},
		Spec: v1alpha1.SandboxFunctionSpec{
			FunctionID: id, Language: v1alpha1.LanguageNode, Source: v1alpha1.FunctionSource{Inline: &source},
		},
	}
}

func create(ctx SpecContext, objects ...client.Object) {
	GinkgoHelper()
	for _, obj := range objects {
		Expect(stack.Client.Create(ctx, obj)).To(Succeed())
	}
}

// change applies a change to the newest version of an object.
func change[T client.Object](ctx SpecContext, obj T, f func()) {
	GinkgoHelper()
	Eventually(func() error {
		if err := stack.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		f()
		return stack.Client.Update(ctx, obj)
	}).Should(Succeed())
}

// state is what users read of an object: Ready with its reason, and which of the
// abnormal conditions is present.
type state struct {
	Ready            metav1.ConditionStatus
	Reason           string
	Stalled, Busy    bool
	Settled, Current bool
}

var (
	ready   = state{Ready: metav1.ConditionTrue, Reason: v1alpha1.ReadyReason, Settled: true, Current: true}
	stalled = func(reason string) state {
		return state{Ready: metav1.ConditionFalse, Reason: reason, Stalled: true, Settled: true, Current: true}
	}
)

// waiting ignores whether an older generation was settled.
func waiting(reason string) state {
	return state{Ready: metav1.ConditionFalse, Reason: reason, Busy: true, Current: true}
}

// read returns the state of the object in the API server.
func read(ctx SpecContext, obj conditions.Object) state {
	GinkgoHelper()
	Expect(stack.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
	s := state{Current: true}
	for _, c := range obj.GetConditions() {
		switch c.Type {
		case v1alpha1.ReadyCondition:
			s.Ready, s.Reason = c.Status, c.Reason
		case v1alpha1.StalledCondition:
			s.Stalled = true
		case v1alpha1.ReconcilingCondition:
			s.Busy = true
		}
		s.Current = s.Current && c.ObservedGeneration == obj.GetGeneration()
	}
	if fn, ok := obj.(*v1alpha1.SandboxFunction); ok && !s.Busy {
		s.Settled = fn.Status.ObservedGeneration == fn.Generation
	}
	return s
}

func eventually(ctx SpecContext, obj conditions.Object, want state) {
	GinkgoHelper()
	Eventually(func() state { return read(ctx, obj) }).WithContext(ctx).Should(Equal(want))
}

// message is that of a condition, empty without it.
func message(obj conditions.Object, kind string) string {
	if c := conditions.Find(obj, kind); c != nil {
		return c.Message
	}
	return ""
}

// call calls a function with no payload; the guest answers with its source.
func call(ctx SpecContext, id string) (string, error) {
	data, err := caller.Call(ctx, bus.Call{FunctionID: id, Data: json.RawMessage(`{}`)})
	if err != nil {
		return "", err
	}
	var source string
	err = json.Unmarshal(data, &source)
	return source, err
}

// onBus says whether the engine has a function of this id.
func onBus(ctx SpecContext, id string) (bool, error) {
	_, err := caller.FunctionInfo(ctx, id, "default")
	if bus.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}
