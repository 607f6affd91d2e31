package stack

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"time"
)

// operatorGrace covers the drain of calls in flight.
const operatorGrace = 45 * time.Second

// startOperator starts the manager as a cluster would: with the rights of its
// service account only, and without being told that bus and daemon are there.
func (s *Stack) startOperator(ctx context.Context) (stopper, string, error) {
	p, ports, err := s.launchOnFreePorts(ctx, 2, func(ports []int) program {
		metrics, probes := fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1])
		args := []string{
			"--kubeconfig=" + s.OperatorKubeconfig, "--bus-url=" + s.BusURL, "--guest-bus-url=" + s.GuestBusURL,
			"--runs-namespace=" + s.options.RunsNamespace, "--leader-elect=false",
			"--metrics-bind-address=" + metrics, "--health-probe-bind-address=" + probes,
		}
		return program{
			name: string(Operator), path: s.options.OperatorProgram,
			args: append(args, s.options.OperatorFlags...),
			// What the downward API tells it in a cluster.
			env:      []string{"POD_NAMESPACE=" + s.account.namespace},
			ready:    httpReady("http://" + probes + "/readyz"),
			patience: startPatience, grace: operatorGrace, onOurDeath: syscall.SIGKILL,
		}
	})
	if err != nil {
		return nil, "", err
	}
	s.MetricsURL, s.ProbeURL = loopback("http", ports[0])+"/metrics", loopback("http", ports[1])
	return p, "log " + filepath.Base(p.logPath), nil
}
