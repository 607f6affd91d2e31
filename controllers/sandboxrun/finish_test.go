package sandboxrun

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fleet"
)

func TestFinish_deliversOnceAndToBusCallersOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		origin    string
		delivered bool
		want      int
	}{
		"a bus run that failed before its attempt": {origin: sandboxv1alpha1.OriginBus, want: 1},
		"a bus run whose caller has the result":    {origin: sandboxv1alpha1.OriginBus, delivered: true},
		"a run that nobody waits for":              {},
	} {
		t.Run(name, func(t *testing.T) {
			clk := testingclock.NewFakeClock(time.Now())
			results := NewResults(clk)
			r := New(Options{Clock: clk, Results: results})
			run := &sandboxv1alpha1.SandboxRun{ObjectMeta: metav1.ObjectMeta{
				UID: "run", Labels: map[string]string{sandboxv1alpha1.OriginLabel: tc.origin},
			}}
			done, err := r.finish(&scope{obj: run}, result{run: &wire.Run{Stdout: "out"}, delivered: tc.delivered})
			if !done || err != nil {
				t.Fatalf("got %t, %v", done, err)
			}
			if got := len(results.outcomes); got != tc.want {
				t.Errorf("%d results are kept, want %d", got, tc.want)
			}
			if shown := run.Status.Stdout != ""; shown == (tc.origin != "") {
				t.Errorf("status shows %q", run.Status.Stdout)
			}
		})
	}
}

// away is a Fleet whose daemon is absent.
type away struct{}

func (away) Snapshot() fleet.Snapshot { return fleet.Snapshot{} }
func (away) Poke()                    {}

func TestPrepare_withoutDaemon(t *testing.T) {
	for name, tc := range map[string]struct {
		origin string
		want   sandboxv1alpha1.RunPhase
	}{
		"a bus caller is told after a while": {sandboxv1alpha1.OriginBus, sandboxv1alpha1.RunFailed},
		"any other run goes on waiting":      {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			clk := testingclock.NewFakeClock(time.Now())
			r := New(Options{Clock: clk, Results: NewResults(clk), Fleet: away{}})
			run := &sandboxv1alpha1.SandboxRun{ObjectMeta: metav1.ObjectMeta{
				UID: "run", Labels: map[string]string{sandboxv1alpha1.OriginLabel: tc.origin},
			}}
			sc := r.newScope(run)
			r.seen.replace(sc.key, run.UID, clk.Now())
			if _, err := r.prepare(t.Context(), sc); err != nil || run.IsFinished() || sc.requeue == 0 {
				t.Fatalf("at first: %v, phase %q, next look in %s", err, run.Status.Phase, sc.requeue)
			}
			clk.Step(daemonGrace)
			if _, err := r.prepare(t.Context(), sc); err != nil || run.Status.Phase != tc.want {
				t.Errorf("later: %v, phase %q, want %q", err, run.Status.Phase, tc.want)
			}
		})
	}
}
