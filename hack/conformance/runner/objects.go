package main

import (
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// restart starts the operator anew with these flags. Only rows of the last phase
// do; the next such row starts it with flags of its own.
func (t *row) restart(flags ...string) { t.ok(t.restartOperator(t.ctx, flags...)) }

// runObject is a finished SandboxRun in a sandbox without a network.
func (t *row) runObject(name string, language v1alpha1.Language, code string) *v1alpha1.SandboxRun {
	run := &v1alpha1.SandboxRun{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.SandboxRunSpec{Language: language, Source: v1alpha1.RunSource{Inline: &code}},
	}
	t.create(run)
	t.Eventually(func() v1alpha1.RunPhase {
		t.ok(t.kube.Get(t.ctx, client.ObjectKeyFromObject(run), run))
		return run.Status.Phase
	}).Should(Or(Equal(v1alpha1.RunSucceeded), Equal(v1alpha1.RunFailed)))
	return run
}

// ownRuntime is a runtime of the row's own with the least idle time there is.
func (t *row) ownRuntime(name string, language v1alpha1.Language) *v1alpha1.SandboxRuntime {
	runtime := &v1alpha1.SandboxRuntime{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.SandboxRuntimeSpec{Language: language},
	}
	runtime.Spec.Idle = &v1alpha1.IdlePolicy{TimeoutSeconds: ptr.To[int32](30), Action: v1alpha1.IdleStop}
	t.create(runtime)
	return runtime
}

// ownFunction is a published function in a runtime of the row's own.
func (t *row) ownFunction(runtime *v1alpha1.SandboxRuntime, id, source string) {
	f := &v1alpha1.SandboxFunction{
		ObjectMeta: metav1.ObjectMeta{Name: runtime.Name},
		Spec: v1alpha1.SandboxFunctionSpec{
			FunctionID: id, Source: v1alpha1.FunctionSource{Inline: &source}, RuntimeRef: &v1alpha1.LocalReference{Name: runtime.Name},
		},
	}
	t.create(f)
	t.Eventually(func() error { _, err := t.try(id, m{}); return err }).Should(Succeed())
}
