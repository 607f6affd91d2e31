package stack

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// operatorGrace covers the drain of calls in flight; it is the
// terminationGracePeriodSeconds of config/manager.
const operatorGrace = 60 * time.Second

// SetOperatorFlags gives operators that are started from now on further flags,
// which win over those of the stack; without any it takes them back.
func (s *Stack) SetOperatorFlags(flags ...string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.operatorFlags = flags
}

func (s *Stack) startOperator(ctx context.Context) (stopper, string, error) {
	p, ports, err := s.startManager(ctx, Operator)
	if err != nil {
		return nil, "", err
	}
	s.MetricsURL, s.ProbeURL = loopback("http", ports[0])+"/metrics", loopback("http", ports[1])
	return p, "log " + filepath.Base(p.logPath), nil
}

func (s *Stack) startStandby(ctx context.Context) (stopper, string, error) {
	p, _, err := s.startManager(ctx, Standby)
	if err != nil {
		return nil, "", err
	}
	return p, "log " + filepath.Base(p.logPath), nil
}

// startManager starts the manager as a cluster would: with the rights of its
// service account only, and without being told that bus and daemon are there.
// The ports are those of metrics and probes. The mutex is held.
func (s *Stack) startManager(ctx context.Context, part Part) (*process, []int, error) {
	return s.launchOnFreePorts(ctx, 2, func(ports []int) program {
		metrics, probes := fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1])
		args := []string{
			"--kubeconfig=" + s.OperatorKubeconfig, "--bus-url=" + s.BusURL, "--guest-bus-url=" + s.GuestBusURL,
			"--runs-namespace=" + s.options.RunsNamespace, "--leader-elect=false",
			"--metrics-bind-address=" + metrics, "--health-probe-bind-address=" + probes,
		}
		return program{
			name: string(part), path: s.options.OperatorProgram,
			args: slices.Concat(args, s.options.OperatorFlags, s.operatorFlags),
			// What the downward API tells it in a cluster.
			env:      []string{"POD_NAMESPACE=" + s.account.namespace},
			ready:    httpReady("http://" + probes + "/readyz"),
			patience: startPatience, grace: operatorGrace, onOurDeath: syscall.SIGKILL,
		}
	})
}
