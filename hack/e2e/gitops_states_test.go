package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

// expectVerdict waits for it, and for what holds until then.
func expectVerdict(ctx context.Context, obj client.Object, want verdict) {
	GinkgoHelper()
	Eventually(ctx, verdictOn(obj)).Should(Equal(want), "%T %s", obj, obj.GetName())
}

// patch changes the spec of an object as it is now.
func patch[T client.Object](ctx context.Context, obj T, change func(T)) {
	GinkgoHelper()
	refresh(ctx, obj)
	before := obj.DeepCopyObject().(client.Object)
	change(obj)
	Expect(kube.Patch(ctx, obj, client.MergeFrom(before))).To(Succeed())
}

// expectGoingAway deletes an object that somebody else holds for the moment.
func expectGoingAway(ctx context.Context, obj client.Object) {
	GinkgoHelper()
	const held = "e2e.example.com/held"
	patch(ctx, obj, func(obj client.Object) { controllerutil.AddFinalizer(obj, held) })
	Expect(kube.Delete(ctx, obj)).To(Succeed())
	expectVerdict(ctx, obj, goingAway)
	// The operator removes its own finalizer at the same time.
	Eventually(ctx, func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		controllerutil.RemoveFinalizer(obj, held)
		return kube.Update(ctx, obj)
	}).Should(Succeed())
}

// slowly is a setup during which a runtime is not ready yet.
var slowly = []string{"sleep 2"}

var _ = Describe("kstatus and Argo CD see", func() {
	It("nothing ready before the operator has looked at it", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		Expect(running.StopPart(ctx, stack.Operator)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			if running.PID(stack.Operator) == 0 {
				restart(ctx, stack.Operator)
			}
		}, NodeTimeout(startPatience))
		objects := []client.Object{
			newRuntime(namespace, "unseen", v1alpha1.LanguageNode),
			newFunction(namespace, "unseen", v1alpha1.LanguageNode, nodeEcho),
			newRun(namespace, "unseen", v1alpha1.LanguageNode, "1"),
		}
		for _, obj := range objects {
			apply(ctx, obj)
			Expect(verdictOn(obj)(ctx)).To(Equal(comingUp), "%T", obj)
		}
		restart(ctx, stack.Operator)
		for _, obj := range objects {
			expectVerdict(ctx, obj, healthy)
		}
	}, specPatience)

	It("the states of a SandboxRuntime", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		idle := newRuntime(namespace, "idle", v1alpha1.LanguageNode)
		idle.Spec.Idle = &v1alpha1.IdlePolicy{TimeoutSeconds: ptr.To[int32](30)}
		apply(ctx, idle)

		runtime := newRuntime(namespace, "states", v1alpha1.LanguageNode)
		runtime.Spec.Setup = slowly
		apply(ctx, runtime)
		Expect(verdictOn(runtime)(ctx)).To(Equal(comingUp), "booting")
		expectVerdict(ctx, runtime, healthy)

		patch(ctx, runtime, func(r *v1alpha1.SandboxRuntime) { r.Spec.Suspend = true })
		expectVerdict(ctx, runtime, suspended)
		patch(ctx, runtime, func(r *v1alpha1.SandboxRuntime) { r.Spec.Suspend = false })
		Expect(verdictOn(runtime)(ctx)).To(Equal(comingUp), "resumed")
		expectVerdict(ctx, runtime, healthy)
		patch(ctx, runtime, func(r *v1alpha1.SandboxRuntime) { r.Spec.Replicas = ptr.To[int32](0) })
		Eventually(ctx, condition(runtime, "Ready")).Should(beTrue("ScaledToZero"))
		Expect(verdictOn(runtime)(ctx)).To(Equal(healthy))

		By("an image that the daemon does not know")
		stalled := newRuntime(namespace, "stalled", v1alpha1.LanguageNode)
		stalled.Spec.Image = "no-such-image"
		apply(ctx, stalled)
		expectVerdict(ctx, stalled, broken)

		By("a Secret that is not there")
		waiting := newRuntime(namespace, "waiting", v1alpha1.LanguageNode)
		waiting.Spec.Env = []v1alpha1.EnvVar{{Name: "TOKEN", ValueFrom: &v1alpha1.KeySource{
			SecretKeyRef: &v1alpha1.KeyReference{Name: "absent", Key: "token"}}}}
		apply(ctx, waiting)
		Eventually(ctx, condition(waiting, "Ready")).Should(HaveField("Reason", "ReferenceNotFound"))
		Expect(verdictOn(waiting)(ctx)).To(Equal(comingUp))

		for _, r := range []*v1alpha1.SandboxRuntime{runtime, stalled, waiting} {
			expectGoingAway(ctx, r)
		}
		Eventually(ctx, condition(idle, "Ready")).WithTimeout(time.Minute).Should(beTrue("Idle"))
		Expect(verdictOn(idle)(ctx)).To(Equal(healthy))
	}, NodeTimeout(3*time.Minute))

	It("the states of a SandboxFunction", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		f := newFunction(namespace, "states", "", nodeEcho)
		f.Spec.RuntimeRef = &v1alpha1.LocalReference{Name: "later"}
		apply(ctx, f)
		Eventually(ctx, condition(f, "Ready")).Should(HaveField("Reason", "ReferenceNotFound"))
		Expect(verdictOn(f)(ctx)).To(Equal(comingUp))
		runtime := newRuntime(namespace, "later", v1alpha1.LanguageNode)
		runtime.Spec.Setup = slowly
		apply(ctx, runtime)
		Expect(verdictOn(f)(ctx)).To(Equal(comingUp), "its runtime boots")
		expectVerdict(ctx, f, healthy)

		patch(ctx, f, func(f *v1alpha1.SandboxFunction) { f.Spec.Suspend = true })
		expectVerdict(ctx, f, suspended)
		patch(ctx, f, func(f *v1alpha1.SandboxFunction) { f.Spec.Suspend = false })
		expectVerdict(ctx, f, healthy)

		By("a source that does not load, although the former one still answers")
		patch(ctx, f, func(f *v1alpha1.SandboxFunction) { f.Spec.Source.Inline = ptr.To("nothing to handle\n") })
		expectVerdict(ctx, f, broken)
		Expect(call(ctx, f.Spec.FunctionID, 7)).To(Equal("7"))
		patch(ctx, f, func(f *v1alpha1.SandboxFunction) { f.Spec.Source.Inline = ptr.To(nodeEcho) })
		expectVerdict(ctx, f, healthy)
		expectGoingAway(ctx, f)
	}, specPatience)

	It("the states of a SandboxRun", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		waiting := inRuntime(newRun(namespace, "waiting", v1alpha1.LanguageNode, "1"), "absent")
		apply(ctx, waiting)
		Eventually(ctx, condition(waiting, "Ready")).Should(HaveField("Reason", "ReferenceNotFound"))
		Expect(verdictOn(waiting)(ctx)).To(Equal(comingUp))

		good := newRun(namespace, "good", v1alpha1.LanguageNode, "1")
		bad := newRun(namespace, "bad", v1alpha1.LanguageNode, "process.exit(7)")
		endless := newRun(namespace, "endless", v1alpha1.LanguageNode, "setInterval(() => {}, 1000)")
		for _, run := range []*v1alpha1.SandboxRun{good, bad, endless} {
			apply(ctx, run)
		}
		expectVerdict(ctx, good, healthy)
		expectVerdict(ctx, bad, broken)
		Eventually(ctx, condition(endless, "Ready")).Should(HaveField("Reason", "Running"))
		Expect(verdictOn(endless)(ctx)).To(Equal(comingUp))
		patch(ctx, endless, func(r *v1alpha1.SandboxRun) { r.Spec.Cancel = true })
		expectVerdict(ctx, endless, broken)
		for _, run := range []*v1alpha1.SandboxRun{waiting, good, bad, endless} {
			expectGoingAway(ctx, run)
		}
	}, specPatience)
})
