package sandboxruntime_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

var _ = Describe("What a SandboxRuntime prepares", func() {
	var namespace string
	var b *backEnd
	var obj *sandboxv1alpha1.SandboxRuntime

	BeforeEach(func(ctx SpecContext) {
		var err error
		namespace, err = environment.NewNamespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		b, obj = newBackEnd(), newObject(namespace)
	})

	// files are the contents of a file in all sandboxes.
	files := func(path string) []string {
		var contents []string
		for _, id := range b.ids() {
			content, _ := b.File(id, path)
			contents = append(contents, string(content))
		}
		return contents
	}

	settings := func(value string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "settings"}, Data: map[string]string{"v": value}}
	}
	credentials := func(value string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "credentials"}, StringData: map[string]string{"v": value}}
	}
	withFiles := func() {
		obj.Spec.Files = []sandboxv1alpha1.File{
			{Path: "/etc/settings", ContentFrom: &sandboxv1alpha1.KeySource{
				ConfigMapKeyRef: &sandboxv1alpha1.KeyReference{Name: "settings", Key: "v"},
			}},
			{Path: "/etc/credentials", Mode: "0600", ContentFrom: &sandboxv1alpha1.KeySource{
				SecretKeyRef: &sandboxv1alpha1.KeyReference{Name: "credentials", Key: "v"},
			}},
		}
	}

	It("is there before the first call, and follows its ConfigMaps and Secrets", func(ctx SpecContext) {
		o := startOperator(namespace, b, time.Hour)
		withFiles()
		obj.Spec.Setup = []string{"make"}
		create(ctx, obj)
		expectReady(ctx, obj, metav1.ConditionFalse, sandboxv1alpha1.ReferenceNotFoundReason)
		create(ctx, settings("blue"))
		create(ctx, credentials("hunter2"))
		edit(ctx, obj, func() { request(obj) })
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		Expect(files("/etc/settings")).To(ConsistOf("blue"))
		Expect(files("/etc/credentials")).To(ConsistOf("hunter2"))
		Expect(commands(b)).To(Equal([]string{wire.CommandInit, wire.CommandSetup}))
		expectSettled(ctx, o, obj)

		By("rolling over when the ConfigMap changes")
		Expect(environment.Client.Update(ctx, settings("green"))).To(Succeed())
		Eventually(func() []string { return files("/etc/settings") }).Should(ConsistOf("green"))
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)

		By("rolling over when it is asked to look at the Secret")
		Expect(environment.Client.Update(ctx, credentials("hunter3"))).To(Succeed())
		edit(ctx, obj, func() { request(obj) })
		Eventually(func() []string { return files("/etc/credentials") }).Should(ConsistOf("hunter3"))
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		expectSettled(ctx, o, obj)
	})

	It("is told of when it fails, and tried again for another spec", func(ctx SpecContext) {
		o := startOperator(namespace, b, time.Hour)
		b.setupFails.Store(true)
		obj.Spec.Setup = []string{"make"}
		create(ctx, obj)
		expectReady(ctx, obj, metav1.ConditionFalse, sandboxv1alpha1.SandboxRuntimeSetupFailedReason)
		Expect(conditions.Find(obj, sandboxv1alpha1.ReadyCondition).Message).To(
			And(ContainSubstring("spec.setup command 1: exited with 3"), ContainSubstring("the shell says no")))
		Expect(b.ids()).To(BeEmpty())
		expectSettled(ctx, o, obj)
		Expect(b.Calls(fake.Create)).To(HaveLen(1))
		b.setupFails.Store(false)
		edit(ctx, obj, func() { obj.Spec.Setup = []string{"make all"} })
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
	})

	It("rolls over one sandbox after another", func(ctx SpecContext) {
		startOperator(namespace, b, time.Hour)
		obj.Spec.Replicas = ptr.To(int32(4))
		create(ctx, obj)
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		b.Limit(5)
		edit(ctx, obj, func() { obj.Spec.Setup = []string{"make"} })
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		Expect(b.ids()).To(HaveLen(4))

		By("and without room for one more")
		b.Limit(4)
		edit(ctx, obj, func() { obj.Spec.Setup = []string{"make all"} })
		expectReady(ctx, obj, metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
		Expect(b.ids()).To(HaveLen(4))
		Expect(commands(b)).To(HaveLen(4 + 2*4 + 2*4))
	})
})

// request asks the operator to look at an object at once.
func request(obj *sandboxv1alpha1.SandboxRuntime) {
	if obj.Annotations == nil {
		obj.Annotations = map[string]string{}
	}
	obj.Annotations[sandboxv1alpha1.ReconcileRequestAnnotation] = time.Now().Format(time.RFC3339Nano)
}

// commands are those of the agent that were run in sandboxes.
func commands(b *backEnd) []string {
	var list []string
	for _, call := range b.Calls(fake.Exec) {
		list = append(list, call.Exec.Argv[1])
	}
	slices.Sort(list)
	return list
}

var _ = Describe("SandboxRuntimes on a daemon that is too small for them", func() {
	It("all boot, and take turns when they are called", func(ctx SpecContext) {
		const runtimes, places = 100, 32
		namespace, err := environment.NewNamespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		b := newBackEnd()
		b.Limit(places)
		o := startOperator(namespace, b, time.Hour)
		objects := manyObjects(ctx, namespace, runtimes)
		for _, obj := range objects {
			Eventually(func(g Gomega) {
				g.Expect(environment.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
				g.Expect(conditions.IsTrue(obj, sandboxv1alpha1.ReadyCondition)).To(BeTrue())
			}).WithTimeout(3 * time.Minute).Should(Succeed())
		}
		Expect(len(b.ids())).To(BeNumerically("<=", places))

		By("calling all of them at once")
		Expect(callAll(ctx, o, objects)).To(BeEmpty())
	}, SpecTimeout(8*time.Minute))
})

func manyObjects(ctx context.Context, namespace string, count int) []*sandboxv1alpha1.SandboxRuntime {
	GinkgoHelper()
	var objects []*sandboxv1alpha1.SandboxRuntime
	for n := range count {
		obj := newObject(namespace)
		obj.Name = fmt.Sprintf("shop-%d", n)
		create(ctx, obj)
		objects = append(objects, obj)
	}
	return objects
}

// callAll calls every runtime at the same moment, and returns why calls failed.
func callAll(ctx context.Context, o *operator, objects []*sandboxv1alpha1.SandboxRuntime) []string {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	failures := make(chan string, len(objects))
	var calls sync.WaitGroup
	for _, obj := range objects {
		calls.Go(func() {
			lease, err := o.table.Acquire(ctx, runtimeOf(obj), "")
			if err != nil {
				failures <- obj.Name + ": " + err.Error()
				return
			}
			lease.Release()
		})
	}
	calls.Wait()
	close(failures)
	var list []string
	for failure := range failures {
		list = append(list, failure)
	}
	return list
}
