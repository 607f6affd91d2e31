package sandboxrun_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// What the operator's cache leaves out must be missing nowhere else.
var _ = Describe("A run that is larger than the cache keeps it", func() {
	large := "// " + strings.Repeat("x", v1alpha1.MaxInlineSourceBytes-3)
	withLargeSource := func(r *v1alpha1.SandboxRun) { r.Spec.Source.Inline, r.Spec.Stdin = &large, "in" }

	BeforeEach(func(ctx SpecContext) { startStack(ctx) })

	It("runs its whole source", func(ctx SpecContext) {
		var seen atomic.Pointer[wire.RunRequest]
		stack.Guest.OnRun(func(_ context.Context, r wire.RunRequest) (wire.Reply, error) {
			seen.Store(&r)
			return wire.Reply{Run: &wire.Run{}}, nil
		})
		run := newRun("large", withLargeSource)
		create(ctx, run)
		succeeds(ctx, run)
		Expect(seen.Load().Source).To(Equal(large))
		Expect(string(seen.Load().Stdin)).To(Equal("in"))
	})

	It("keeps all that it was and printed when its end is written again", func(ctx SpecContext) {
		answers(wire.Reply{Run: &wire.Run{Stdout: "out", Stderr: "err"}, Result: json.RawMessage(`{"a":1}`)})
		run := newRun("kept", withLargeSource)
		create(ctx, run)
		succeeds(ctx, run)
		before := run.DeepCopy()
		change(ctx, run, func() { run.Spec.Cancel = true })
		Expect(run.Generation).To(BeNumerically(">", before.Generation))
		Eventually(func(g Gomega) {
			g.Expect(reason(ctx, run)).To(Equal(v1alpha1.SandboxRunCompletedReason))
			g.Expect(run.Status.ObservedGeneration).To(Equal(run.Generation))
		}).Should(Succeed())
		Expect(run.Spec.Source).To(Equal(before.Spec.Source))
		Expect(run.Spec.Stdin).To(Equal("in"))
		Expect([]string{run.Status.Stdout, run.Status.Stderr, string(run.Status.Result.Raw)}).To(Equal([]string{"out", "err", `{"a":1}`}))
	})
})
