package e2e

import (
	"context"
	"log/slog"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

// startAnotherStack is for a page that uninstalls the operator, which would take
// the stack away from the other specs. It ends with the spec.
func startAnotherStack(ctx context.Context) *stack.Stack {
	GinkgoHelper()
	logs, err := filepath.Abs(filepath.Join(root, "out", "e2e-logs", "another"))
	Expect(err).NotTo(HaveOccurred())
	another, err := stack.Start(ctx, stack.Options{Dir: GinkgoT().TempDir(), LogDir: logs})
	Expect(err).NotTo(HaveOccurred())
	observed.mutex.Lock()
	observed.daemons[another.PID(stack.Daemon)] = true
	observed.mutex.Unlock()
	DeferCleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
		defer cancel()
		Expect(another.Failed()).NotTo(Receive())
		left, err := another.Kubectl(ctx, "get", "crd,clusterrole,namespace", "-o", "name").CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(left))
		Expect(string(left)).NotTo(MatchRegexp(`sandbox\.iii\.dev|sandbox-`), "what uninstalling leaves")
		Expect(another.Stop(ctx)).To(Succeed())
		expectNoPanic(another.LogPath(stack.Operator), another.LogPath(stack.Daemon))
	})
	return another
}

// startAnotherEngine returns the address of its worker port. It ends with the
// spec.
func startAnotherEngine(ctx context.Context) string {
	GinkgoHelper()
	const workers = "workers"
	another, err := engine.New(engine.Config{
		Listeners: []engine.Listener{{Name: workers, Address: "127.0.0.1:0"}},
		Logger:    slog.New(slog.NewTextHandler(GinkgoWriter, nil)),
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(another.Start(ctx)).To(Succeed())
	DeferCleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
		defer cancel()
		Expect(another.Close(ctx)).To(Succeed())
	})
	return another.URL(workers)
}
