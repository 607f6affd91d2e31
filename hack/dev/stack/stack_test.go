package stack_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

// startBase starts the parts that the repository's other binaries are not
// needed for.
func startBase(t *testing.T, dir string) *stack.Stack {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	s, err := stack.Start(ctx, stack.Options{
		Dir: dir, SkipDaemon: true, SkipOperator: true,
		Progress: func(step stack.Step) {
			t.Logf("%-28s %-36s %s", step.Name, step.Detail, step.Took.Round(time.Millisecond))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func stop(t *testing.T, s *stack.Stack) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func TestStack_base(t *testing.T) {
	dir := t.TempDir()
	s := startBase(t, dir)
	pids := map[stack.Part]int{}
	for _, part := range []stack.Part{stack.Etcd, stack.APIServer, stack.ControllerManager} {
		if pids[part] = s.PID(part); pids[part] == 0 {
			t.Errorf("%s has no process", part)
		}
	}

	t.Run("the folder is taken", func(t *testing.T) {
		_, err := stack.Start(t.Context(), stack.Options{Dir: dir, SkipDaemon: true, SkipOperator: true})
		if err == nil || !strings.Contains(err.Error(), "another stack uses") {
			t.Errorf("a second stack in one folder: %v", err)
		}
	})
	t.Run("kinds are served", func(t *testing.T) { checkKinds(t, s) })
	t.Run("the operator has its own rights only", func(t *testing.T) { checkRights(t, s) })
	t.Run("deleting a namespace ends", func(t *testing.T) {
		kubectl(t, s, "create", "namespace", "short-lived")
		kubectl(t, s, "delete", "namespace", "short-lived", "--timeout=60s")
	})
	t.Run("trusted and guests meet different buses", func(t *testing.T) { checkListeners(t, s) })
	t.Run("the http port answers", func(t *testing.T) {
		response, err := http.Get(s.HTTPURL + "/nothing-here")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusNotFound {
			t.Errorf("an unknown route answers %s", response.Status)
		}
	})
	t.Run("the engine comes back at its address", func(t *testing.T) {
		address := s.BusURL
		if err := s.StopPart(t.Context(), stack.Engine); err != nil {
			t.Fatal(err)
		}
		if err := s.StartPart(t.Context(), stack.Engine); err != nil {
			t.Fatal(err)
		}
		if s.BusURL != address {
			t.Errorf("the bus moved from %s to %s", address, s.BusURL)
		}
	})
	t.Run("etcd and the API server come back at their addresses", func(t *testing.T) {
		for _, part := range []stack.Part{stack.APIServer, stack.Etcd} {
			if err := s.KillPart(part); err != nil {
				t.Fatal(err)
			}
		}
		for _, part := range []stack.Part{stack.Etcd, stack.APIServer} {
			if err := s.StartPart(t.Context(), part); err != nil {
				t.Fatal(err)
			}
		}
		kubectl(t, s, "get", "namespaces")
		pids[stack.Etcd], pids[stack.APIServer] = s.PID(stack.Etcd), s.PID(stack.APIServer)
	})
	t.Run("etcd alone comes back under the API server", func(t *testing.T) {
		if err := s.KillPart(stack.Etcd); err != nil {
			t.Fatal(err)
		}
		if err := s.StartPart(t.Context(), stack.Etcd); err != nil {
			t.Fatal(err)
		}
		kubectl(t, s, "get", "namespaces")
		pids[stack.Etcd] = s.PID(stack.Etcd)
	})

	stop(t, s) // the API server before etcd, which started after it
	checkNothingLeft(t, dir, pids)
}

func TestStack_partDies(t *testing.T) {
	s := startBase(t, t.TempDir())
	defer stop(t, s)
	process, err := os.FindProcess(s.PID(stack.ControllerManager))
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-s.Failed():
		if !strings.Contains(err.Error(), string(stack.ControllerManager)) {
			t.Errorf("the failure names another part: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("the death of a part was not noticed")
	}
}

func TestStart_failure(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "manager")
	dying := filepath.Join(t.TempDir(), "manager")
	if err := os.WriteFile(dying, []byte("#!/bin/sh\necho no such flag >&2\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for sentence, tc := range map[string]struct {
		options stack.Options
		want    string
	}{
		"without a folder":                   {stack.Options{SkipDaemon: true}, "Dir is empty"},
		"a program that was not built":       {stack.Options{Dir: t.TempDir(), SkipDaemon: true, OperatorProgram: missing}, "run `make build`"},
		"an operator that ends at its start": {stack.Options{Dir: t.TempDir(), SkipDaemon: true, OperatorProgram: dying}, "no such flag"},
	} {
		t.Run(sentence, func(t *testing.T) {
			s, err := stack.Start(t.Context(), tc.options)
			if s != nil {
				stop(t, s)
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
			if tc.options.Dir != "" {
				checkNothingLeft(t, tc.options.Dir, nil)
			}
		})
	}
}

func checkKinds(t *testing.T, s *stack.Stack) {
	for _, kind := range []string{"sandboxruntimes", "sandboxfunctions", "sandboxruns"} {
		kubectl(t, s, "get", kind, "-n", s.RunsNamespace())
	}
}

func checkRights(t *testing.T, s *stack.Stack) {
	for question, want := range map[string]string{
		"patch sandboxfunctions.sandbox.iii.dev --subresource=status": "yes",
		"delete namespaces":  "no",
		"create deployments": "no",
	} {
		arguments := append([]string{"auth", "can-i", "--kubeconfig=" + s.OperatorKubeconfig, "-n", s.RunsNamespace()},
			strings.Fields(question)...)
		// can-i exits with 1 for a no; its answer is what counts.
		answer, _ := s.Kubectl(t.Context(), arguments...).Output()
		if got := strings.TrimSpace(string(answer)); got != want {
			t.Errorf("may the operator %s? %q, want %q", question, got, want)
		}
	}
}

func checkListeners(t *testing.T, s *stack.Stack) {
	trusted := connect(t, s.BusURL, "trusted")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := trusted.RegisterFunction(bus.Function{ID: "stack-test::echo", Handler: echo}); err != nil {
		t.Fatal(err)
	}
	gomega.NewWithT(t).Eventually(ctx, func() error {
		_, err := trusted.FunctionInfo(ctx, "stack-test::echo", "")
		return err
	}).Should(gomega.Succeed())
	// Who decides on guests is the operator, and there is none here.
	if err := refusalOf(ctx, t, s.GuestBusURL); bus.RemoteCode(err) != "AUTH_ERROR" {
		t.Errorf("a guest without a credential: %v, want AUTH_ERROR", err)
	}
}

// refusalOf connects to a listener that is expected to let nobody in.
func refusalOf(ctx context.Context, t *testing.T, address string) error {
	t.Helper()
	guest, err := bus.New(bus.Options{URL: address, Name: "guest"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	refused, ended := make(chan error, 8), make(chan error, 1)
	guest.Subscribe(func(e bus.Event) { refused <- e.Err })
	go func() { ended <- guest.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	select {
	case err := <-refused:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func echo(_ context.Context, invocation bus.Invocation) (json.RawMessage, error) {
	return invocation.Data, nil
}

func connect(t *testing.T, address, name string) *bus.Client {
	t.Helper()
	client, err := bus.New(bus.Options{URL: address, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if err := client.WaitConnected(t.Context()); err != nil {
		t.Fatal(err)
	}
	return client
}

func kubectl(t *testing.T, s *stack.Stack, arguments ...string) {
	t.Helper()
	if out, err := s.Kubectl(t.Context(), arguments...).CombinedOutput(); err != nil {
		t.Errorf("kubectl %s: %v: %s", strings.Join(arguments, " "), err, out)
	}
}

// checkNothingLeft finds the processes by their numbers and by the folder in
// their arguments.
func checkNothingLeft(t *testing.T, dir string, pids map[stack.Part]int) {
	t.Helper()
	for _, name := range []string{"state", "kubeconfig", "env"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is left behind", name)
		}
	}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range commands {
		arguments, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(arguments), dir) {
			t.Errorf("process %s still runs: %q", path, arguments)
		}
	}
	for part, pid := range pids {
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("%s still runs as %d", part, pid)
		}
	}
}

// The daemon is killed and comes back while the rest goes on; a sandbox that
// runs when the stack stops ends with it.
func TestStack_daemon(t *testing.T) {
	dir := t.TempDir()
	s, err := stack.Start(t.Context(), stack.Options{Dir: dir, SkipOperator: true})
	if err != nil {
		t.Fatal(err)
	}
	client := connect(t, s.BusURL, "caller")
	if err := s.KillPart(stack.Daemon); err != nil {
		t.Error(err)
	}
	g := gomega.NewWithT(t)
	g.Eventually(func() bool {
		_, err := client.FunctionInfo(t.Context(), "sandbox::create", "")
		return bus.IsNotFound(err)
	}, 30*time.Second).Should(gomega.BeTrue(), "the bus still offers the functions of a dead daemon")
	if err := s.StartPart(t.Context(), stack.Daemon); err != nil {
		t.Error(err)
	}
	created, err := client.Call(t.Context(), bus.Call{FunctionID: "sandbox::create", Data: json.RawMessage(`{"image":"python","network":true}`)})
	if err != nil {
		t.Errorf("a sandbox cannot be made: %v", err)
	}
	if !strings.Contains(string(created), "sandbox_id") {
		t.Errorf("sandbox::create answers without a sandbox")
	}
	select {
	case err := <-s.Failed():
		t.Errorf("a part that was killed on purpose counts as a failure: %v", err)
	default:
	}
	pids := map[stack.Part]int{stack.Daemon: s.PID(stack.Daemon)}
	stop(t, s)
	checkNothingLeft(t, dir, pids)
}
