package remote_test

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/remote"
)

func TestMain(m *testing.M) {
	namespaces.RunInitIfAsked()
	os.Exit(m.Run())
}

const testTimeout = 30 * time.Second

// far is a real guest behind a connection.
type far struct {
	*remote.Client
	guest daemon.Machine
	// cut ends the connection as the end of a virtual machine does.
	cut func()
}

func newFar(t *testing.T) far {
	t.Helper()
	backend, err := namespaces.New(namespaces.Options{})
	if err != nil {
		t.Fatal(err)
	}
	guest, err := backend.Boot(t.Context(), daemon.BootSpec{Image: "node", CPUs: 1, MemoryMiB: 256})
	if err != nil {
		t.Fatal(err)
	}
	near, server := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- remote.Serve(server, guest) }()
	client, err := remote.NewClient(near)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		select {
		case err := <-served:
			t.Logf("the server ended with %v", err)
		case <-time.After(testTimeout):
			t.Error("the server outlives its connection")
		}
		if err := guest.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if err := backend.Close(); err != nil {
			t.Error(err)
		}
	})
	return far{Client: client, guest: guest, cut: func() { _ = server.Close() }}
}

func shell(script string) daemon.ExecSpec {
	return daemon.ExecSpec{Argv: []string{"/bin/sh", "-c", script}, Timeout: testTimeout, OutputLimit: 1 << 20}
}

func (f far) output(t *testing.T, script string) string {
	t.Helper()
	outcome, err := f.Exec(t.Context(), shell(script))
	if err != nil || outcome.ExitCode != 0 {
		t.Fatalf("%q ended with %d, %v: %s", script, outcome.ExitCode, err, outcome.Stderr)
	}
	return string(outcome.Stdout)
}
