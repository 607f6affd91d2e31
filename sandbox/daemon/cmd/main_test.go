package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/daemontest"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
)

// asProgram makes the test binary behave as the program itself.
const asProgram = "SANDBOX_DAEMON_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	namespaces.RunInitIfAsked()
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// program is a run of this program with an ordinary user's environment.
func program(ctx context.Context, arguments ...string) (*exec.Cmd, *bytes.Buffer) {
	command := exec.CommandContext(ctx, os.Args[0], arguments...)
	command.Env = append(os.Environ(), asProgram+"=1")
	command.WaitDelay = 10 * time.Second
	var output bytes.Buffer
	command.Stderr = &output
	return command, &output
}

func configFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestProgram_badInput(t *testing.T) {
	for name, tc := range map[string]struct {
		arguments []string
		want      string
	}{
		"no configuration":            {nil, "--config is required"},
		"a configuration not there":   {[]string{"--config", "/no/such/file"}, "reading the configuration"},
		"a bad configuration":         {[]string{"--config", configFile(t, "sandbox: {}")}, "wrapping sandbox key"},
		"an unknown flag":             {[]string{"--colour"}, "-colour"},
		"a port that is none":         {[]string{"--config", configFile(t, ""), "--guest-host-port", "x"}, "not a port"},
		"a port outside the range":    {[]string{"--config", configFile(t, ""), "--guest-host-port", "70000"}, "70000"},
		"an argument without meaning": {[]string{"--config", configFile(t, ""), "more"}, `"more"`},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			command, output := program(ctx, tc.arguments...)
			err := command.Run()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(output.String(), tc.want) {
				t.Errorf("ended with %v, want status 2 and %q:\n%s", err, tc.want, output)
			}
		})
	}
}

// TestProgram_withoutPackages wants a machine without QEMU to be told what it lacks.
func TestProgram_withoutPackages(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	text := "backend: qemu\nqemu_root: " + t.TempDir() + "\nqemu_cache: " + t.TempDir()
	command, output := program(ctx, "--config", configFile(t, text))
	err := command.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("ended with %v, want status 1:\n%s", err, output)
	}
	for _, name := range []string{"qemu-system-x86", "linux-image-cloud-amd64", "erofs-utils"} {
		if !strings.Contains(output.String(), name) {
			t.Errorf("the package %s is not named:\n%s", name, output)
		}
	}
}

func TestProgram_serves(t *testing.T) {
	e := startEngine(t)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	command, output := program(ctx, "--engine", e.URL("workers"), "--guest-host-port", "80,81",
		"--config", configFile(t, "image_allowlist: [node]"))
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	client := connect(t, e)
	var id string
	daemontest.Eventually(t, "a guest boots", func(ctx context.Context) bool {
		answer, err := bus.Invoke[map[string]string](ctx, client, "sandbox::create", map[string]any{"image": "node"})
		id = answer["sandbox_id"]
		return err == nil
	})
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the program ended with %v:\n%s", err, output)
	}
	if id == "" || strings.Contains(output.String(), id) {
		t.Errorf("the log gives the sandbox id away:\n%s", output)
	}
	for _, line := range []string{"Guests boot on this machine", "Serving sandbox::* functions on the bus"} {
		if !strings.Contains(output.String(), line) {
			t.Errorf("the log lacks %q:\n%s", line, output)
		}
	}
}

func startEngine(t *testing.T) *engine.Engine {
	t.Helper()
	e, err := engine.New(engine.Config{Listeners: []engine.Listener{{Name: "workers", Address: "127.0.0.1:0"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Errorf("closing the engine: %v", err)
		}
	})
	return e
}

func connect(t *testing.T, e *engine.Engine) *bus.Client {
	t.Helper()
	client, err := bus.New(bus.Options{URL: e.URL("workers"), Name: "caller"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the caller's connection ended with %v", err)
		}
	})
	return client
}
