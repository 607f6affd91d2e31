package runner_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/guest/runner"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/daemontest"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
	"github.com/sandbox-operator/sandbox-operator/sandbox/iii"
)

func TestMain(m *testing.M) {
	namespaces.RunInitIfAsked()
	os.Exit(m.Run())
}

// realWorld is a real sandbox with the real agent in it.
type realWorld struct {
	*runner.Runner
	t  *testing.T
	id sandbox.ID
}

func newRealWorld(t *testing.T) *realWorld {
	t.Helper()
	agent, err := guest.Program()
	if err != nil {
		t.Fatal(err)
	}
	backend, err := namespaces.New(namespaces.Options{})
	if err != nil {
		t.Fatalf("making the back end: %v", err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	stack := daemontest.Start(t, daemontest.Options{Backend: backend, Config: daemontest.Config()})
	provider := iii.New(iii.Options{Client: stack.Client})
	r := runner.New(provider, agent)
	request := create
	request.MemoryMiB, request.Env = 256, map[string]string{"COLOUR": "red"}
	booted, err := r.Boot(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return &realWorld{Runner: r, t: t, id: booted.ID}
}

func (w *realWorld) setup(command string) *wire.Run {
	w.t.Helper()
	reply, err := w.Setup(w.t.Context(), w.id, wire.SetupRequest{Command: command, TimeoutMs: 20_000})
	if err != nil || reply.Error != nil {
		w.t.Fatalf("%q: %v %v", command, err, reply.Error)
	}
	return reply.Run
}

func TestSandbox_setup(t *testing.T) {
	w := newRealWorld(t)
	want := &wire.Run{Stdout: "red /\n", Stderr: "err\n", ExitCode: 4}
	if diff := cmp.Diff(want, w.setup("echo $COLOUR $PWD; echo err >&2; exit 4")); diff != "" {
		t.Errorf("the command (-want +got):\n%s", diff)
	}
}

// A cancel ends a program of a sandbox that stays, and leaves nothing of it.
func TestSandbox_cancel(t *testing.T) {
	w := newRealWorld(t)
	token := runner.NewToken()
	type answer struct {
		reply wire.Reply
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		reply, err := w.Run(t.Context(), w.id, wire.RunRequest{
			Language: wire.Node, Token: token, TimeoutMs: 60_000, KeepProcesses: true,
			Source: `import { spawn } from 'node:child_process'; import fs from 'node:fs';
spawn('setsid', ['sleep', '600'], { detached: true, stdio: 'ignore' });
console.log('started'); fs.writeFileSync('/tmp/started', ''); setInterval(() => {}, 1000);`,
		})
		answers <- answer{reply, err}
	}()
	if run := w.setup("while [ ! -e /tmp/started ]; do sleep 0.02; done"); run.ExitCode != 0 {
		t.Fatalf("waiting for the program: %+v", run)
	}
	if err := w.Cancel(t.Context(), w.id, token); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-answers:
		if got.err != nil || got.reply.Run == nil || !got.reply.Run.Canceled || got.reply.Run.Stdout != "started\n" {
			t.Errorf("the run: %+v %v", got.reply.Run, got.err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the run goes on")
	}
	if run := w.setup("cat /proc/[0-9]*/comm"); strings.Contains(run.Stdout, "sleep") || strings.Contains(run.Stdout, "node") {
		t.Errorf("still there: %s", run.Stdout)
	}
	for _, again := range []string{token, runner.NewToken()} {
		if err := w.Cancel(t.Context(), w.id, again); err != nil {
			t.Errorf("canceling what has ended, or never was: %v", err)
		}
	}
}

// An agent that came with the image moves into the private folder by itself.
func TestSandbox_bakedAgent(t *testing.T) {
	w := newRealWorld(t)
	manifest, _ := json.Marshal(guest.Baked{AgentDigest: w.AgentDigest()})
	folder := w.AgentDigest()[:12]
	moved := w.setup("set -e; mkdir -p /opt/sandbox-operator; mv /sandbox-operator/" + folder + " /opt/sandbox-operator/; rmdir /sandbox-operator; " +
		"printf '%s' '" + string(manifest) + "' > " + guest.BakedManifest)
	if moved.ExitCode != 0 {
		t.Fatalf("moving: %+v", moved)
	}
	init, err := w.Prepare(t.Context(), w.id)
	if err != nil || init.AgentDigest != w.AgentDigest() {
		t.Fatalf("preparing: %+v %v", init, err)
	}
	if run := w.setup("readlink -f /sandbox-operator/*/hosts"); !strings.HasPrefix(run.Stdout, "/opt/sandbox-operator/"+folder+"/hosts-") {
		t.Errorf("the hosts are at %s", run.Stdout)
	}
	for language, source := range map[wire.Language]string{wire.Node: "export default 7;", wire.Python: "result = 7\n"} {
		reply, err := w.Run(t.Context(), w.id, wire.RunRequest{Language: language, Source: source, TimeoutMs: 20_000})
		if err != nil || string(reply.Result) != "7" {
			t.Errorf("%s: %s %+v %v", language, reply.Result, reply.Run, err)
		}
	}
}
