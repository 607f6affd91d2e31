package stack

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// daemonGrace is longer than that of the others: the daemon destroys up to
// maxSandboxes first.
const daemonGrace = 60 * time.Second

// lastFunction is the daemon's function that the bus hears of last, since a client
// registers by id.
const lastFunction = "sandbox::stop"

// maxSandboxes is the daemon's cap on sandboxes that run at once.
const maxSandboxes = 32

// startDaemon starts the sandbox daemon and waits until the bus knows its
// functions.
func (s *Stack) startDaemon(ctx context.Context) (stopper, string, error) {
	config, err := s.writeDaemonConfig()
	if err != nil {
		return nil, "", err
	}
	probeCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	known, err := busFunctionReady(probeCtx, s.BusURL, lastFunction)
	if err != nil {
		return nil, "", err
	}
	p, err := launch(ctx, s.nursery, s.options.LogDir, program{
		name: string(Daemon), path: s.options.DaemonProgram,
		args:  []string{"--engine=" + s.BusURL, "--config=" + config},
		ready: known, patience: startPatience, grace: daemonGrace,
		// Not SIGKILL: the daemon itself removes what it made on the host.
		onOurDeath: syscall.SIGTERM,
	})
	if err != nil {
		return nil, "", err
	}
	return p, "worker iii-sandbox", nil
}

// writeDaemonConfig lets guests with a network reach one port of the host, the
// guests' listener of the bus, and those of the options. image_mounts is ours, like
// guest_host_ports: the real python image has what it needs.
func (s *Stack) writeDaemonConfig() (string, error) {
	guestPort, err := portOf(s.GuestBusURL)
	if err != nil {
		return "", err
	}
	// The back end binds the real folder; the link may move while it runs.
	packages, err := filepath.EvalSymlinks(s.options.PythonSDK)
	if err != nil {
		return "", err
	}
	text, err := yaml.Marshal(map[string]any{
		"image_allowlist":          []string{"node", "python"},
		"max_concurrent_sandboxes": maxSandboxes,
		"guest_host_ports":         append([]int{guestPort}, s.options.GuestHostPorts...),
		"image_mounts": map[string]any{
			"python": []daemon.Mount{{Source: packages, Target: guest.PackagesDirectory}},
		},
	})
	if err != nil {
		return "", err
	}
	path := filepath.Join(s.stateDir(), "sandbox-daemon.yaml")
	return path, writeFile(path, text)
}

// busFunctionReady returns a check that a function is on the bus. Its worker
// connection ends with the context.
func busFunctionReady(ctx context.Context, address, functionID string) (func(context.Context) error, error) {
	client, err := bus.New(bus.Options{URL: address, Name: "stack-probe"})
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = client.Run(ctx) // a refusal shows as a check that never succeeds
	}()
	return func(ctx context.Context) error {
		select {
		case <-ended:
			return errors.New("the probe's connection to the bus ended")
		default:
		}
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		_, err := client.FunctionInfo(ctx, functionID, "")
		return err
	}, nil
}
