//go:build flux

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// fluxGrace is how long a controller may take to end.
const fluxGrace = 30 * time.Second

// startFlux installs Flux's kinds and runs its controllers, as hack/gitops builds
// them, until the end of the container.
func startFlux(ctx context.Context) {
	GinkgoHelper()
	kinds := filepath.Join("bin", "flux", "crds")
	kubectl(ctx, "apply", "--server-side", "-f", kinds)
	DeferCleanup(func(ctx SpecContext) { kubectl(ctx, "delete", "-f", kinds, "--timeout=60s") }, specPatience)
	kubectl(ctx, "wait", "--for=condition=Established", "-f", kinds, "--timeout=60s")

	dir := GinkgoT().TempDir()
	storage := freeAddress(ctx)
	startController(ctx, "source-controller", dir,
		"--storage-path="+dir, "--storage-addr="+storage, "--storage-adv-addr="+storage)
	startController(ctx, "kustomize-controller", dir, "--requeue-dependency=1s", "--no-remote-bases")
}

// startController waits until a controller says that it is ready.
func startController(ctx context.Context, name, dir string, args ...string) {
	GinkgoHelper()
	health := freeAddress(ctx)
	program, err := filepath.Abs(filepath.Join(root, "bin", "flux", name))
	Expect(err).NotTo(HaveOccurred())
	command := exec.Command(program, append(args, "--health-addr="+health, "--metrics-addr=127.0.0.1:0",
		"--events-addr=", "--enable-leader-election=false", "--watch-all-namespaces")...)
	command.Dir = dir
	command.Env = append(os.Environ(), "KUBECONFIG="+running.Kubeconfig, "RUNTIME_NAMESPACE=default", "TMPDIR="+GinkgoT().TempDir())
	logs, err := os.Create(filepath.Join(filepath.Dir(running.LogPath("flux")), name+".log"))
	Expect(err).NotTo(HaveOccurred())
	command.Stdout, command.Stderr = logs, logs
	ended := runUntilEnd(command)
	DeferCleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		Eventually(ended).WithTimeout(fluxGrace).Should(BeClosed(), name)
		Expect(logs.Close()).To(Succeed())
		expectNoPanic(logs.Name())
	})
	Eventually(ctx, func() error {
		if isClosed(ended) {
			return StopTrying(name + " ended at its start; see " + logs.Name())
		}
		return askReady(ctx, "http://"+health+"/readyz")
	}).WithTimeout(time.Minute).Should(Succeed())
}

func isClosed(ended chan struct{}) bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

func askReady(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}
