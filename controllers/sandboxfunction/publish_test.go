package sandboxfunction_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/index"
	"github.com/sandbox-operator/sandbox-operator/controllers/operatortest"
	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

var _ = Describe("A function on the bus", func() {
	BeforeEach(func(ctx SpecContext) { startStack(ctx, operatortest.Options{}) })

	It("answers once it is Ready, and says what answers", func(ctx SpecContext) {
		fn := function("price", "shop::price", "handler v1")
		fn.Spec.Description = "Tells the price."
		create(ctx, fn)
		eventually(ctx, fn, ready)

		Expect(call(ctx, "shop::price")).To(Equal("handler v1"))
		info, err := caller.FunctionInfo(ctx, "shop::price", "default")
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Description).To(Equal("Tells the price."))
		Expect(info.WorkerName).To(Equal("sandbox-code-runner"))

		Expect(fn.Status.SourceDigest).To(Equal(guest.SourceDigest([]byte("handler v1"))))
		Expect(fn.Status.RuntimeName).To(Equal(index.RuntimeName(fn)))
		for _, kind := range []string{
			v1alpha1.SandboxFunctionRuntimeReadyCondition, v1alpha1.SandboxFunctionPublishedCondition,
		} {
			Expect(conditions.IsTrue(fn, kind)).To(BeTrue(), kind)
		}
		Expect(conditions.Find(fn, v1alpha1.SandboxFunctionTriggersBoundCondition)).To(BeNil())
	})

	It("writes nothing once it is settled", func(ctx SpecContext) {
		fn := function("price", "shop::price", "handler v1")
		create(ctx, fn)
		eventually(ctx, fn, ready)
		request := func(value string) string {
			change(ctx, fn, func() { fn.Annotations = map[string]string{v1alpha1.ReconcileRequestAnnotation: value} })
			return fn.ResourceVersion
		}
		before, err := operatortest.Reconciles("sandboxfunction")
		Expect(err).NotTo(HaveOccurred())
		for _, value := range []string{"first", "second"} {
			version := request(value)
			Eventually(operatortest.Reconciles).WithArguments("sandboxfunction").Should(BeNumerically(">", before))
			before, err = operatortest.Reconciles("sandboxfunction")
			Expect(err).NotTo(HaveOccurred())
			Consistently(func() string { read(ctx, fn); return fn.ResourceVersion }).
				WithTimeout(300 * time.Millisecond).Should(Equal(version))
		}
	})

	It("puts right what a former leader wrote late", func(ctx SpecContext) {
		fn := function("price", "shop::price", "handler v1")
		create(ctx, fn)
		eventually(ctx, fn, ready)
		runtime := &v1alpha1.SandboxRuntime{ObjectMeta: metav1.ObjectMeta{Namespace: stack.Namespace, Name: fn.Status.RuntimeName}}
		for _, obj := range []conditions.Object{fn, runtime} {
			isReady := func() bool {
				read(ctx, obj)
				return conditions.IsTrue(obj, v1alpha1.ReadyCondition)
			}
			Eventually(isReady).Should(BeTrue())
			before := obj.DeepCopyObject().(client.Object)
			told := conditions.Find(obj, v1alpha1.ReadyCondition)
			told.Status, told.Reason = metav1.ConditionFalse, v1alpha1.DaemonUnavailableReason
			Expect(stack.Client.Status().Patch(ctx, obj, client.MergeFrom(before))).To(Succeed())
			Eventually(isReady).Should(BeTrue(), obj.GetName())
		}
	})

	It("records that it became Ready, once", func(ctx SpecContext) {
		fn := function("price", "shop::price", "handler v1")
		create(ctx, fn)
		eventually(ctx, fn, ready)
		events := func() []string {
			var list eventsv1.EventList
			Expect(stack.Client.List(ctx, &list, client.InNamespace(stack.Namespace))).To(Succeed())
			var notes []string
			for _, e := range list.Items {
				if e.Regarding.Kind == "SandboxFunction" {
					notes = append(notes, e.Type+" "+e.Reason+": "+e.Note)
				}
			}
			return notes
		}
		Eventually(events).Should(HaveLen(1))
		Expect(events()[0]).To(Equal("Normal Ready: the function answers on the bus"))
		change(ctx, fn, func() { fn.Spec.Description = "new" })
		eventually(ctx, fn, ready)
		change(ctx, fn, func() { fn.Spec.Source.Inline = ptr.To("BROKEN") })
		eventually(ctx, fn, stalled(v1alpha1.SandboxFunctionSourceInvalidReason))
		Eventually(events).Should(ContainElement(HavePrefix("Warning SourceInvalid: spec.source: line 1")))
	})

	It("switches to an edited source without a failed call", func(ctx SpecContext) {
		fn := function("price", "shop::price", "handler v1")
		create(ctx, fn)
		eventually(ctx, fn, ready)
		var calls, olds atomic.Int64
		stop, finished := make(chan struct{}), make(chan error, 1)
		go func() { finished <- callUntil(ctx, stop, "shop::price", "handler v1", &calls, &olds) }()
		Eventually(calls.Load).Should(BeNumerically(">", 20))

		change(ctx, fn, func() { fn.Spec.Source.Inline = ptr.To("handler v2") })
		eventually(ctx, fn, ready)
		Expect(call(ctx, "shop::price")).To(Equal("handler v2"))
		seen := olds.Load()
		after := calls.Load()
		Eventually(calls.Load).Should(BeNumerically(">", after+20))
		close(stop)
		Expect(<-finished).To(Succeed())
		Expect(olds.Load()-seen).To(BeNumerically("<=", 1), "the former source answered after the switch")
	})

	It("removes a replaced source from the sandbox after the last call may have ended", func(ctx SpecContext) {
		fn := function("price", "shop::price", "handler v1")
		fn.Spec.TimeoutMilliseconds = ptr.To[int32](200)
		create(ctx, fn)
		eventually(ctx, fn, ready)
		change(ctx, fn, func() { fn.Spec.Source.Inline = ptr.To("handler v2") })
		eventually(ctx, fn, ready)
		Eventually(planted).WithArguments(ctx).Should(ConsistOf("handler v2"))
		Expect(call(ctx, "shop::price")).To(Equal("handler v2"))
	})

	It("goes before its object goes", func(ctx SpecContext) {
		fn := function("price", "shop::price", "handler v1")
		create(ctx, fn)
		eventually(ctx, fn, ready)
		Expect(stack.Client.Delete(ctx, fn)).To(Succeed())
		Eventually(func(g Gomega) {
			// Asked in this order: the object may go between the two questions.
			err := stack.Client.Get(ctx, client.ObjectKeyFromObject(fn), fn)
			there, busErr := onBus(ctx, "shop::price")
			g.Expect(busErr).NotTo(HaveOccurred())
			if apierrors.IsNotFound(err) {
				Expect(there).To(BeFalse(), "the object went first")
			}
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
		}).Should(Succeed())
	})

	It("goes too when somebody removes the finalizer by force", func(ctx SpecContext) {
		fn := function("price", "shop::price", "handler v1")
		create(ctx, fn)
		eventually(ctx, fn, ready)
		base := fn.DeepCopy()
		fn.Finalizers = nil
		fn.Annotations = map[string]string{"forced": "yes"}
		// The operator may put the finalizer back in between; either way it cleans up.
		Expect(stack.Client.Patch(ctx, fn, client.MergeFrom(base))).To(Succeed())
		Expect(stack.Client.Delete(ctx, fn)).To(Succeed())
		Eventually(func(g Gomega) {
			there, err := onBus(ctx, "shop::price")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(there).To(BeFalse())
			err = stack.Client.Get(ctx, client.ObjectKeyFromObject(fn), fn)
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
		}).Should(Succeed())
		again := function("again", "shop::price", "handler v2")
		create(ctx, again)
		eventually(ctx, again, ready)
		Expect(call(ctx, "shop::price")).To(Equal("handler v2"))
	})

	It("leaves the bus while it is suspended and comes back", func(ctx SpecContext) {
		fn := function("price", "shop::price", "handler v1")
		create(ctx, fn)
		eventually(ctx, fn, ready)
		for range 2 {
			change(ctx, fn, func() { fn.Spec.Suspend = true })
			eventually(ctx, fn, state{Ready: metav1.ConditionTrue, Reason: v1alpha1.SuspendedReason, Settled: true, Current: true})
			Expect(conditions.IsTrue(fn, v1alpha1.SandboxFunctionPublishedCondition)).To(BeFalse())
			Eventually(onBus).WithArguments(ctx, "shop::price").Should(BeFalse())
			change(ctx, fn, func() { fn.Spec.Suspend = false })
			eventually(ctx, fn, ready)
			Expect(call(ctx, "shop::price")).To(Equal("handler v1"))
		}
	})

	It("stays away when it is suspended while it is being published", func(ctx SpecContext) {
		for round := range 5 {
			fn := function("quick", "shop::quick", "handler "+string(rune('a'+round)))
			create(ctx, fn)
			Eventually(func() string { read(ctx, fn); return fn.Status.SourceDigest }).ShouldNot(BeEmpty())
			change(ctx, fn, func() { fn.Spec.Suspend = true })
			eventually(ctx, fn, state{Ready: metav1.ConditionTrue, Reason: v1alpha1.SuspendedReason, Settled: true, Current: true})
			Eventually(onBus).WithArguments(ctx, "shop::quick").Should(BeFalse())
			change(ctx, fn, func() { fn.Spec.Suspend = false })
			eventually(ctx, fn, ready)
			Expect(call(ctx, "shop::quick")).To(HavePrefix("handler"))
			Expect(stack.Client.Delete(ctx, fn)).To(Succeed())
			Eventually(func() bool {
				return apierrors.IsNotFound(stack.Client.Get(ctx, client.ObjectKeyFromObject(fn), fn))
			}).Should(BeTrue())
			Expect(onBus(ctx, "shop::quick")).To(BeFalse())
		}
	})

	It("waits for a bus that went, and is published anew on an engine that knows nothing", func(ctx SpecContext) {
		fn := function("price", "shop::price", "handler v1")
		create(ctx, fn)
		eventually(ctx, fn, ready)
		generation := fn.Generation
		Expect(stack.StopEngine()).To(Succeed())
		eventually(ctx, fn, state{Ready: metav1.ConditionFalse, Reason: v1alpha1.BusUnavailableReason, Busy: true, Current: true})
		Expect(conditions.IsTrue(fn, v1alpha1.SandboxFunctionPublishedCondition)).To(BeFalse())

		Expect(stack.StartEngine(ctx)).To(Succeed())
		eventually(ctx, fn, ready)
		Expect(fn.Generation).To(Equal(generation))
		Expect(caller.WaitConnected(ctx)).To(Succeed())
		Expect(call(ctx, "shop::price")).To(Equal("handler v1"))
	})

	It("is adopted by the next process, with its sandbox", func(ctx SpecContext) {
		fn := function("price", "shop::price", "handler v1")
		create(ctx, fn)
		eventually(ctx, fn, ready)
		before, err := stack.Provider.List(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(stack.StopOperator()).To(Succeed())
		Eventually(onBus).WithArguments(ctx, "shop::price").Should(BeFalse())
		Expect(stack.StartOperator(ctx)).To(Succeed())
		Eventually(call).WithArguments(ctx, "shop::price").Should(Equal("handler v1"))
		eventually(ctx, fn, ready)
		after, err := stack.Provider.List(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(after).To(HaveLen(1))
		Expect(after[0].ID).To(Equal(before[0].ID))
	})
})

// callUntil calls until it is stopped. It fails with the first call that does.
func callUntil(ctx SpecContext, stop <-chan struct{}, id, old string, calls, olds *atomic.Int64) error {
	for {
		select {
		case <-stop:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		default:
		}
		answer, err := call(ctx, id)
		if err != nil {
			return err
		}
		if answer == old {
			olds.Add(1)
		}
		calls.Add(1)
	}
}

// planted lists the sources in all sandboxes.
func planted(ctx SpecContext) ([]string, error) {
	sandboxes, err := stack.Provider.List(ctx)
	var sources []string
	for _, s := range sandboxes {
		sources = append(sources, stack.Guest.Planted(s.ID)...)
	}
	return sources, err
}

var _ = Describe("Calls that wait for a function", func() {
	BeforeEach(func(ctx SpecContext) { startStack(ctx, operatortest.Options{}) })

	It("fail at once when it is deleted", func(ctx SpecContext) {
		fn, other := function("price", "shop::price", "handler v1"), function("other", "shop::other", "handler o")
		fn.Spec.TimeoutMilliseconds = ptr.To[int32](120000)
		create(ctx, fn, other)
		eventually(ctx, fn, ready)
		eventually(ctx, other, ready)
		full := make(chan struct{})
		defer close(full)
		stack.Guest.OnCall(func(ctx context.Context, _ wire.CallRequest) (wire.Reply, error) {
			select {
			case <-full:
			case <-ctx.Done():
			}
			return wire.Reply{}, nil
		})
		const calls = 6 // more than there are places
		answers := make(chan error, calls)
		for range calls {
			go func() { _, err := call(ctx, "shop::price"); answers <- err }()
		}
		Eventually(func() int { return len(stack.Provider.Calls(fake.Exec)) }).Should(BeNumerically(">=", 3))
		Expect(stack.Client.Delete(ctx, fn)).To(Succeed())
		var err error
		Eventually(answers).Should(Receive(&err))
		Expect(err).To(MatchError(ContainSubstring("sandbox-code-runner::expired: no live runtime stands behind this function")))
	})
})

var _ = Describe("A function with limits", func() {
	BeforeEach(func(ctx SpecContext) { startStack(ctx, operatortest.Options{}) })

	It("has as many calls at once and in its queue as it says", func(ctx SpecContext) {
		fn, other := function("price", "shop::price", "handler v1"), function("other", "shop::other", "handler o")
		fn.Spec.Concurrency, fn.Spec.QueueLimit = ptr.To[int32](1), ptr.To[int32](1)
		fn.Spec.TimeoutMilliseconds = ptr.To[int32](120000)
		create(ctx, fn, other)
		eventually(ctx, fn, ready)
		eventually(ctx, other, ready)
		inside, leave := make(chan struct{}, 3), make(chan struct{})
		stack.Guest.OnCall(func(ctx context.Context, r wire.CallRequest) (wire.Reply, error) {
			if r.Context.FunctionID == "shop::price" {
				inside <- struct{}{}
				select {
				case <-leave:
				case <-ctx.Done():
				}
			}
			return wire.Reply{Result: []byte(`"done"`)}, nil
		})
		answers := make(chan error, 3)
		for range 3 {
			go func() { _, err := call(ctx, "shop::price"); answers <- err }()
		}
		var err error
		Eventually(answers).Should(Receive(&err))
		Expect(err).To(MatchError(ContainSubstring("sandbox-code-runner::capacity: too many calls wait for this function")))
		Expect(call(ctx, "shop::other")).To(Equal("done"))
		Eventually(inside).Should(HaveLen(1))
		close(leave)
		for range 2 {
			Eventually(answers).Should(Receive(BeNil()))
		}
	})
})

var _ = Describe("Many functions after a reconnect", func() {
	BeforeEach(func(ctx SpecContext) { startStack(ctx, operatortest.Options{}) })

	It("are all confirmed again", func(ctx SpecContext) {
		var all []*v1alpha1.SandboxFunction
		for i := range 40 {
			fn := function(fmt.Sprint("f", i), fmt.Sprint("shop::f", i), fmt.Sprint("handler ", i))
			all = append(all, fn)
			create(ctx, fn)
		}
		for _, fn := range all {
			eventually(ctx, fn, ready)
		}
		Expect(stack.StopEngine()).To(Succeed())
		eventually(ctx, all[0], waiting(v1alpha1.BusUnavailableReason))
		Expect(stack.StartEngine(ctx)).To(Succeed())
		Expect(caller.WaitConnected(ctx)).To(Succeed())
		for i, fn := range all {
			eventually(ctx, fn, ready)
			Expect(call(ctx, fn.Spec.FunctionID)).To(Equal(fmt.Sprint("handler ", i)))
		}
	})
})
