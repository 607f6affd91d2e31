package main

import (
	"context"
	"strings"
	"syscall"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
	"github.com/sandbox-operator/sandbox-operator/hack/chaos/apiproxy"
	"github.com/sandbox-operator/sandbox-operator/hack/chaos/link"
	"github.com/sandbox-operator/sandbox-operator/hack/chaos/plan"
	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

// happen makes a fault happen and returns when it is over, or the context ends.
// Either way nothing of it is left.
func (w *world) happen(ctx context.Context, f plan.Fault) {
	chance := apiproxy.Chance(f.Seed)
	switch f.Kind {
	case plan.KillOperator, plan.KillEngine, plan.KillDaemon, plan.KillAPIServer, plan.KillEtcd:
		w.kill(ctx, f, w.victim(f.Kind, chance))
	case plan.PauseLeader:
		leader, _ := w.leader()
		w.pause(ctx, f, leader) // it ends itself when it finds its lease lost
	case plan.PauseDaemon:
		w.pause(ctx, f, stack.Daemon)
	case plan.BusCut, plan.BusTear, plan.BusDelay, plan.BusHole:
		w.disturbBus(ctx, f, chance)
	case plan.ProviderFail, plan.ProviderDelay, plan.ProviderLose, plan.ProviderCut:
		w.disturbProvider(ctx, f, chance)
	case plan.StealSandbox:
		w.steal(ctx, chance)
	case plan.FillDaemon:
		w.fill(ctx, f)
	case plan.APIConflict, plan.APIFail, plan.APIDelay, plan.APICut:
		w.api.SetFault(apiFault(f.Kind, chance))
		wait(ctx, f.For)
		w.api.SetFault(nil)
	case plan.WatchCut:
		w.api.CutWatches()
		wait(ctx, f.For)
		w.api.CutWatches()
	}
}

// leaderShare is how often the replica that dies is the leader.
const leaderShare = 0.7

func (w *world) victim(kind plan.Kind, chance func() float64) stack.Part {
	leader, other := w.leader()
	if chance() > leaderShare {
		leader = other
	}
	return map[plan.Kind]stack.Part{
		plan.KillOperator: leader, plan.KillEngine: stack.Engine, plan.KillDaemon: stack.Daemon,
		plan.KillAPIServer: stack.APIServer, plan.KillEtcd: stack.Etcd,
	}[kind]
}

func (w *world) kill(ctx context.Context, f plan.Fault, part stack.Part) {
	w.keeper.kill(ctx, part)
	defer w.keeper.release(part)
	wait(ctx, f.For)
}

// pause stops a part, for which no time passes meanwhile: when it goes on, all its
// timers are due and its clock has leapt ahead.
func (w *world) pause(ctx context.Context, f plan.Fault, part stack.Part) {
	pid := w.stack.PID(part)
	if pid == 0 || syscall.Kill(pid, syscall.SIGSTOP) != nil {
		return
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
	wait(ctx, f.For)
}

// Sizes of faults.
const (
	longestFrameDelay  = 400 * time.Millisecond
	longestAnswerDelay = 4 * time.Second
	longestAPIDelay    = 2 * time.Second
	failShare          = 0.4
	loseShare          = 0.4
	conflictShare      = 0.5
	apiFailShare       = 0.4
	apiCutShare        = 0.4
)

func (w *world) disturbBus(ctx context.Context, f plan.Fault, chance func() float64) {
	var ends []func()
	for _, l := range w.operatorLinks {
		begin, end := busFault(f.Kind, l, chance)
		begin()
		ends = append(ends, end)
	}
	wait(ctx, f.For)
	for _, end := range ends {
		end()
	}
}

func busFault(kind plan.Kind, l *link.Link, chance func() float64) (begin, end func()) {
	switch kind {
	case plan.BusCut:
		return func() { l.Refuse(true); l.Cut() }, func() { l.Refuse(false) }
	case plan.BusTear:
		return l.Tear, l.Tear
	case plan.BusHole:
		return func() { l.SetHole(true) }, func() { l.SetHole(false) }
	default:
		latency := func() time.Duration { return time.Duration(chance() * float64(longestFrameDelay)) }
		return func() { l.SetLatency(latency) }, func() { l.SetLatency(nil) }
	}
}

func (w *world) disturbProvider(ctx context.Context, f plan.Fault, chance func() float64) {
	if f.Kind == plan.ProviderCut {
		w.daemonLink.Refuse(true)
		defer w.daemonLink.Refuse(false)
		w.daemonLink.Cut()
		wait(ctx, f.For)
		return
	}
	remove := w.daemonLink.Add(providerRule(f.Kind, chance))
	wait(ctx, f.For)
	remove()
	if f.Kind == plan.ProviderLose {
		// Else a lost answer to a create would be waited for during 300 s, as it must
		// be: an image may be pulled.
		w.daemonLink.Cut()
	}
}

func providerRule(kind plan.Kind, chance func() float64) *link.Rule {
	share := func(part float64) func(string) bool {
		return func(function string) bool {
			return strings.HasPrefix(function, "sandbox::") && chance() < part
		}
	}
	switch kind {
	case plan.ProviderFail:
		return &link.Rule{Hits: share(failShare), Fault: func(function string) *protocol.ErrorBody { return providerFault(function, chance) }}
	case plan.ProviderLose:
		return &link.Rule{Hits: share(loseShare), Lose: true}
	default:
		return &link.Rule{Hits: share(1), Delay: func() time.Duration { return time.Duration(chance() * float64(longestAnswerDelay)) }}
	}
}

// providerFault is one of those that the daemon gives for a function although the
// request was right (contracts/iii-sandbox.md §2.2).
func providerFault(function string, chance func() float64) *protocol.ErrorBody {
	codes := []string{"S300"}
	switch {
	case function == "sandbox::create":
		codes = []string{"S102", "S300", "S400"}
	case function == "sandbox::exec":
		codes = []string{"S003", "S300"}
	case strings.HasPrefix(function, "sandbox::fs::"):
		codes = []string{"S218", "S300"}
	}
	return link.DaemonFault(codes[int(chance()*float64(len(codes)))], "injected by the storm")
}

func apiFault(kind plan.Kind, chance func() float64) apiproxy.Fault {
	switch kind {
	case plan.APIConflict:
		return apiproxy.Conflicts(chance, conflictShare)
	case plan.APIFail:
		return apiproxy.Failures(chance, apiFailShare)
	case plan.APICut:
		return apiproxy.Cuts(chance, apiCutShare)
	default:
		return apiproxy.Delays(chance, longestAPIDelay)
	}
}
