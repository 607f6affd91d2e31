package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/sandbox-operator/sandbox-operator/bus/shim"
	"github.com/sandbox-operator/sandbox-operator/controllers"
)

const (
	defaultBusURL = "ws://localhost:49134"
	// maxCallTimeout keeps a call below the daemon's own limit of 300 s
	// (contracts/iii-sandbox.md §8).
	maxCallTimeout = 290 * time.Second
)

// options are what the flags say.
type options struct {
	controllers.Options
	leaderElect    bool
	metricsAddress string
	probeAddress   string
}

func parseFlags(args []string, getenv func(string) string, out io.Writer) (options, *zap.Options, error) {
	var o options
	var watch string
	logging := &zap.Options{}
	flags := flag.NewFlagSet("sandbox-operator", flag.ContinueOnError)
	flags.SetOutput(out)
	config.RegisterFlags(flags)
	logging.BindFlags(flags)
	flags.StringVar(&o.BusURL, "bus-url", or(getenv("III_URL"), defaultBusURL), "URL of the iii engine; the environment variable III_URL sets the default.")
	flags.StringVar(&o.GuestBusURL, "guest-bus-url", "", "URL of the engine's listener for guests with busAccess; defaults to --bus-url. A loopback host is reached through the guest's gateway.")
	flags.BoolVar(&o.RequireBusIsolation, "require-bus-isolation", false, "Refuse bus access to guests unless the listener of --guest-bus-url has been seen to keep them apart.")
	flags.StringVar(&o.WorkerName, "worker-name", shim.DefaultWorkerName, "Name of this worker on the bus, and the prefix of its function ids.")
	flags.StringVar(&o.RunsNamespace, "runs-namespace", "sandbox-runs", "Kubernetes namespace of the objects that bus callers make.")
	flags.StringVar(&o.OperatorNamespace, "operator-namespace", or(getenv("POD_NAMESPACE"), "sandbox-operator-system"), "Kubernetes namespace of the operator's own objects; the environment variable POD_NAMESPACE sets the default.")
	flags.StringVar(&watch, "watch-namespaces", "", "Comma-separated namespaces to watch, --runs-namespace included by itself; empty watches all.")
	flags.DurationVar(&o.DefaultTimeout, "default-timeout", 5*time.Second, "Limit of a call or run that names none.")
	flags.DurationVar(&o.MaxTimeout, "max-timeout", 30*time.Second, "Largest limit that a bus caller of run can ask for.")
	flags.DurationVar(&o.IdleTimeout, "idle-timeout", 900*time.Second, "Idle time of runtimes that name none.")
	flags.BoolVar(&o.WarmGuests, "warm-guests", true, "Keep processes ready in sandboxes for the next calls of their functions; without it every call starts an interpreter.")
	flags.BoolVar(&o.CallLinks, "call-links", true, "Keep a connection to sandboxes with busAccess whose functions are called often, over which calls go without an exec each. Needs --warm-guests.")
	flags.BoolVar(&o.InjectGuidance, "inject-guidance", true, "Tell agents on the bus, in their system prompt, how to use the functions of this worker.")
	flags.BoolVar(&o.OpenCapabilities, "open-capabilities", false, "Show runtime and sandbox ids in list_runtimes and events to everybody on the bus, as the original worker does. Whoever sees one can enter or destroy what it names.")
	flags.BoolVar(&o.AllowForceTeardown, "allow-force-teardown", false, "Let bus callers remove SandboxFunctions that kubectl made, by teardown with force.")
	flags.BoolVar(&o.AllowSharedPrefixes, "allow-shared-prefixes", false, "Let functions of several Kubernetes namespaces have one id prefix.")
	flags.BoolVar(&o.leaderElect, "leader-elect", false, "Elect one leader among several replicas.")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", "0", "Address of the metrics endpoint; 0 turns it off.")
	flags.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "Address of the health probes; 0 turns them off.")
	if err := flags.Parse(args); err != nil {
		return o, nil, err
	}
	if flags.NArg() > 0 {
		return o, nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	o.GuestBusURL = or(o.GuestBusURL, o.BusURL)
	if names := namespaces(watch); len(names) > 0 {
		o.WatchNamespaces = slices.Concat(names, []string{o.RunsNamespace})
	}
	return o, logging, o.validate()
}

// namespaces splits a list; spaces around its names and empty names do not count.
func namespaces(list string) []string {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func (o options) validate() error {
	var problems []error
	bounded := func(name string, d, low, high time.Duration) {
		if d < low || d > high {
			problems = append(problems, fmt.Errorf("--%s is %s; it must be between %s and %s", name, d, low, high))
		}
	}
	bounded("default-timeout", o.DefaultTimeout, time.Millisecond, maxCallTimeout)
	bounded("max-timeout", o.MaxTimeout, time.Millisecond, maxCallTimeout)
	bounded("idle-timeout", o.IdleTimeout, 30*time.Second, 7*24*time.Hour)
	if o.WorkerName == "" || strings.Contains(o.WorkerName, "::") {
		problems = append(problems, fmt.Errorf(`--worker-name is %q; it must not be empty or contain "::"`, o.WorkerName))
	}
	if o.RunsNamespace == "" {
		problems = append(problems, errors.New("--runs-namespace must not be empty"))
	}
	return errors.Join(problems...)
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}
