package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// stopGrace is how long the controller manager may take to end before it is
// killed; it needs about ten milliseconds.
const stopGrace = 10 * time.Second

// controllerManager is a running kube-controller-manager.
type controllerManager struct {
	command *exec.Cmd
	output  *bytes.Buffer
	done    chan struct{}
}

// startControllerManager runs the two controllers that tests need. It has no
// port and no readiness to wait for: a caller that depends on it polls for what
// it should do.
func startControllerManager(path, kubeconfig string) (*controllerManager, error) {
	m := &controllerManager{
		// It outlives the step of the suite that starts it; stop ends it.
		command: exec.CommandContext(context.Background(), path,
			"--kubeconfig="+kubeconfig,
			"--leader-elect=false",
			"--secure-port=0",
			"--controllers=garbage-collector-controller,namespace-controller"),
		output: &bytes.Buffer{},
		done:   make(chan struct{}),
	}
	m.command.Stdout = m.output
	m.command.Stderr = m.output
	// A killed test binary must not leave it behind.
	m.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := m.command.Start(); err != nil {
		return nil, fmt.Errorf("starting kube-controller-manager: %w", err)
	}
	go func() {
		defer close(m.done)
		// It ends by a signal; that it ended too early is told by stop.
		_ = m.command.Wait()
	}()
	return m, nil
}

// stop ends the process and waits for it. One that ended by itself before is an
// error, since what the suite saw was not what it asked for.
func (m *controllerManager) stop() error {
	select {
	case <-m.done:
		return fmt.Errorf("kube-controller-manager ended early (%s):\n%s",
			m.command.ProcessState, lastBytes(m.output.Bytes(), 4096))
	default:
	}
	if err := m.command.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping kube-controller-manager: %w", err)
	}
	select {
	case <-m.done:
		return nil
	case <-time.After(stopGrace):
	}
	err := m.command.Process.Kill()
	<-m.done
	return errors.Join(errors.New("kube-controller-manager did not end and was killed"), err)
}

func lastBytes(b []byte, n int) []byte {
	return b[max(0, len(b)-n):]
}
