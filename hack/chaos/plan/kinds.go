package plan

import "time"

// Kind names what goes wrong.
type Kind string

// The kinds. Those that begin with kill end a program as a crash would and start it
// again at the end of the fault.
const (
	KillOperator  Kind = "kill-operator"
	KillEngine    Kind = "kill-engine"
	KillDaemon    Kind = "kill-daemon"
	KillAPIServer Kind = "kill-apiserver"
	KillEtcd      Kind = "kill-etcd"
	// PauseLeader stops the leader for longer than its lease, PauseDaemon the daemon
	// for longer than a reading of its list waits. To the program its clock leaps ahead.
	PauseLeader Kind = "pause-leader"
	PauseDaemon Kind = "pause-daemon"

	// BusCut drops the operator's connections and refuses new ones.
	BusCut Kind = "bus-cut"
	// BusTear drops each connection in the middle of a frame.
	BusTear Kind = "bus-tear"
	// BusDelay delays every frame, BusHole lets none through and keeps the
	// connections.
	BusDelay Kind = "bus-delay"
	BusHole  Kind = "bus-hole"

	// ProviderFail answers calls of sandbox::* with errors in the daemon's place,
	// ProviderDelay delays its answers, ProviderLose drops them and then the
	// daemon's connection. ProviderCut drops that without warning.
	ProviderFail  Kind = "provider-fail"
	ProviderDelay Kind = "provider-delay"
	ProviderLose  Kind = "provider-lose"
	ProviderCut   Kind = "provider-cut"
	// StealSandbox stops a sandbox behind the operator's back.
	StealSandbox Kind = "steal-sandbox"
	// FillDaemon takes all places of the daemon.
	FillDaemon Kind = "fill-daemon"

	// APIConflict answers writes with 409, APIFail requests with 429, 500 and 503.
	APIConflict Kind = "api-conflict"
	APIFail     Kind = "api-fail"
	APIDelay    Kind = "api-delay"
	// APICut drops connections, half of them after the request has had its effect;
	// WatchCut ends all watches.
	APICut   Kind = "api-cut"
	WatchCut Kind = "watch-cut"
)

// lane is what a fault acts on; two faults of one lane never overlap.
type lane string

// nature is what a plan has to know of a kind.
type nature struct {
	kind Kind
	lane lane
	// shortest and longest bound the duration.
	shortest, longest time.Duration
	// inFullOnly is of faults that take longer than a short storm.
	inFullOnly bool
}

var natures = []nature{
	{KillOperator, "operator", 1 * time.Second, 6 * time.Second, false},
	// The lease is 15 s.
	{PauseLeader, "operator", 17 * time.Second, 20 * time.Second, true},
	{KillEngine, "engine", 1 * time.Second, 6 * time.Second, false},
	{KillDaemon, "daemon", 1 * time.Second, 6 * time.Second, false},
	// A reading of the list waits for 10 s.
	{PauseDaemon, "daemon", 12 * time.Second, 18 * time.Second, true},
	{KillAPIServer, "control plane", 1 * time.Second, 5 * time.Second, false},
	{KillEtcd, "control plane", 1 * time.Second, 5 * time.Second, false},
	{BusCut, "bus", 1 * time.Second, 6 * time.Second, false},
	{BusTear, "bus", 1 * time.Second, 3 * time.Second, false},
	{BusDelay, "bus", 3 * time.Second, 10 * time.Second, false},
	{BusHole, "bus", 2 * time.Second, 8 * time.Second, false},
	{ProviderFail, "provider", 3 * time.Second, 10 * time.Second, false},
	{ProviderDelay, "provider", 3 * time.Second, 10 * time.Second, false},
	{ProviderLose, "provider", 2 * time.Second, 8 * time.Second, false},
	{ProviderCut, "provider", 1 * time.Second, 4 * time.Second, false},
	{StealSandbox, "theft", 1 * time.Second, 1 * time.Second, false},
	{FillDaemon, "capacity", 3 * time.Second, 10 * time.Second, false},
	{APIConflict, "api", 3 * time.Second, 10 * time.Second, false},
	{APIFail, "api", 3 * time.Second, 10 * time.Second, false},
	{APIDelay, "api", 3 * time.Second, 10 * time.Second, false},
	{APICut, "api", 3 * time.Second, 10 * time.Second, false},
	{WatchCut, "watch", 1 * time.Second, 3 * time.Second, false},
}

func natureOf(kind Kind) nature {
	for _, n := range natures {
		if n.kind == kind {
			return n
		}
	}
	panic("no kind " + string(kind)) // the constants and the table are in one file
}
