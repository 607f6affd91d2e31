package e2e

import (
	"context"
	"regexp"
	"strconv"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

// echoOrWait returns its payload, or waits for a program that is seen from outside.
const echoOrWait = `import subprocess

def handler(payload):
    if payload == 'wait':
        subprocess.run(['sleep', '600'])
    return payload
`

// newLinkedFunction is in a runtime with bus access, where links are possible.
func newLinkedFunction(ctx context.Context) *v1alpha1.SandboxFunction {
	GinkgoHelper()
	namespace := newNamespace(ctx)
	runtime := newRuntime(namespace, "linked", v1alpha1.LanguagePython)
	runtime.Spec.Network, runtime.Spec.BusAccess = v1alpha1.AccessEnabled, v1alpha1.AccessEnabled
	apply(ctx, runtime)
	f := newFunction(namespace, "echo", "", echoOrWait)
	f.Spec.RuntimeRef = &v1alpha1.LocalReference{Name: "linked"}
	apply(ctx, f)
	waitFor(ctx, f, "Ready", "sbf")
	return f
}

var (
	openLinks    = regexp.MustCompile(`(?m)^sandbox_function_links (\d+)`)
	linkedCalls  = regexp.MustCompile(`(?m)^sandbox_function_call_deliveries_total\{by="link"\} (\d+)`)
	executeCalls = regexp.MustCompile(`(?m)^sandbox_function_call_deliveries_total\{by="exec"\} (\d+)`)
)

// counted reads one of the operator's metrics; one that is missing has counted nothing.
func counted(ctx context.Context, metric *regexp.Regexp) int {
	GinkgoHelper()
	text := operatorMetrics(ctx)
	found := metric.FindSubmatch(text)
	if found == nil {
		return 0
	}
	count, err := strconv.Atoi(string(found[1]))
	Expect(err).NotTo(HaveOccurred())
	return count
}

// guestProcesses are those of all sandboxes that have a name.
func guestProcesses(name string) []int {
	var pids []int
	for p, is := range descendantsOf(running.PID(stack.Daemon)) {
		if is == name {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// linkProgram is what holds the guest's end of a link.
const linkProgram = "agent-link"

var _ = Describe("Links to guests", func() {
	It("carry the calls of functions that are called often, and come back", func(ctx SpecContext) {
		f := newLinkedFunction(ctx)
		next := 0
		answers := func(ctx context.Context) {
			GinkgoHelper()
			next++
			Expect(call(ctx, f.Spec.FunctionID, next)).To(Equal(strconv.Itoa(next)))
		}
		// overLink calls until calls have gone over a link.
		overLink := func() {
			GinkgoHelper()
			before := counted(ctx, linkedCalls)
			Eventually(ctx, func(ctx context.Context) int {
				answers(ctx)
				return counted(ctx, linkedCalls) - before
			}).WithTimeout(2 * settlePatience).Should(BeNumerically(">=", 3))
		}
		overLink()
		Expect(counted(ctx, openLinks)).To(Equal(1))
		Expect(guestProcesses(linkProgram)).To(HaveLen(1))

		By("ending the guest's end under a call")
		before := counted(ctx, linkedCalls)
		failed := make(chan error, 1)
		go func() {
			defer GinkgoRecover()
			_, err := tryCall(ctx, f.Spec.FunctionID, "wait")
			failed <- err
		}()
		Eventually(guestProcesses).WithArguments("sleep").Should(HaveLen(1))
		for _, pid := range guestProcesses(linkProgram) {
			Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Succeed())
		}
		Eventually(ctx, failed).Should(Receive(MatchError(ContainSubstring("the handler may have run"))))
		Expect(counted(ctx, linkedCalls)).To(Equal(before + 1))
		Eventually(guestProcesses).WithArguments("sleep").Should(BeEmpty(), "the guest cancels the calls of a link that ends")
		Expect(counted(ctx, openLinks)).To(BeZero())
		for range 5 {
			answers(ctx)
		}

		By("opening it again")
		overLink()
		Expect(guestProcesses(linkProgram)).To(HaveLen(1))
	}, specPatience)

	It("are not opened without a bus in the guest", func(ctx SpecContext) {
		f := newFunction(newNamespace(ctx), "echo", v1alpha1.LanguagePython, echoOrWait)
		apply(ctx, f)
		waitFor(ctx, f, "Ready", "sbf")
		expectExecuted(ctx, f)
	}, specPatience)

	It("are not opened by an operator that is to have none", func(ctx SpecContext) {
		replaceOperator(ctx, "--call-links=false")
		expectExecuted(ctx, newLinkedFunction(ctx))
	}, leaderPatience)
})

// expectExecuted calls a function often enough for a link, and finds none.
func expectExecuted(ctx context.Context, f *v1alpha1.SandboxFunction) {
	GinkgoHelper()
	linked, executed := counted(ctx, linkedCalls), counted(ctx, executeCalls)
	for range 40 {
		Expect(call(ctx, f.Spec.FunctionID, 7)).To(Equal("7"))
	}
	Consistently(ctx, counted).WithArguments(openLinks).Should(BeZero())
	Expect(counted(ctx, linkedCalls) - linked).To(BeZero())
	Expect(counted(ctx, executeCalls) - executed).To(BeNumerically(">=", 40))
	Expect(guestProcesses(linkProgram)).To(BeEmpty())
}
