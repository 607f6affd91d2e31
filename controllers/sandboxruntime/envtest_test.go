package sandboxruntime_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/index"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

var _ = Describe("SandboxRuntime", func() {
	var namespace string
	var b *backEnd
	var obj *sandboxv1alpha1.SandboxRuntime

	BeforeEach(func(ctx SpecContext) {
		var err error
		namespace, err = environment.NewNamespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		b, obj = newBackEnd(), newObject(namespace)
	})

	It("boots, and announces every attempt before it", func(ctx SpecContext) {
		var unannounced atomic.Int32
		key := client.ObjectKeyFromObject(obj)
		see := func(req sandbox.CreateRequest) {
			if !announced(ctx, key, req.Marker.Nonce) {
				unannounced.Add(1)
			}
		}
		b.onCreate.Store(&see)
		o := startOperator(namespace, b, time.Hour)
		obj.Spec.Replicas = ptr.To(int32(3))
		create(ctx, obj)
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		Expect(unannounced.Load()).To(BeZero())
		Expect(b.ids()).To(HaveLen(3))
		Expect(obj.Finalizers).To(ConsistOf(sandboxv1alpha1.RuntimeFinalizer))
		Expect(obj.Status.ObservedGeneration).To(Equal(obj.Generation))
		Expect([]int32{obj.Status.Replicas, obj.Status.ReadyReplicas}).To(Equal([]int32{3, 3}))
		for kind, status := range map[string]metav1.ConditionStatus{
			sandboxv1alpha1.SandboxRuntimeBootedCondition:     metav1.ConditionTrue,
			sandboxv1alpha1.SandboxRuntimeGuestReadyCondition: metav1.ConditionTrue,
		} {
			Expect(conditions.Find(obj, kind)).To(HaveField("Status", status))
		}
		Expect(obj.Status.Conditions).To(HaveLen(3))
		Expect(o.table.Instances(runtimeOf(obj))).To(HaveLen(3))
		shown, err := json.Marshal(obj)
		Expect(err).NotTo(HaveOccurred())
		for _, id := range b.ids() {
			Expect(string(shown)).NotTo(ContainSubstring(id.Reveal()))
		}
		expectSettled(ctx, o, obj)
	})

	It("follows the scale subresource, up and down", func(ctx SpecContext) {
		o := startOperator(namespace, b, time.Hour)
		create(ctx, obj)
		for _, replicas := range []int32{2, 1, 0} {
			scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
			Expect(environment.Client.SubResource("scale").Update(ctx, obj, client.WithSubResourceBody(scale))).To(Succeed())
			reason := sandboxv1alpha1.ReadyReason
			if replicas == 0 {
				reason = sandboxv1alpha1.SandboxRuntimeScaledToZeroReason
			}
			expectReady(ctx, obj, metav1.ConditionTrue, reason)
			Expect(obj.Status.Replicas).To(Equal(replicas))
			Expect(b.ids()).To(HaveLen(int(replicas)))
		}
		expectSettled(ctx, o, obj)
	})

	It("rolls over to a new template without a gap", func(ctx SpecContext) {
		o := startOperator(namespace, b, time.Hour)
		create(ctx, obj)
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		old := b.ids()[0]
		var gaps atomic.Int32
		runtime := runtimeOf(obj)
		see := func(sandbox.CreateRequest) {
			if len(o.table.Instances(runtime)) == 0 {
				gaps.Add(1)
			}
		}
		b.onCreate.Store(&see)
		edit(ctx, obj, func() { obj.Spec.Image = "other" })
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		Expect(gaps.Load()).To(BeZero())
		Expect(b.ids()).To(HaveLen(1))
		Expect(b.ids()).NotTo(ContainElement(old))
		Expect(b.Calls(fake.Create)[1].Create.Image).To(Equal("other"))
		expectSettled(ctx, o, obj)
	})

	It("waits for the references of its environment, and heals", func(ctx SpecContext) {
		o := startOperator(namespace, b, time.Hour)
		key := sandboxv1alpha1.KeyReference{Name: "settings", Key: "v"}
		obj.Spec.Env = []sandboxv1alpha1.EnvVar{
			{Name: "A", ValueFrom: &sandboxv1alpha1.KeySource{SecretKeyRef: &key}},
			{Name: "B", ValueFrom: &sandboxv1alpha1.KeySource{ConfigMapKeyRef: &key}},
		}
		create(ctx, obj)
		expectReady(ctx, obj, metav1.ConditionFalse, sandboxv1alpha1.ReferenceNotFoundReason)
		expectSettled(ctx, o, obj)
		here := metav1.ObjectMeta{Namespace: namespace, Name: "settings"}
		create(ctx, &corev1.Secret{ObjectMeta: here, StringData: map[string]string{"v": "secret"}})
		create(ctx, &corev1.ConfigMap{ObjectMeta: here, Data: map[string]string{"v": "open"}})
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		Expect(b.Calls(fake.Create)[0].Create.Env).To(And(HaveKeyWithValue("A", "secret"), HaveKeyWithValue("B", "open")))

		By("rolling over when a ConfigMap changes")
		changed := &corev1.ConfigMap{ObjectMeta: here, Data: map[string]string{"v": "changed"}}
		Expect(environment.Client.Update(ctx, changed)).To(Succeed())
		Eventually(func() int { return len(b.Calls(fake.Create)) }).Should(Equal(2))
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	})

	It("replaces a sandbox that was lost, and says so", func(ctx SpecContext) {
		o := startOperator(namespace, b, time.Hour)
		create(ctx, obj)
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		lost := b.ids()[0]
		b.Lose(lost)
		Eventually(b.ids).Should(HaveLen(1))
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		Eventually(func() map[string]string { return events(ctx, obj) }).Should(HaveKey("SandboxLost"))
		Expect(events(ctx, obj)["SandboxLost"]).NotTo(ContainSubstring(lost.Reveal()))
		Eventually(func() int { return len(o.table.Instances(runtimeOf(obj))) }).Should(Equal(1))
		expectSettled(ctx, o, obj)
	})

	It("deletes a runtime that a caller keeps when its sandbox is lost", func(ctx SpecContext) {
		startOperator(namespace, b, time.Hour)
		keep(obj)
		create(ctx, obj)
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		b.Lose(b.ids()[0])
		expectGone(ctx, obj)
		Expect(b.Calls(fake.Create)).To(HaveLen(1))
	})

	It("deletes a runtime that a caller keeps when nobody uses it", func(ctx SpecContext) {
		startOperator(namespace, b, time.Second)
		keep(obj)
		create(ctx, obj)
		Eventually(func() int { return len(b.Calls(fake.Create)) }).Should(Equal(1))
		expectGone(ctx, obj)
		Expect(b.ids()).To(BeEmpty())
	})

	It("stops idle sandboxes and wakes for a call", func(ctx SpecContext) {
		o := startOperator(namespace, b, time.Second)
		create(ctx, obj)
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.SandboxRuntimeIdleReason)
		Expect(b.ids()).To(BeEmpty())
		lease, err := o.table.Acquire(ctx, runtimeOf(obj), "")
		Expect(err).NotTo(HaveOccurred())
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		lease.Release()
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.SandboxRuntimeIdleReason)
		Expect(b.ids()).To(BeEmpty())
	})

	It("suspends and resumes", func(ctx SpecContext) {
		o := startOperator(namespace, b, time.Hour)
		create(ctx, obj)
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		edit(ctx, obj, func() { obj.Spec.Suspend = true })
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.SuspendedReason)
		Expect(b.ids()).To(BeEmpty())
		expectSettled(ctx, o, obj)
		edit(ctx, obj, func() { obj.Spec.Suspend = false })
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	})

	It("stops its sandboxes before it goes, and nobody else's", func(ctx SpecContext) {
		startOperator(namespace, b, time.Hour)
		stranger := b.Adopt("run-17", "node")
		obj.Spec.Replicas = ptr.To(int32(2))
		create(ctx, obj)
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		Expect(environment.Client.Delete(ctx, obj)).To(Succeed())
		expectGone(ctx, obj)
		Expect(b.ids()).To(ConsistOf(stranger))
	})

	It("goes at once when it is deleted before it is seen", func(ctx SpecContext) {
		create(ctx, obj)
		Expect(environment.Client.Delete(ctx, obj)).To(Succeed())
		startOperator(namespace, b, time.Hour)
		expectGone(ctx, obj)
		Expect(b.Calls(fake.Create)).To(BeEmpty())
	})

	It("is taken over by the next process with its sandboxes", func(ctx SpecContext) {
		first := startOperator(namespace, b, time.Hour)
		obj.Spec.Replicas = ptr.To(int32(2))
		create(ctx, obj)
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		before := b.ids()
		first.stop()
		Expect(b.ids()).To(ConsistOf(before))
		version := obj.ResourceVersion
		second := startOperator(namespace, b, time.Hour)
		Eventually(func() int { return len(second.table.Instances(runtimeOf(obj))) }).Should(Equal(2))
		Expect(b.ids()).To(ConsistOf(before))
		expectSettled(ctx, second, obj)
		Expect(obj.ResourceVersion).To(Equal(version))
	})

	It("stalls on an image that the daemon refuses, until the spec changes", func(ctx SpecContext) {
		o := startOperator(namespace, b, time.Hour)
		b.NextCreateErr(sandbox.NewRejectedError("S100", "no such image"))
		create(ctx, obj)
		expectReady(ctx, obj, metav1.ConditionFalse, sandboxv1alpha1.SandboxRuntimeImageRejectedReason)
		Expect(conditions.IsTrue(obj, sandboxv1alpha1.StalledCondition)).To(BeTrue())
		Expect(conditions.Find(obj, sandboxv1alpha1.ReconcilingCondition)).To(BeNil())
		expectSettled(ctx, o, obj)
		Expect(b.Calls(fake.Create)).To(HaveLen(1))
		edit(ctx, obj, func() { obj.Spec.Image = "other" })
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		Expect(conditions.Find(obj, sandboxv1alpha1.StalledCondition)).To(BeNil())
	})

	It("waits for room in the daemon", func(ctx SpecContext) {
		o := startOperator(namespace, b, time.Hour)
		full := sandbox.NewCapacityError("8 of 8")
		b.FailNext(fake.Create, full, full, full)
		create(ctx, obj)
		expectReady(ctx, obj, metav1.ConditionFalse, sandboxv1alpha1.CapacityReason)
		Expect(conditions.IsTrue(obj, sandboxv1alpha1.ReconcilingCondition)).To(BeTrue())
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		Expect(b.Calls(fake.Create)).To(HaveLen(4))
		expectSettled(ctx, o, obj)
	})

	It("waits for the daemon, keeps what it has, and goes on by itself", func(ctx SpecContext) {
		o := startOperator(namespace, b, time.Hour)
		create(ctx, obj)
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		before := b.ids()
		b.away.Store(true)
		expectReady(ctx, obj, metav1.ConditionFalse, sandboxv1alpha1.DaemonUnavailableReason)
		expectSettled(ctx, o, obj)
		edit(ctx, obj, func() { obj.Spec.Replicas = ptr.To(int32(2)) })
		b.away.Store(false)
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		Expect(b.ids()).To(And(HaveLen(2), ContainElements(before)))
	})

	It("starts without a daemon and boots when there is one", func(ctx SpecContext) {
		b.away.Store(true)
		startOperator(namespace, b, time.Hour)
		create(ctx, obj)
		expectReady(ctx, obj, metav1.ConditionFalse, sandboxv1alpha1.DaemonUnavailableReason)
		b.away.Store(false)
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	})

	It("tries again under a new nonce when the answer to a create is lost", func(ctx SpecContext) {
		b.loseAnswer.Store(true)
		startOperator(namespace, b, time.Hour)
		create(ctx, obj)
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		creates := b.Calls(fake.Create)
		Expect(creates).To(HaveLen(2))
		Expect(announced(ctx, client.ObjectKeyFromObject(obj), creates[0].Create.Marker.Nonce)).To(BeFalse(), "the late twin is left to the sweep")
		Expect(announced(ctx, client.ObjectKeyFromObject(obj), creates[1].Create.Marker.Nonce)).To(BeTrue())
	})

	It("goes with the last function if it exists for functions only", func(ctx SpecContext) {
		startOperator(namespace, b, time.Hour)
		var functions []*sandboxv1alpha1.SandboxFunction
		for _, name := range []string{"price", "stock"} {
			functions = append(functions, &sandboxv1alpha1.SandboxFunction{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
				Spec: sandboxv1alpha1.SandboxFunctionSpec{
					FunctionID: "shop::" + name, Language: sandboxv1alpha1.LanguageNode,
					Source: sandboxv1alpha1.FunctionSource{Inline: ptr.To("export const handler = () => 1")},
				},
			})
			create(ctx, functions[len(functions)-1])
		}
		obj.Name = index.RuntimeName(functions[0])
		obj.Labels = map[string]string{sandboxv1alpha1.ImplicitLabel: "true"}
		create(ctx, obj)
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		Expect(obj.Status.Functions).To(Equal(int32(2)))
		Expect(environment.Client.Delete(ctx, functions[0])).To(Succeed())
		Eventually(func() (int32, error) {
			err := environment.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj)
			return obj.Status.Functions, err
		}).Should(Equal(int32(1)))
		Expect(environment.Client.Delete(ctx, functions[1])).To(Succeed())
		expectGone(ctx, obj)
		Expect(b.ids()).To(BeEmpty())
	})
})

// announced says whether the stored status names an attempt.
func announced(ctx context.Context, key client.ObjectKey, nonce string) bool {
	var stored sandboxv1alpha1.SandboxRuntime
	if err := environment.Client.Get(ctx, key, &stored); err != nil {
		return false
	}
	sum := sha256.Sum256([]byte(nonce))
	for _, i := range stored.Status.Instances {
		if i.Digest == hex.EncodeToString(sum[:]) {
			return true
		}
	}
	return false
}

// keep makes a runtime one that a bus caller keeps.
func keep(obj *sandboxv1alpha1.SandboxRuntime) {
	obj.Labels = map[string]string{sandboxv1alpha1.OriginLabel: sandboxv1alpha1.OriginBus}
	obj.Spec.Idle = &sandboxv1alpha1.IdlePolicy{Action: sandboxv1alpha1.IdleDelete}
}
