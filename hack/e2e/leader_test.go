package e2e

import (
	"context"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

var _ = Describe("Of two replicas", func() {
	It("the second goes on when the leader is killed under calls and runs", func(ctx SpecContext) {
		startReplicas(ctx)
		f := newTrafficTarget(ctx, newNamespace(ctx))
		registerOnBus(ctx, "e2e-led::five", "python", "def handler(payload):\n    return 5\n")
		kept := keepRuntime(ctx, "python", "open('note', 'w').write('kept')")
		sandboxes := sandboxIDs(ctx)
		long := countedRun(f.Namespace, "long", "await new Promise((done) => setTimeout(done, 25_000));\n")
		apply(ctx, long)
		Eventually(ctx, func() int { return countLines(ctx, f.Namespace, "runs")["long"] }).Should(Equal(1))
		traffic := startTraffic(ctx, f)
		traffic.awaitAnswer(ctx, time.Now())

		Expect(running.KillPart(stack.Operator)).To(Succeed())
		killed := time.Now()
		AddReportEntry("first call answered after the leader was killed", traffic.awaitAnswer(ctx, killed).String())
		Expect(countLines(ctx, f.Namespace, "runs")["long"]).To(Equal(1))
		traffic.awaitAnswer(ctx, time.Now().Add(2*time.Second))
		traffic.stop()
		traffic.expectOnce(ctx)
		Eventually(ctx, condition(long, "Failed")).Should(beTrue("Interrupted", "not repeated"))
		Expect(eventsOf(ctx, long, "Interrupted")).To(BeEquivalentTo(1))

		By("looking whether all is as before")
		Expect(call(ctx, "e2e-led::five", m{})).To(Equal("5"))
		Expect(runOnBus(ctx, m{"runtime_id": kept, "code": "print(open('note').read())"}).Stdout).To(Equal("kept\n"))
		Eventually(ctx, condition(f, "Ready")).Should(beTrue("Ready"))
		expectAgreement(ctx)
		Expect(equalSecrets(sandboxIDs(ctx), sandboxes)).To(BeTrue(), "other sandboxes")
	}, leaderPatience)

	It("a leader that was paused past its lease ends itself and does no harm", func(ctx SpecContext) {
		// What the paused leader remembers as unused for 30 s it would delete.
		startReplicas(ctx, "--idle-timeout=30s")
		f := newTrafficTarget(ctx, newNamespace(ctx))
		kept := keepRuntime(ctx, "python", "open('note', 'w').write('kept')")
		idle := time.Now().Add(32 * time.Second)
		sandboxes := sandboxIDs(ctx)
		traffic := startTraffic(ctx, f)
		traffic.awaitAnswer(ctx, time.Now())

		code, err := running.EndPart(ctx, stack.Operator, func(pid int) error {
			Expect(syscall.Kill(pid, syscall.SIGSTOP)).To(Succeed())
			paused := time.Now()
			// A call that was on its way hangs until the next leader comes, so that the
			// moment counts from which calls are answered again.
			AddReportEntry("first call answered after the leader was paused", traffic.awaitAnswer(ctx, paused.Add(5*time.Second)).String())
			note := func(ctx context.Context) string {
				return runOnBus(ctx, m{"runtime_id": kept, "code": "print(open('note').read())"}).Stdout
			}
			Expect(note(ctx)).To(Equal("kept\n"))
			Consistently(ctx, note).WithTimeout(time.Until(idle)).WithPolling(3 * time.Second).Should(Equal("kept\n"))
			return syscall.Kill(pid, syscall.SIGCONT)
		})
		holder := leaseHolder(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(code).To(Equal(1), "it ends with an error, so that it is started again")

		By("looking whether all is as before")
		Expect(holder).NotTo(BeEmpty())
		traffic.awaitAnswer(ctx, time.Now().Add(2*time.Second))
		traffic.stop()
		traffic.expectOnce(ctx)
		Expect(runOnBus(ctx, m{"runtime_id": kept, "code": "print(open('note').read())"}).Stdout).To(Equal("kept\n"))
		Expect(leaseHolder(ctx)).To(Equal(holder))
		Eventually(ctx, condition(f, "Ready")).Should(beTrue("Ready"))
		expectAgreement(ctx)
		Expect(equalSecrets(sandboxIDs(ctx), sandboxes)).To(BeTrue(), "other sandboxes")
	}, leaderPatience)

	It("the leader hands over in good order when it is told to end", func(ctx SpecContext) {
		startReplicas(ctx)
		f := newTrafficTarget(ctx, newNamespace(ctx))
		kept := keepRuntime(ctx, "python", "open('note', 'w').write('kept')")
		sandboxes := sandboxIDs(ctx)
		traffic := startTraffic(ctx, f)
		traffic.awaitAnswer(ctx, time.Now())

		told := time.Now()
		Expect(running.StopPart(ctx, stack.Operator)).To(Succeed())
		AddReportEntry("the leader ended after", time.Since(told).String())
		again := traffic.awaitAnswer(ctx, time.Now())
		AddReportEntry("first call answered after its end", again.String())
		traffic.awaitAnswer(ctx, time.Now().Add(2*time.Second))
		traffic.stop()
		traffic.expectOnce(ctx)
		failed := traffic.failures()
		AddReportEntry("calls that failed", len(failed))
		for _, o := range failed {
			Expect(o.ended).To(BeTemporally(">", told), "a call failed before: %v", o.err)
			Expect(o.err).To(MatchError(ContainSubstring("function_not_found")), "a call that was accepted is answered")
		}
		// Refused calls are refused at once, so there are as many as fit into the gap.
		Expect(len(failed)).To(BeNumerically("<=", callers*int(takeOverPatience/callPause)))

		Expect(runOnBus(ctx, m{"runtime_id": kept, "code": "print(open('note').read())"}).Stdout).To(Equal("kept\n"))
		expectAgreement(ctx)
		Expect(equalSecrets(sandboxIDs(ctx), sandboxes)).To(BeTrue(), "other sandboxes")
	}, leaderPatience)
})

// eventsOf counts how often something was said of an object.
func eventsOf(ctx context.Context, about client.Object, reason string) int32 {
	GinkgoHelper()
	list := &eventsv1.EventList{}
	Expect(kube.List(ctx, list, client.InNamespace(about.GetNamespace()))).To(Succeed())
	var count int32
	for _, e := range list.Items {
		if e.Regarding.UID != about.GetUID() || e.Reason != reason {
			continue
		}
		count++
		if e.Series != nil {
			count += e.Series.Count - 1
		}
	}
	return count
}
