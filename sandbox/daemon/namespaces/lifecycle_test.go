package namespaces_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
)

const (
	doomedDaemon     = "SANDBOX_TEST_DOOMED_DAEMON"
	modeVariable     = "SANDBOX_TEST_MODE"
	modePlainRoot    = "plain-root"
	modeOrdinaryUser = "ordinary-user"
)

func asUser(id uint32) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}, Pdeathsig: syscall.SIGKILL}
}

func TestBackend_SelfTest(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	if err := newBackend(t).SelfTest(ctx); err != nil {
		t.Error(err)
	}
}

func TestBackend_Boot_failure(t *testing.T) {
	backend := newBackend(t)
	good := daemon.BootSpec{Image: "node", CPUs: 1, MemoryMiB: 128}
	cases := map[string]struct {
		change func(*daemon.BootSpec)
		want   string
	}{
		"an image outside the catalog": {func(s *daemon.BootSpec) { s.Image = "ruby" }, `image "ruby" is not one of node, python: the image has no root file system`},
		"no processor":                 {func(s *daemon.BootSpec) { s.CPUs = 0 }, "0 processors is not between 1 and 255"},
		"too little memory":            {func(s *daemon.BootSpec) { s.MemoryMiB = 1 }, "1 MiB of memory is under 32"},
		"a port that is none":          {func(s *daemon.BootSpec) { s.HostPorts = []int{70000} }, "host port 70000 is not between 1 and 65535"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			spec := good
			tc.change(&spec)
			if _, err := backend.Boot(context.Background(), spec); err == nil || err.Error() != tc.want {
				t.Errorf("got error %v", err)
			}
		})
	}
	t.Run("a context that has ended", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := backend.Boot(ctx, good); !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v", err)
		}
	})
}

func TestMachine_Stop_ends_the_whole_tree(t *testing.T) {
	machine := newMachine(t)
	output(t, machine, `for i in 1 2 3; do setsid sh -c 'trap "" TERM HUP; sleep 900 & sleep 901' >/dev/null 2>&1 </dev/null & done`)
	agent := namespaces.AgentPID(machine)
	eventually(t, func() error {
		if n := len(guestProcesses(t, agent)); n < 11 {
			return fmt.Errorf("%d processes", n)
		}
		return nil
	})
	processes := guestProcesses(t, agent)
	stop(t, machine)
	stop(t, machine)
	select {
	case <-machine.Done():
	default:
		t.Error("it is not done after its stop")
	}
	for _, pid := range processes {
		if alive(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
}

func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// guestProcesses are the host's numbers of all that shares the agent's mounts.
func guestProcesses(t testing.TB, agent int) []int {
	t.Helper()
	mounts, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", agent))
	if err != nil {
		// An agent of another user's cannot be asked by an ordinary one.
		return descendants(t, agent)
	}
	entries, _ := filepath.Glob("/proc/[0-9]*")
	var found []int
	for _, entry := range entries {
		if other, err := os.Readlink(entry + "/ns/mnt"); err == nil && other == mounts {
			pid, _ := strconv.Atoi(filepath.Base(entry))
			found = append(found, pid)
		}
	}
	return found
}

func descendants(t testing.TB, root int) []int {
	t.Helper()
	children := map[int][]int{}
	entries, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, entry := range entries {
		content, err := os.ReadFile(entry)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
		parent, _ := strconv.Atoi(fields[1])
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(entry)))
		children[parent] = append(children[parent], pid)
	}
	found := []int{root}
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found
}

func TestMachine_after_its_end(t *testing.T) {
	machine := newMachine(t)
	result := make(chan error, 1)
	go func() {
		_, err := machine.Exec(context.Background(), daemon.ExecSpec{Argv: []string{"sh", "-c", "echo > /tmp/started; sleep 900"}, Timeout: testTimeout, OutputLimit: 10})
		result <- err
	}()
	eventually(t, func() error {
		_, err := machine.Stat(context.Background(), "/tmp/started")
		return err
	})
	if err := syscall.Kill(namespaces.AgentPID(machine), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-machine.Done()
	_, execErr := machine.Exec(context.Background(), daemon.ExecSpec{Argv: []string{"true"}, Timeout: testTimeout})
	_, statErr := machine.Stat(context.Background(), "/")
	_, writeErr := write(machine, "/tmp/x", "x")
	_, _, openErr := machine.OpenFile(context.Background(), "/etc/hostname")
	for name, err := range map[string]error{"running exec": <-result, "exec": execErr, "stat": statErr, "write": writeErr, "open": openErr} {
		if !errors.Is(err, daemon.ErrMachineGone) {
			t.Errorf("%s: got error %v", name, err)
		}
	}
}

// inventory is what the host has more of when something leaks.
type inventory struct{ descriptors, goroutines, mounts, groups, children int }

func takeInventory(t *testing.T) inventory {
	t.Helper()
	descriptors, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	mounts, _ := os.ReadFile("/proc/self/mounts")
	groups := 0
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(filepath.Base(path), fmt.Sprintf("sandbox-%d-", os.Getpid())) {
			groups++
		}
		return nil
	})
	return inventory{
		descriptors: len(descriptors), goroutines: runtime.NumGoroutine(), mounts: strings.Count(string(mounts), "\n"),
		groups: groups, children: len(descendants(t, os.Getpid())) - 1,
	}
}

func TestBackend_leaves_nothing_behind(t *testing.T) {
	for name, mode := range networkModes {
		t.Run(name, func(t *testing.T) {
			server := listenOnLoopback(t, "hi")
			backend, err := namespaces.New(namespaces.Options{})
			if err != nil {
				t.Fatal(err)
			}
			mode(backend)
			cycle := func() {
				machine := boot(t, backend, online(portOf(server)))
				if got := fetch(t, machine, "100.96.0.1", portOf(server)); string(got.Stdout) != "hi" {
					t.Errorf("got %q %s", got.Stdout, got.Stderr)
				}
				_, _ = write(machine, "/tmp/x", "x")
				read(t, machine, "/tmp/x")
				output(t, machine, "sleep 900 >/dev/null 2>&1 </dev/null & sleep 901 >/dev/null 2>&1 </dev/null &")
				stop(t, machine)
			}
			cycle() // what is made once is no leak
			var before inventory
			eventually(t, func() error {
				last := before
				if before = takeInventory(t); before != last {
					return fmt.Errorf("still changing: %+v", before)
				}
				return nil
			})
			for range 20 {
				cycle()
			}
			eventually(t, func() error {
				if after := takeInventory(t); after.exceeds(before) {
					return fmt.Errorf("before %+v, after %+v", before, after)
				}
				return nil
			})
			if err := backend.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func (a inventory) exceeds(b inventory) bool {
	return a.descriptors > b.descriptors || a.goroutines > b.goroutines || a.mounts > b.mounts || a.groups > b.groups || a.children > b.children
}

// runDoomedDaemon boots a guest, says who its processes are and waits for its
// own end.
func runDoomedDaemon() {
	backend, err := namespaces.New(namespaces.Options{})
	if err == nil {
		var machine daemon.Machine
		machine, err = backend.Boot(context.Background(), daemon.BootSpec{Image: "node", CPUs: 1, MemoryMiB: 128})
		if err == nil {
			fmt.Println(namespaces.AgentPID(machine), strings.Join(namespaces.GroupDirectories(machine), " "))
			_, err = machine.Exec(context.Background(), daemon.ExecSpec{Argv: []string{"sh", "-c", "sleep 902 & sleep 903"}, Timeout: time.Hour})
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func TestBackend_guests_die_with_a_killed_daemon(t *testing.T) {
	command := exec.Command("/proc/self/exe")
	command.Env = append(os.Environ(), doomedDaemon+"=1")
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	said, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		t.Fatalf("the daemon said %q: %v", line, err)
	}
	fields := strings.Fields(line)
	agent, _ := strconv.Atoi(fields[0])
	eventually(t, func() error {
		if n := len(guestProcesses(t, agent)); n < 5 {
			return fmt.Errorf("%d processes", n)
		}
		return nil
	})
	processes := guestProcesses(t, agent)
	_ = command.Process.Kill()
	_, _ = io.Copy(io.Discard, said)
	_ = command.Wait()
	eventually(t, func() error {
		for _, pid := range processes {
			if alive(pid) {
				return fmt.Errorf("process %d is left", pid)
			}
		}
		return nil
	})
	newBackend(t) // sweeps
	for _, directory := range fields[1:] {
		if _, err := os.Stat(directory); !os.IsNotExist(err) {
			t.Errorf("%s is left", directory)
		}
	}
}

func BenchmarkBackend_boot_and_stop(b *testing.B) {
	backend := newBackend(b)
	for b.Loop() {
		machine, err := backend.Boot(context.Background(), daemon.BootSpec{Image: "node", CPUs: 1, MemoryMiB: 256})
		if err != nil {
			b.Fatal(err)
		}
		stop(b, machine)
	}
}

func BenchmarkMachine_Exec_true(b *testing.B) {
	machine := newMachine(b)
	for b.Loop() {
		run(b, machine, daemon.ExecSpec{Argv: []string{"/bin/true"}})
	}
}
