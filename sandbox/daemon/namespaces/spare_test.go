package namespaces_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
)

// newSparing is a back end that keeps an agent ready.
func newSparing(t *testing.T) *namespaces.Backend {
	t.Helper()
	backend, err := namespaces.New(namespaces.Options{Spare: true})
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv(modeVariable) == modePlainRoot {
		namespaces.UsePlainRoot(backend)
	}
	return backend
}

// awaitSpare returns the number of the agent that waits.
func awaitSpare(t *testing.T, backend *namespaces.Backend) (pid int) {
	t.Helper()
	eventually(t, func() error {
		if pid = namespaces.SparePID(backend); pid == 0 {
			return fmt.Errorf("no spare")
		}
		return nil
	})
	return pid
}

func TestBackend_spare_becomes_the_next_guest(t *testing.T) {
	backend := newSparing(t)
	if pid := namespaces.SparePID(backend); pid != 0 {
		t.Errorf("before the first boot there is a spare %d", pid)
	}
	first := boot(t, backend)
	spare := awaitSpare(t, backend)
	second := boot(t, backend, func(s *daemon.BootSpec) { s.Env = map[string]string{"A": "1"} })
	if got := namespaces.AgentPID(second); got != spare {
		t.Errorf("the second guest's agent is %d, the spare was %d", got, spare)
	}
	if got := output(t, second, "echo $A; echo x > /mark"); got != "1\n" {
		t.Errorf("the second guest says %q", got)
	}
	if got := output(t, first, "echo $A; ls /mark 2>/dev/null || true"); got != "\n" {
		t.Errorf("the first guest says %q", got)
	}
	spare = awaitSpare(t, backend)
	third := boot(t, backend, func(s *daemon.BootSpec) { s.MemoryMiB = 96 })
	if namespaces.AgentPID(third) == spare {
		t.Error("a spare of other limits was used")
	}
	awaitSpare(t, backend)
	for _, machine := range []daemon.Machine{first, second, third} {
		stop(t, machine)
	}
	if err := backend.Close(); err != nil {
		t.Error(err)
	}
	if left := len(descendants(t, os.Getpid())) - 1; left != 0 {
		t.Errorf("%d processes outlive the back end", left)
	}
}

func TestBackend_spare_that_died_is_replaced(t *testing.T) {
	backend := newSparing(t)
	defer backend.Close()
	stop(t, boot(t, backend))
	spare := awaitSpare(t, backend)
	if err := syscall.Kill(spare, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if alive(spare) {
			return fmt.Errorf("process %d lives", spare)
		}
		return nil
	})
	machine := boot(t, backend)
	if got := output(t, machine, "echo alive"); got != "alive\n" {
		t.Errorf("the guest says %q", got)
	}
	stop(t, machine)
}

// The back end may not have noticed yet, or notice while it hands over.
func TestBackend_spare_that_dies_meanwhile_is_replaced(t *testing.T) {
	backend := newSparing(t)
	defer backend.Close()
	stop(t, boot(t, backend))
	for range 10 {
		if err := syscall.Kill(awaitSpare(t, backend), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		machine := boot(t, backend)
		if got := output(t, machine, "echo alive"); got != "alive\n" {
			t.Errorf("the guest says %q", got)
		}
		stop(t, machine)
	}
}

func TestBackend_spare_in_a_burst(t *testing.T) {
	backend := newSparing(t)
	var group sync.WaitGroup
	for i := range 12 {
		group.Go(func() {
			machine, err := backend.Boot(context.Background(), daemon.BootSpec{Image: "node", CPUs: 1, MemoryMiB: 64})
			if err != nil {
				t.Errorf("boot %d: %v", i, err)
				return
			}
			outcome, err := machine.Exec(context.Background(), daemon.ExecSpec{Argv: []string{"true"}, Timeout: testTimeout})
			if err != nil || outcome.ExitCode != 0 {
				t.Errorf("guest %d: %+v, %v", i, outcome, err)
			}
			stop(t, machine)
		})
	}
	group.Wait()
	if err := backend.Close(); err != nil {
		t.Error(err)
	}
	if left := len(descendants(t, os.Getpid())) - 1; left != 0 {
		t.Errorf("%d processes outlive the back end", left)
	}
}
