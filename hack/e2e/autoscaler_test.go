package e2e

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// startAutoscaler runs Kubernetes' own controller of HorizontalPodAutoscalers
// until the end of the spec. The stack does not have it: nothing else needs it.
func startAutoscaler(ctx context.Context) {
	GinkgoHelper()
	_, port, err := net.SplitHostPort(freeAddress(ctx))
	Expect(err).NotTo(HaveOccurred())
	program, err := filepath.Abs(filepath.Join(root, "bin", "k8s", "kube-controller-manager"))
	Expect(err).NotTo(HaveOccurred())
	command := exec.Command(program, "--kubeconfig="+running.Kubeconfig, "--leader-elect=false",
		"--bind-address=127.0.0.1", "--secure-port="+port, "--cert-dir="+GinkgoT().TempDir(),
		"--controllers=horizontal-pod-autoscaler-controller", "--horizontal-pod-autoscaler-sync-period=1s")
	logs, err := os.Create(filepath.Join(filepath.Dir(running.LogPath("autoscaler")), "autoscaler.log"))
	Expect(err).NotTo(HaveOccurred())
	command.Stdout, command.Stderr = logs, logs
	ended := runUntilEnd(command)
	DeferCleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		Eventually(ended).Should(BeClosed(), "the autoscaler")
		Expect(logs.Close()).To(Succeed())
		expectNoPanic(logs.Name())
	})
}

// autoscalerOf is the manifest of a HorizontalPodAutoscaler of a runtime. Its
// metric has no value here: only the bounds decide.
func autoscalerOf(runtime *v1alpha1.SandboxRuntime, least, most string) string {
	return `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: ` + runtime.Name + `, namespace: ` + runtime.Namespace + `}
spec:
  scaleTargetRef: {apiVersion: sandbox.iii.dev/v1alpha1, kind: SandboxRuntime, name: ` + runtime.Name + `}
  minReplicas: ` + least + `
  maxReplicas: ` + most + `
  metrics: [{type: External, external: {metric: {name: queue}, target: {type: AverageValue, averageValue: "5"}}}]
`
}

var _ = Describe("A HorizontalPodAutoscaler", func() {
	It("scales a runtime up and down", func(ctx SpecContext) {
		startAutoscaler(ctx)
		runtime := newRuntime(newNamespace(ctx), "scaled", v1alpha1.LanguageNode)
		runtime.Spec.Replicas = ptr.To[int32](1)
		apply(ctx, runtime)
		waitFor(ctx, runtime, "Ready", "sbr")
		bound := func(least, most string) {
			GinkgoHelper()
			printed, err := tryKubectl(ctx, autoscalerOf(runtime, least, most), "apply", "-f", "-")
			Expect(err).NotTo(HaveOccurred(), printed)
		}
		sandboxes := func(ctx context.Context) ([]int32, error) {
			err := kube.Get(ctx, client.ObjectKeyFromObject(runtime), runtime)
			return []int32{ptr.Deref(runtime.Spec.Replicas, -1), runtime.Status.Replicas, runtime.Status.ReadyReplicas}, err
		}

		bound("2", "3")
		Eventually(ctx, sandboxes).Should(Equal([]int32{2, 2, 2}))
		Eventually(ctx, condition(runtime, "Ready")).Should(beTrue("Ready"))
		bound("1", "1")
		Eventually(ctx, sandboxes).Should(Equal([]int32{1, 1, 1}))
		kubectl(ctx, "delete", "-n", runtime.Namespace, "hpa/scaled", "--timeout=30s")
	}, specPatience)
})
