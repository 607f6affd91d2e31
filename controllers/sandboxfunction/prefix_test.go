package sandboxfunction_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/operatortest"
)

// in moves a function to another namespace.
func in(namespace string, fn *v1alpha1.SandboxFunction) *v1alpha1.SandboxFunction {
	fn.Namespace = namespace
	return fn
}

var _ = Describe("An id prefix", func() {
	It("belongs to the first namespace that uses it, until its last function goes", func(ctx SpecContext) {
		startStack(ctx, operatortest.Options{TwoNamespaces: true})
		price := function("price", "shop::price", "handler price")
		create(ctx, price)
		eventually(ctx, price, ready)
		theirs := in(stack.Other, function("theirs", "shop::theirs", "handler theirs"))
		create(ctx, theirs)
		eventually(ctx, theirs, stalled(v1alpha1.SandboxFunctionPrefixTakenReason))
		Expect(message(theirs, v1alpha1.StalledCondition)).To(And(
			ContainSubstring("the prefix shop::"), ContainSubstring("SandboxFunction "+stack.Namespace+"/price")))
		Expect(onBus(ctx, "shop::theirs")).To(BeFalse())

		// A younger function of the holder, and one of the loser with another prefix.
		stock := function("stock", "shop::stock", "handler stock")
		elsewhere := in(stack.Other, function("elsewhere", "bank::theirs", "handler bank"))
		create(ctx, stock, elsewhere)
		eventually(ctx, stock, ready)
		eventually(ctx, elsewhere, ready)

		Expect(stack.Client.Delete(ctx, price)).To(Succeed())
		Eventually(onBus).WithArguments(ctx, "shop::price").Should(BeFalse())
		Consistently(func() state { return read(ctx, theirs) }).WithTimeout(300*time.Millisecond).
			Should(Equal(stalled(v1alpha1.SandboxFunctionPrefixTakenReason)), "stock still holds the prefix")
		Expect(call(ctx, "shop::stock")).To(Equal("handler stock"))

		Expect(stack.Client.Delete(ctx, stock)).To(Succeed())
		eventually(ctx, theirs, ready)
		Expect(call(ctx, "shop::theirs")).To(Equal("handler theirs"))
		late := function("late", "shop::late", "handler late")
		create(ctx, late)
		eventually(ctx, late, stalled(v1alpha1.SandboxFunctionPrefixTakenReason))
	})

	It("stays with its namespace over a restart, also if that has only younger functions", func(ctx SpecContext) {
		startStack(ctx, operatortest.Options{TwoNamespaces: true})
		first, younger := function("first", "shop::first", "handler 1"), function("younger", "shop::younger", "handler y")
		create(ctx, first)
		eventually(ctx, first, ready)
		waits := in(stack.Other, function("waits", "shop::waits", "handler w"))
		create(ctx, waits)
		eventually(ctx, waits, stalled(v1alpha1.SandboxFunctionPrefixTakenReason))
		// Times of creation have whole seconds.
		Eventually(time.Now).Should(BeTemporally(">", waits.CreationTimestamp.Add(1100*time.Millisecond)))
		create(ctx, younger)
		eventually(ctx, younger, ready)
		Expect(stack.Client.Delete(ctx, first)).To(Succeed())
		Eventually(onBus).WithArguments(ctx, "shop::first").Should(BeFalse())

		Expect(stack.StopOperator()).To(Succeed())
		Expect(stack.StartOperator(ctx)).To(Succeed())
		Eventually(call).WithArguments(ctx, "shop::younger").Should(Equal("handler y"))
		Consistently(func() string { return read(ctx, waits).Reason }).WithTimeout(500 * time.Millisecond).
			Should(Equal(v1alpha1.SandboxFunctionPrefixTakenReason))
	})

	It("is held by suspended functions too", func(ctx SpecContext) {
		startStack(ctx, operatortest.Options{TwoNamespaces: true})
		fn := function("price", "shop::price", "handler v1")
		fn.Spec.Suspend = true
		create(ctx, fn)
		Eventually(func() string { return read(ctx, fn).Reason }).Should(Equal(v1alpha1.SuspendedReason))
		other := in(stack.Other, function("other", "shop::other", "handler o"))
		create(ctx, other)
		eventually(ctx, other, stalled(v1alpha1.SandboxFunctionPrefixTakenReason))
		Expect(stack.Client.Delete(ctx, fn)).To(Succeed())
		eventually(ctx, other, ready)
	})

	It("is free for all where that is allowed", func(ctx SpecContext) {
		startStack(ctx, operatortest.Options{TwoNamespaces: true, AllowSharedPrefixes: true})
		one, other := function("one", "shop::one", "handler 1"), in(stack.Other, function("other", "shop::other", "handler o"))
		create(ctx, one, other)
		eventually(ctx, one, ready)
		eventually(ctx, other, ready)
		Expect(call(ctx, "shop::one")).To(Equal("handler 1"))
		Expect(call(ctx, "shop::other")).To(Equal("handler o"))
	})
})
