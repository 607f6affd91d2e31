package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

// leaderPatience bounds a spec that waits for leases to run out.
const leaderPatience = NodeTimeout(4 * time.Minute)

// takeOverPatience bounds the time until another replica answers: the 15 s of a
// lease, and much for a busy machine.
const takeOverPatience = time.Minute

// startReplicas has two operators compete for the lease until the end of the
// spec. stack.Operator is the leader.
func startReplicas(ctx context.Context, flags ...string) {
	GinkgoHelper()
	replaceOperator(ctx, append(flags, "--leader-elect")...)
	restart(ctx, stack.Standby)
}

// replaceOperator has the operator run with further flags until the end of the
// spec, and waits until it is on the bus.
func replaceOperator(ctx context.Context, flags ...string) {
	GinkgoHelper()
	stopOperators(ctx)
	DeferCleanup(func(ctx SpecContext) {
		stopOperators(ctx)
		running.SetOperatorFlags()
		restart(ctx, stack.Operator)
	}, NodeTimeout(startPatience))
	running.SetOperatorFlags(flags...)
	restart(ctx, stack.Operator)
	Eventually(ctx, functionsOnBus).Should(ContainElement(runFunction))
}

func stopOperators(ctx context.Context) {
	GinkgoHelper()
	for _, part := range []stack.Part{stack.Standby, stack.Operator} {
		if pid := running.PID(part); pid != 0 {
			Expect(syscall.Kill(pid, syscall.SIGCONT)).To(Succeed(), "the spec may have paused it")
			Expect(running.StopPart(ctx, part)).To(Succeed())
		}
	}
}

// leaseHolder is the replica that leads, as the lease says it.
func leaseHolder(ctx context.Context) string {
	GinkgoHelper()
	return kubectl(ctx, "get", "lease", "-n", "sandbox-operator-system", "sandbox-operator.sandbox.iii.dev",
		"-o", "jsonpath={.spec.holderIdentity}")
}

// outcome is what became of one call, named by a token.
type outcome struct {
	token        string
	began, ended time.Time
	err          error
}

// traffic is calls and runs without a pause. Each leaves its token in a file of
// one runtime when it is executed.
type traffic struct {
	namespace string
	halt      context.CancelFunc
	workers   sync.WaitGroup

	mutex    sync.Mutex
	outcomes []outcome
	// lastSuccess is the beginning of the last call that was answered.
	lastSuccess atomic.Pointer[time.Time]
}

const (
	callers    = 3
	callPause  = 100 * time.Millisecond
	runPause   = 700 * time.Millisecond
	countCalls = "import { appendFileSync } from 'node:fs';\n" +
		"export function handler(payload) { appendFileSync('/workspace/calls', payload + '\\n'); return payload; }\n"
	countRun = "import { appendFileSync } from 'node:fs'; appendFileSync('/workspace/runs', process.argv.at(-1) + '\\n');\n"
)

// newTrafficTarget makes the runtime and the function that traffic uses.
func newTrafficTarget(ctx context.Context, namespace string) *v1alpha1.SandboxFunction {
	GinkgoHelper()
	apply(ctx, newRuntime(namespace, "log", v1alpha1.LanguageNode))
	f := newFunction(namespace, "counted", "", countCalls)
	f.Spec.RuntimeRef = &v1alpha1.LocalReference{Name: "log"}
	apply(ctx, f)
	waitFor(ctx, f, "Ready", "sbf")
	// The first run makes the folder of the files.
	first := countedRun(namespace, "first", "")
	apply(ctx, first)
	waitFor(ctx, first, "Complete", "sbn")
	return f
}

// countedRun appends its name when it is executed, and then goes on as told.
func countedRun(namespace, name, then string) *v1alpha1.SandboxRun {
	run := inRuntime(newRun(namespace, name, v1alpha1.LanguageNode, countRun+then), "log")
	run.Spec.Args = []string{name}
	return run
}

// startTraffic begins; the spec or its end halts it.
func startTraffic(ctx context.Context, f *v1alpha1.SandboxFunction) *traffic {
	GinkgoHelper()
	trafficCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t := &traffic{namespace: f.Namespace, halt: cancel}
	for n := range callers {
		t.workers.Go(func() { t.call(trafficCtx, f.Spec.FunctionID, n) })
	}
	t.workers.Go(func() { t.makeRuns(trafficCtx) })
	DeferCleanup(t.stop)
	return t
}

func (t *traffic) stop() {
	t.halt()
	t.workers.Wait()
}

func (t *traffic) call(ctx context.Context, function string, caller int) {
	defer GinkgoRecover()
	for n := 0; ctx.Err() == nil; n++ {
		o := outcome{token: fmt.Sprintf("%d.%d", caller, n), began: time.Now()}
		// A call that has begun is waited for.
		_, o.err = tryCall(context.WithoutCancel(ctx), function, o.token)
		o.ended = time.Now()
		t.mutex.Lock()
		t.outcomes = append(t.outcomes, o)
		t.mutex.Unlock()
		if o.err == nil {
			t.lastSuccess.Store(&o.began)
		}
		pause(ctx, callPause)
	}
}

func (t *traffic) makeRuns(ctx context.Context) {
	defer GinkgoRecover()
	for n := 0; ctx.Err() == nil; n++ {
		Expect(kube.Create(context.WithoutCancel(ctx), countedRun(t.namespace, fmt.Sprintf("run-%d", n), ""))).To(Succeed())
		pause(ctx, runPause)
	}
}

// pause waits, but not beyond the end of the context.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// awaitAnswer waits for the answer to a call that began after a moment, and
// returns how long after that it began.
func (t *traffic) awaitAnswer(ctx context.Context, moment time.Time) time.Duration {
	GinkgoHelper()
	Eventually(ctx, func() bool {
		last := t.lastSuccess.Load()
		return last != nil && last.After(moment)
	}).WithTimeout(takeOverPatience).Should(BeTrue(), "no call is answered any more")
	return t.lastSuccess.Load().Sub(moment)
}

// failures are the calls that were not answered.
func (t *traffic) failures() []outcome {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return slices.DeleteFunc(slices.Clone(t.outcomes), func(o outcome) bool { return o.err == nil })
}

// expectOnce checks, after the end of the traffic, that no call hung, none was
// executed twice, and each that was answered was executed.
func (t *traffic) expectOnce(ctx context.Context) {
	GinkgoHelper()
	executed := countLines(ctx, t.namespace, "calls")
	answered := 0
	for _, o := range t.outcomes {
		Expect(errors.Is(o.err, context.DeadlineExceeded)).To(BeFalse(), "call %s hung for %s", o.token, o.ended.Sub(o.began))
		Expect(executed[o.token]).To(BeNumerically("<=", 1), "executions of call %s", o.token)
		if o.err == nil {
			answered++
			Expect(executed[o.token]).To(Equal(1), "executions of call %s, which was answered", o.token)
		}
	}
	Expect(answered).NotTo(BeZero())
	t.expectRunsOnce(ctx)
}

// expectRunsOnce checks that every run ends, as Completed after one execution or
// as Interrupted after one at most.
func (t *traffic) expectRunsOnce(ctx context.Context) {
	GinkgoHelper()
	runs := &v1alpha1.SandboxRunList{}
	Eventually(ctx, func() ([]string, error) {
		err := kube.List(ctx, runs, client.InNamespace(t.namespace))
		return unfinished(runs), err
	}).WithTimeout(time.Minute).Should(BeEmpty(), "runs that do not end")
	executed := countLines(ctx, t.namespace, "runs")
	completed := 0
	for _, run := range runs.Items {
		switch reason := endOf(&run); reason {
		case v1alpha1.SandboxRunCompletedReason:
			completed++
			Expect(executed[run.Name]).To(Equal(1), "executions of %s", run.Name)
		default:
			Expect(reason).To(Equal(v1alpha1.SandboxRunInterruptedReason), run.Name)
			Expect(executed[run.Name]).To(BeNumerically("<=", 1), "executions of %s", run.Name)
		}
	}
	Expect(completed).NotTo(BeZero())
}

func unfinished(runs *v1alpha1.SandboxRunList) []string {
	names := []string{}
	for i := range runs.Items {
		if !runs.Items[i].IsFinished() {
			names = append(names, runs.Items[i].Name)
		}
	}
	return names
}

// endOf is the reason with which a run ended.
func endOf(run *v1alpha1.SandboxRun) string {
	for _, c := range run.Status.Conditions {
		if c.Type == v1alpha1.ReadyCondition {
			return c.Reason
		}
	}
	return ""
}

// countLines counts the lines of a file in the runtime of the traffic.
func countLines(ctx context.Context, namespace, file string) map[string]int {
	GinkgoHelper()
	run := inRuntime(newRun(namespace, "", v1alpha1.LanguageNode, "import { readFileSync } from 'node:fs'; process.stdout.write(readFileSync('"+file+"', 'utf8'));"), "log")
	run.GenerateName = "count-"
	run.Spec.TTLSecondsAfterFinished = ptr.To[int32](60)
	Expect(kube.Create(ctx, run)).To(Succeed())
	waitFor(ctx, run, "Complete", "sbn")
	Expect(run.Status.Truncated).To(BeFalse(), "there is more to count than a status shows")
	counts := map[string]int{}
	for line := range strings.Lines(run.Status.Stdout) {
		counts[strings.TrimSpace(line)]++
	}
	// It is not one of those that are counted.
	Expect(kube.Delete(ctx, run)).To(Succeed())
	return counts
}
