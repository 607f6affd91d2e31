package e2e

import (
	"context"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

// Distances of the observer's readings: a one-shot sandbox lives for a tenth of
// a second.
const (
	sandboxPoll = 40 * time.Millisecond
	processPoll = 400 * time.Millisecond
)

// observer collects, while the suite runs, what must not show anywhere and what
// must be gone at its end.
type observer struct {
	mutex sync.Mutex
	// secrets are ids of sandboxes and of kept runtimes.
	secrets map[string]bool
	// processes are the descendants of this process, daemons the process ids that
	// the daemon had.
	processes map[process]string
	daemons   map[int]bool
}

// startObserver watches until the end of the suite.
func startObserver(ctx context.Context) *observer {
	GinkgoHelper()
	o := &observer{secrets: map[string]bool{}, processes: map[process]string{}, daemons: map[int]bool{}}
	client := connectBus(ctx, running.BusURL, "e2e-observer")
	watchCtx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() {
		every(watchCtx, sandboxPoll, func() {
			rows, err := listSandboxes(watchCtx, client)
			if err != nil {
				return // the daemon is gone for the moment
			}
			for _, row := range rows {
				o.addSecret(row.ID)
			}
		})
	})
	watching.Go(func() { every(watchCtx, processPoll, o.readProcesses) })
	DeferCleanup(func() {
		cancel()
		watching.Wait()
	})
	return o
}

func every(ctx context.Context, interval time.Duration, act func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		act()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (o *observer) addSecret(secret string) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.secrets[secret] = true
}

func (o *observer) readProcesses() {
	descendants := descendantsOf(os.Getpid())
	daemon := running.PID(stack.Daemon)
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for p, name := range descendants {
		o.processes[p] = name
	}
	if daemon != 0 {
		o.daemons[daemon] = true
	}
}

// runtimeID matches the capability of a kept runtime.
var runtimeID = regexp.MustCompile(`rt-[0-9a-f]{8}-[0-9a-f]{4}`)

// expectNoSecret does not show the text, which would spread the secret.
func (o *observer) expectNoSecret(where, text string) {
	GinkgoHelper()
	Expect(runtimeID.MatchString(text)).To(BeFalse(), "%s shows the id of a kept runtime", where)
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for secret := range o.secrets {
		Expect(strings.Contains(text, secret)).To(BeFalse(), "%s shows a sandbox id or runtime id", where)
	}
}

// expectNoSecretIn reads logs. There must have been secrets to hide.
func (o *observer) expectNoSecretIn(paths ...string) {
	GinkgoHelper()
	o.mutex.Lock()
	Expect(o.secrets).NotTo(BeEmpty(), "the observer saw no sandbox")
	o.mutex.Unlock()
	for _, path := range paths {
		text, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		o.expectNoSecret(path, string(text))
	}
}

// expectNoSecretInObjects reads every object that the operator may write, as
// kubectl would show it, but its own Secret.
func (o *observer) expectNoSecretInObjects(ctx context.Context) {
	GinkgoHelper()
	for _, list := range append(sandboxLists(), &corev1.ConfigMapList{}, &eventsv1.EventList{}) {
		Expect(kube.List(ctx, list, client.InNamespace(""))).To(Succeed())
		o.expectNoSecret("an object", manifestOfList(list))
	}
}
