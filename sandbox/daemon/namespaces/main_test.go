package namespaces_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
)

func TestMain(m *testing.M) {
	namespaces.RunInitIfAsked()
	if os.Getenv(doomedDaemon) != "" {
		runDoomedDaemon()
	}
	os.Exit(m.Run())
}

const testTimeout = 30 * time.Second

// newBackend makes a back end in the mode that the test run is in.
func newBackend(t testing.TB, change ...func(*namespaces.Backend)) *namespaces.Backend {
	t.Helper()
	backend, err := namespaces.New(namespaces.Options{})
	if err != nil {
		t.Fatalf("making the back end: %v", err)
	}
	if os.Getenv(modeVariable) == modePlainRoot {
		namespaces.UsePlainRoot(backend)
	}
	for _, each := range change {
		each(backend)
	}
	t.Cleanup(func() {
		if err := backend.Close(); err != nil {
			t.Errorf("closing the back end: %v", err)
		}
	})
	return backend
}

func boot(t testing.TB, backend *namespaces.Backend, change ...func(*daemon.BootSpec)) daemon.Machine {
	t.Helper()
	spec := daemon.BootSpec{Image: "node", CPUs: 1, MemoryMiB: 256}
	for _, each := range change {
		each(&spec)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	machine, err := backend.Boot(ctx, spec)
	if err != nil {
		t.Fatalf("booting: %v", err)
	}
	t.Cleanup(func() { stop(t, machine) })
	return machine
}

func stop(t testing.TB, machine daemon.Machine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	if err := machine.Stop(ctx); err != nil {
		t.Errorf("stopping: %v", err)
	}
}

// newMachine is a guest on a back end of its own.
func newMachine(t testing.TB) daemon.Machine {
	t.Helper()
	return boot(t, newBackend(t))
}

func run(t testing.TB, machine daemon.Machine, spec daemon.ExecSpec) daemon.ExecOutcome {
	t.Helper()
	if spec.Timeout == 0 {
		spec.Timeout = testTimeout
	}
	if spec.OutputLimit == 0 {
		spec.OutputLimit = 1 << 20
	}
	outcome, err := machine.Exec(context.Background(), spec)
	if err != nil {
		t.Fatalf("running %q: %v", spec.Argv, err)
	}
	return outcome
}

func shell(t testing.TB, machine daemon.Machine, script string) daemon.ExecOutcome {
	t.Helper()
	return run(t, machine, daemon.ExecSpec{Argv: []string{"/bin/sh", "-c", script}})
}

// output runs a script that must succeed.
func output(t testing.TB, machine daemon.Machine, script string) string {
	t.Helper()
	outcome := shell(t, machine, script)
	if outcome.ExitCode != 0 {
		t.Fatalf("script %q ended with %d: %s%s", script, outcome.ExitCode, outcome.Stdout, outcome.Stderr)
	}
	return string(outcome.Stdout)
}

// eventually polls until check returns nil.
func eventually(t testing.TB, check func() error) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatal(fmt.Errorf("still after ten seconds: %w", err))
		}
	}
}
