package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

const (
	startPatience = 3 * time.Minute
	stopPatience  = 2 * time.Minute
	// specPatience bounds one spec; most take a few seconds.
	specPatience = NodeTimeout(2 * time.Minute)
	// settlePatience bounds what goes on after a command or call returned.
	settlePatience = 30 * time.Second
	settlePoll     = 50 * time.Millisecond
)

// What the specs share; set by BeforeSuite.
var (
	running *stack.Stack
	kube    client.Client
	caller  *bus.Client
	// builtIns are the ids on the bus while nobody has published anything.
	builtIns []string
	observed *observer
	host     hostState
	packages *packageIndex
)

func TestEndToEnd(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(settlePatience)
	SetDefaultEventuallyPollingInterval(settlePoll)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "the whole stack")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	goroutines := gleak.Goroutines()
	DeferCleanup(func() {
		Eventually(gleak.Goroutines).ShouldNot(gleak.HaveLeaked(goroutines), "goroutines of the suite")
	})
	host = readHost()
	DeferCleanup(func() { host.expectUnchanged(observed) })
	packages = startPackageIndex()
	publishPackages(packages)
	startStack(ctx)
	kube = connectKube()
	caller = connectBus(ctx, running.BusURL, "e2e")
	observed = startObserver(ctx)
	Eventually(ctx, functionsOnBus).Should(ContainElements("sandbox::create", "sandbox-code-runner::run"))
	// The operator registers its functions one by one.
	Eventually(func() bool {
		before := builtIns
		builtIns = functionsOnBus(ctx)
		return slices.Equal(before, builtIns)
	}).WithPolling(time.Second).Should(BeTrue(), "the functions on the bus settle")
}, NodeTimeout(startPatience))

var _ = BeforeEach(func() {
	// Cleanups run in reverse, so this one comes after those of the spec.
	DeferCleanup(expectNothingLeft, specPatience)
	DeferCleanup(expectAllParts)
})

var _ = AfterEach(func(ctx SpecContext) { observed.expectNoSecretInObjects(ctx) }, specPatience)

// startStack gives the parts a folder for temporary files of their own, so that
// a forgotten one is found.
func startStack(ctx context.Context) {
	GinkgoHelper()
	dir, err := os.MkdirTemp("", "sandbox-operator-e2e-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(os.RemoveAll(dir)).To(Succeed()) })
	// After the end of the parts, so that their last words count too.
	DeferCleanup(func() {
		expectNoPanic(running.LogPath(stack.Operator), running.LogPath(stack.Daemon))
		expectNothingDenied()
		observed.expectNoSecretIn(running.LogPath(stack.Operator), running.LogPath(stack.Daemon), running.LogPath(stack.Engine))
	})
	temporary := filepath.Join(dir, "tmp")
	Expect(os.Mkdir(temporary, 0o700)).To(Succeed())
	GinkgoT().Setenv("TMPDIR", temporary)
	logs, err := filepath.Abs(filepath.Join(root, "out", "e2e-logs"))
	Expect(err).NotTo(HaveOccurred())
	running, err = stack.Start(ctx, stack.Options{
		Dir: dir, LogDir: logs, Audit: true, GuestHostPorts: []int{packages.port()},
		Progress: func(step stack.Step) {
			GinkgoWriter.Printf("%-28s %s\n", step.Name, step.Took.Round(time.Millisecond))
		},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
		defer cancel()
		Expect(running.Stop(ctx)).To(Succeed())
		Expect(os.ReadDir(temporary)).To(BeEmpty(), "temporary files of the parts")
	})
}

func connectKube() client.Client {
	GinkgoHelper()
	config, err := clientcmd.BuildConfigFromFlags("", running.Kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, eventsv1.AddToScheme} {
		Expect(add(scheme)).To(Succeed())
	}
	config.QPS = -1 // the specs poll
	connections, err := rest.HTTPClientFor(config)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(connections.CloseIdleConnections)
	connected, err := client.New(config, client.Options{Scheme: scheme, HTTPClient: connections})
	Expect(err).NotTo(HaveOccurred())
	return connected
}

// expectAllParts fails the spec under which a part ended by itself.
func expectAllParts() {
	GinkgoHelper()
	Expect(running.Failed()).NotTo(Receive())
}

// expectNothingLeft is the state of the world between two specs.
func expectNothingLeft(ctx SpecContext) {
	GinkgoHelper()
	// The run of a shim that was killed goes by its ttl of 60 s.
	Eventually(ctx, objectsEverywhere).WithTimeout(3*settlePatience).Should(BeEmpty(), "objects")
	Eventually(ctx, functionsOnBus).Should(Equal(builtIns), "functions on the bus")
	Eventually(ctx, countSandboxes).Should(BeZero(), "sandboxes")
}

// expectNoPanic reads logs: the operator goes on after a reconciliation that
// panicked, and so would this suite.
func expectNoPanic(paths ...string) {
	GinkgoHelper()
	for _, path := range paths {
		text, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(text)).NotTo(MatchRegexp(`(?m)^(panic:|fatal error:)|Observed a panic|DATA RACE`))
	}
}

func sorted(ids []string) []string {
	slices.Sort(ids)
	return ids
}
