package namespaces_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
)

func TestLimits_memory_bomb_is_bounded(t *testing.T) {
	machine := newMachine(t)
	outcome := shell(t, machine, `python3 -c "
blocks = []
for i in range(4096):
    blocks.append(b'x' * (1 << 20))
print('had it all')"`)
	if outcome.ExitCode == 0 || strings.Contains(string(outcome.Stdout), "had it all") {
		t.Errorf("exit code %d: %s", outcome.ExitCode, outcome.Stdout)
	}
	if got := output(t, machine, "echo alive"); got != "alive\n" {
		t.Errorf("afterwards: %q", got)
	}
}

func TestLimits_fork_bomb_is_bounded(t *testing.T) {
	backend := newBackend(t)
	bombed, neighbour := boot(t, backend), boot(t, backend)
	_, err := bombed.Exec(context.Background(), daemon.ExecSpec{
		Argv: []string{"python3", "-c", `
import os, time
while True:
    try: os.fork()
    except OSError: time.sleep(0.01)
`}, Timeout: 2 * time.Second, OutputLimit: 1000,
	})
	if err == nil {
		t.Error("the bomb ended by itself")
	}
	if got := output(t, neighbour, "echo alive"); got != "alive\n" {
		t.Errorf("the neighbour: %q", got)
	}
	// The bomb was one process group, which the timeout killed.
	eventually(t, func() error {
		if n := len(guestProcesses(t, namespaces.AgentPID(bombed))); n > 10 {
			return fmt.Errorf("%d processes", n)
		}
		return nil
	})
	if got := output(t, bombed, "echo alive"); got != "alive\n" {
		t.Errorf("afterwards: %q", got)
	}
}

func TestLimits_processes_are_counted(t *testing.T) {
	machine := newMachine(t)
	got := strings.TrimSpace(output(t, machine, `python3 -c "
import os, signal
children = []
try:
    while len(children) < 2000:
        pid = os.fork()
        if pid == 0: signal.pause()
        children.append(pid)
except OSError: pass
print(len(children))
for pid in children: os.kill(pid, signal.SIGKILL)"`))
	var made int
	if _, err := fmt.Sscan(got, &made); err != nil || made < 100 || made > 512 {
		t.Errorf("made %q processes", got)
	}
}

func TestLimits_disk_is_bounded(t *testing.T) {
	machine := newMachine(t)
	outcome := shell(t, machine, "cat /dev/zero > /tmp/full; rm /tmp/full; cat /dev/zero > /usr/local/full; rm /usr/local/full; echo freed > /tmp/x && cat /tmp/x")
	if string(outcome.Stdout) != "freed\n" || strings.Count(string(outcome.Stderr), "No space left") != 2 {
		t.Errorf("got %q %q", outcome.Stdout, outcome.Stderr)
	}
}

func TestLimits_without_control_groups(t *testing.T) {
	backend := newBackend(t, namespaces.UseNoGroups)
	if got := backend.Limits(); got != "resource limits of each process in place of: memory, pids, cpu" {
		t.Errorf("it says %q", got)
	}
	machine := boot(t, backend)
	// From its first moment a program has a limit, and from soon after the exact one.
	if got := output(t, machine, "ulimit -d; until [ $(ulimit -H -d) = 262144 ]; do :; done; ulimit -d; ulimit -c"); strings.HasPrefix(got, "unlimited") || !strings.HasSuffix(got, "\n262144\n0\n") {
		t.Errorf("limits are %q", got)
	}
	if outcome := shell(t, machine, `python3 -c "b'x' * (1 << 30)"`); outcome.ExitCode != 1 || !strings.Contains(string(outcome.Stderr), "MemoryError") {
		t.Errorf("exit code %d: %s", outcome.ExitCode, outcome.Stderr)
	}
	if got := output(t, machine, "node -e 'console.log(6*7)'"); got != "42\n" {
		t.Errorf("node says %q", got)
	}
}

func TestLimits_are_in_force_where_the_back_end_says(t *testing.T) {
	backend := newBackend(t)
	machine := boot(t, backend)
	directories := namespaces.GroupDirectories(machine)
	if wants, has := strings.Contains(backend.Limits(), "cgroup"), len(directories) > 0; wants != has {
		t.Fatalf("says %q and has %v", backend.Limits(), directories)
	}
	for _, directory := range directories {
		if _, err := os.Stat(directory); err != nil {
			t.Error(err)
		}
	}
	stop(t, machine)
	for _, directory := range directories {
		if _, err := os.Stat(directory); !os.IsNotExist(err) {
			t.Errorf("%s is left", directory)
		}
	}
}
