package sandboxfunction_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/index"
	"github.com/sandbox-operator/sandbox-operator/controllers/operatortest"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

// withRuntime gives a function a runtime of its own.
func withRuntime(fn *v1alpha1.SandboxFunction, change ...func(*v1alpha1.FunctionRuntime)) *v1alpha1.SandboxFunction {
	fn.Spec.Runtime = &v1alpha1.FunctionRuntime{Language: fn.Spec.Language}
	fn.Spec.Language = ""
	for _, f := range change {
		f(fn.Spec.Runtime)
	}
	return fn
}

var _ = Describe("A function with a runtime of its own", func() {
	BeforeEach(func(ctx SpecContext) { startStack(ctx, operatortest.Options{}) })

	own := func(ctx SpecContext, fn *v1alpha1.SandboxFunction) *v1alpha1.SandboxRuntime {
		GinkgoHelper()
		var runtime v1alpha1.SandboxRuntime
		Expect(stack.Client.Get(ctx, client.ObjectKey{Namespace: fn.Namespace, Name: index.RuntimeName(fn)}, &runtime)).To(Succeed())
		return &runtime
	}

	It("answers from a runtime that nobody shares and that goes with it", func(ctx SpecContext) {
		fn := withRuntime(function("price", "shop::price", "handler v1"), func(r *v1alpha1.FunctionRuntime) {
			r.Env = []v1alpha1.EnvVar{{Name: "MODE", Value: ptr.To("test")}}
			r.Concurrency = ptr.To[int32](2)
		})
		neighbour := function("stock", "shop::stock", "handler s")
		create(ctx, fn, neighbour)
		eventually(ctx, fn, ready)
		eventually(ctx, neighbour, ready)
		Expect(call(ctx, "shop::price")).To(Equal("handler v1"))
		Expect(fn.Status.RuntimeName).To(Equal(index.RuntimeName(fn)))
		Expect(fn.Status.RuntimeName).NotTo(Equal(neighbour.Status.RuntimeName))

		runtime := own(ctx, fn)
		Expect(metav1.IsControlledBy(runtime, fn)).To(BeTrue())
		Expect(runtime.Labels).To(HaveKeyWithValue(v1alpha1.OwnLabel, "true"))
		Expect(runtime.Annotations).To(HaveKeyWithValue(v1alpha1.FunctionIDAnnotation, "shop::price"))
		Expect(runtime.Spec.Env).To(Equal(fn.Spec.Runtime.Env))
		Expect(runtime.Spec.Concurrency).To(HaveValue(BeEquivalentTo(2)))
		Expect(stack.Provider.Calls(fake.Create)).To(ContainElement(
			HaveField("Create.Env", HaveKeyWithValue("MODE", "test"))))

		Expect(stack.Client.Delete(ctx, fn)).To(Succeed())
		Eventually(func() bool {
			return apierrors.IsNotFound(stack.Client.Get(ctx, client.ObjectKeyFromObject(runtime), runtime))
		}).Should(BeTrue(), "the runtime stayed")
		Expect(call(ctx, "shop::stock")).To(Equal("handler s"))
	})

	It("brings a changed template to its runtime, and takes back what others change", func(ctx SpecContext) {
		fn := withRuntime(function("price", "shop::price", "handler v1"), func(r *v1alpha1.FunctionRuntime) {
			// Written in another way than the API server would.
			r.Resources = &v1alpha1.GuestResources{Memory: ptr.To(resource.MustParse("1024Mi"))}
		})
		create(ctx, fn)
		eventually(ctx, fn, ready)
		change(ctx, fn, func() { fn.Spec.Runtime.Env = []v1alpha1.EnvVar{{Name: "MODE", Value: ptr.To("new")}} })
		Eventually(func() []v1alpha1.EnvVar { return own(ctx, fn).Spec.Env }).Should(HaveLen(1))
		eventually(ctx, fn, ready)

		runtime := own(ctx, fn)
		change(ctx, runtime, func() {
			runtime.Spec.Network = v1alpha1.AccessEnabled
			runtime.Spec.Env[0].Value = ptr.To("theirs")
			delete(runtime.Labels, v1alpha1.OwnLabel)
			runtime.Labels["team"] = "kept"
			runtime.Spec.Replicas = ptr.To[int32](2)
		})
		Eventually(func(g Gomega) {
			back := own(ctx, fn)
			g.Expect(back.Spec.Network).To(BeEmpty())
			g.Expect(back.Spec.Env[0].Value).To(HaveValue(Equal("new")))
			g.Expect(back.Labels).To(And(HaveKey(v1alpha1.OwnLabel), HaveKey("team")))
			g.Expect(back.Spec.Replicas).To(HaveValue(BeEquivalentTo(2)), "the number of sandboxes is not the template's")
		}).Should(Succeed())
		eventually(ctx, fn, ready)
		Expect(call(ctx, "shop::price")).To(Equal("handler v1"))
	})

	It("writes nothing once it is settled", func(ctx SpecContext) {
		fn := withRuntime(function("price", "shop::price", "handler v1"), func(r *v1alpha1.FunctionRuntime) {
			r.Resources = &v1alpha1.GuestResources{Memory: ptr.To(resource.MustParse("1024Mi"))}
			r.Network, r.BusAccess, r.BusAllow = v1alpha1.AccessEnabled, v1alpha1.AccessEnabled, []string{}
		})
		create(ctx, fn)
		eventually(ctx, fn, ready)
		versions := func() string {
			read(ctx, fn)
			return fn.ResourceVersion + " " + own(ctx, fn).ResourceVersion
		}
		var before string
		Eventually(func() bool { last := before; before = versions(); return last == before }).
			WithPolling(500 * time.Millisecond).Should(BeTrue())
		change(ctx, fn, func() { fn.Annotations = map[string]string{v1alpha1.ReconcileRequestAnnotation: "now"} })
		settled := versions()
		Consistently(versions).WithTimeout(400 * time.Millisecond).Should(Equal(settled))
	})

	It("says what its runtime waits for", func(ctx SpecContext) {
		fn := withRuntime(function("price", "shop::price", "handler v1"), func(r *v1alpha1.FunctionRuntime) {
			r.Env = []v1alpha1.EnvVar{{Name: "KEY", ValueFrom: &v1alpha1.KeySource{
				SecretKeyRef: &v1alpha1.KeyReference{Name: "missing", Key: "key"},
			}}}
		})
		create(ctx, fn)
		eventually(ctx, fn, waiting(v1alpha1.ReferenceNotFoundReason))
		Expect(message(fn, v1alpha1.SandboxFunctionRuntimeReadyCondition)).To(And(
			ContainSubstring("SandboxRuntime "+index.RuntimeName(fn)), ContainSubstring(`Secret "missing" does not exist`)))
		Expect(conditions.IsTrue(fn, v1alpha1.SandboxFunctionRuntimeReadyCondition)).To(BeFalse())
	})

	It("leaves a runtime of that name that is not its own alone", func(ctx SpecContext) {
		fn := withRuntime(function("price", "shop::price", "handler v1"))
		foreign := &v1alpha1.SandboxRuntime{
			ObjectMeta: metav1.ObjectMeta{Namespace: stack.Namespace, Name: index.RuntimeName(fn)},
			Spec:       v1alpha1.SandboxRuntimeSpec{Language: v1alpha1.LanguagePython},
		}
		create(ctx, foreign, fn)
		eventually(ctx, fn, stalled(v1alpha1.InvalidSpecReason))
		Expect(message(fn, v1alpha1.StalledCondition)).To(ContainSubstring("was not made for this function"))
		Expect(own(ctx, fn).Spec.Language).To(Equal(v1alpha1.LanguagePython))

		Expect(stack.Client.Delete(ctx, foreign)).To(Succeed())
		eventually(ctx, fn, ready)
	})

	It("gets a new runtime when it is made anew under its name", func(ctx SpecContext) {
		fn := withRuntime(function("price", "shop::price", "handler v1"))
		create(ctx, fn)
		eventually(ctx, fn, ready)
		former := own(ctx, fn).UID
		Expect(stack.Client.Delete(ctx, fn)).To(Succeed())
		Eventually(func() bool {
			return apierrors.IsNotFound(stack.Client.Get(ctx, client.ObjectKeyFromObject(fn), fn))
		}).Should(BeTrue())
		again := withRuntime(function("price", "shop::price", "handler v2"))
		create(ctx, again)
		eventually(ctx, again, ready)
		Expect(call(ctx, "shop::price")).To(Equal("handler v2"))
		Expect(own(ctx, again).UID).NotTo(Equal(former))
	})
})
