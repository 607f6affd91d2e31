package sandboxrun_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/testenv"
	"github.com/sandbox-operator/sandbox-operator/controllers/operatortest"
)

var (
	environment *testenv.Environment
	logs        = &operatortest.Logs{}
	// stack is new for every spec.
	stack *operatortest.Stack
)

func TestSandboxRun(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "SandboxRun")
}

var _ = BeforeSuite(func() {
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	ctrl.SetLogger(logs.Logger())
	var err error
	environment, err = testenv.Start(testenv.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(environment.Stop()).To(Succeed()) })
})

func startStack(ctx SpecContext) {
	GinkgoHelper()
	var err error
	stack, err = operatortest.Start(ctx, environment, operatortest.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(stack.Stop()).To(Succeed()) })
	DeferCleanup(func(ctx SpecContext) {
		Expect(stack.Leaks(ctx, logs)).To(BeEmpty(), "a capability was written down")
		if CurrentSpecReport().Failed() {
			AddReportEntry("operator log", logs.String())
			AddReportEntry("objects", stack.Objects(ctx))
		}
	})
}

// newRun is a Node run with an inline source.
func newRun(name string, change ...func(*v1alpha1.SandboxRun)) *v1alpha1.SandboxRun {
	source := "console.log('done')"
	run := &v1alpha1.SandboxRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: stack.Namespace, Name: name},
		Spec:       v1alpha1.SandboxRunSpec{Language: v1alpha1.LanguageNode, Source: v1alpha1.RunSource{Inline: &source}},
	}
	for _, f := range change {
		f(run)
	}
	return run
}

// fromBus makes it a run of a bus caller.
func fromBus(run *v1alpha1.SandboxRun) {
	run.Labels = map[string]string{v1alpha1.OriginLabel: v1alpha1.OriginBus}
}

func create(ctx SpecContext, obj client.Object) {
	GinkgoHelper()
	Expect(stack.Client.Create(ctx, obj)).To(Succeed())
}

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

// reason is that of Ready in the API server.
func reason(ctx SpecContext, run *v1alpha1.SandboxRun) string {
	GinkgoHelper()
	Expect(stack.Client.Get(ctx, client.ObjectKeyFromObject(run), run)).To(Succeed())
	if c := conditions.Find(run, v1alpha1.ReadyCondition); c != nil {
		return c.Reason
	}
	return ""
}

func eventually(ctx SpecContext, run *v1alpha1.SandboxRun, want string) {
	GinkgoHelper()
	Eventually(reason).WithArguments(ctx, run).Should(Equal(want))
}

// succeeds waits for the end of a run and checks that all of its status says so.
func succeeds(ctx SpecContext, run *v1alpha1.SandboxRun) {
	GinkgoHelper()
	eventually(ctx, run, v1alpha1.SandboxRunCompletedReason)
	Expect(run.Status.Phase).To(Equal(v1alpha1.RunSucceeded))
	Expect(kinds(run)).To(ConsistOf(v1alpha1.ReadyCondition, v1alpha1.SandboxRunCompleteCondition))
	expectEnded(run)
}

// fails waits for the end of a run and checks that all of its status says why.
func fails(ctx SpecContext, run *v1alpha1.SandboxRun, want string) {
	GinkgoHelper()
	eventually(ctx, run, want)
	Expect(run.Status.Phase).To(Equal(v1alpha1.RunFailed))
	Expect(kinds(run)).To(ConsistOf(v1alpha1.StalledCondition, v1alpha1.SandboxRunFailedCondition))
	expectEnded(run)
}

func expectEnded(run *v1alpha1.SandboxRun) {
	GinkgoHelper()
	Expect(run.Status.CompletionTime).NotTo(BeNil())
	Expect(run.Status.ObservedGeneration).To(Equal(run.Generation))
	for _, c := range run.Status.Conditions {
		Expect(c.ObservedGeneration).To(Equal(run.Generation), c.Type)
	}
}

// kinds are the conditions that are true.
func kinds(run *v1alpha1.SandboxRun) []string {
	var list []string
	for _, c := range run.Status.Conditions {
		if c.Status == metav1.ConditionTrue {
			list = append(list, c.Type)
		}
	}
	return list
}

// sandboxes counts what the back end has.
func sandboxes(ctx SpecContext) (int, error) {
	list, err := stack.Provider.List(ctx)
	return len(list), err
}
