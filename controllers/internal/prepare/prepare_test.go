package prepare_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/controllers/internal/prepare"
	"github.com/sandbox-operator/sandbox-operator/guest/runner"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

// agent answers what the map says of an installation or a command, and notes the
// order.
type agent struct {
	replies map[string]wire.Reply
	err     error
	acts    []string
	planted int
}

func (a *agent) act(what string) (wire.Reply, error) {
	a.acts = append(a.acts, what)
	if reply, ok := a.replies[what]; ok || a.err != nil {
		return reply, a.err
	}
	return wire.Reply{Run: &wire.Run{}}, nil
}

func (a *agent) Install(_ context.Context, _ sandbox.ID, req wire.InstallRequest) (wire.Reply, error) {
	return a.act(string(req.Language) + " " + strings.Join(req.Packages, " "))
}

func (a *agent) Setup(_ context.Context, _ sandbox.ID, req wire.SetupRequest) (wire.Reply, error) {
	return a.act(req.Command)
}

func (a *agent) Prepare(context.Context, sandbox.ID) (wire.Init, error) {
	a.planted++
	return wire.Init{}, a.err
}

var plan = prepare.Plan{
	Language: wire.Python,
	Files:    []wire.File{{Path: "/etc/app.conf", Content: []byte("debug")}, {Path: "/etc/key", Content: []byte("hunter2"), Mode: "0600"}},
	Packages: []string{"requests>=2", "attrs"},
	Setup:    []string{"first", "second"},
	Secrets:  []string{"hunter2"},
}

func TestPrepare_doesAllInOrder(t *testing.T) {
	provider, a := fake.New(), &agent{}
	id := provider.Adopt("box", "python")
	if err := prepare.Prepare(t.Context(), a, provider, id, plan); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"python requests>=2 attrs", "first", "second"}, a.acts); diff != "" {
		t.Errorf("what the agent did (-want +got):\n%s", diff)
	}
	for _, f := range plan.Files {
		if got, _ := provider.File(id, f.Path); !bytes.Equal(got, f.Content) {
			t.Errorf("%s holds %q", f.Path, got)
		}
	}
}

func TestPrepare_planThatFails(t *testing.T) {
	printed := func(run wire.Run) wire.Reply { return wire.Reply{Run: &run} }
	for name, tc := range map[string]struct {
		replies map[string]wire.Reply
		writes  error
		want    string
	}{
		"packages that are not there": {
			replies: map[string]wire.Reply{"python requests>=2 attrs": printed(wire.Run{ExitCode: 1, Stderr: "No matching distribution\n"})},
			want:    "packages: exited with 1: No matching distribution",
		},
		"a command that fails, which prints a Secret": {
			replies: map[string]wire.Reply{"second": printed(wire.Run{ExitCode: 2, Stdout: "key hunter2"})},
			want:    "setup command 2: exited with 2: key [redacted]",
		},
		"a command that never ends": {
			replies: map[string]wire.Reply{"first": printed(wire.Run{ExitCode: -1, TimedOut: true})},
			want:    "setup command 1: did not end in time",
		},
		"a guest without the interpreter": {
			replies: map[string]wire.Reply{"python requests>=2 attrs": {Error: wire.Failf(wire.InterpreterMissing, "no pip")}},
			want:    "packages: InterpreterMissing: no pip",
		},
		"a file that cannot be there": {
			writes: sandbox.NewFileError("/etc/app.conf", "is a directory"),
			want:   "files /etc/app.conf: guest file /etc/app.conf: is a directory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			provider := fake.New()
			id := provider.Adopt("box", "python")
			if tc.writes != nil {
				provider.FailNext(fake.WriteFile, tc.writes)
			}
			err := prepare.Prepare(t.Context(), &agent{replies: tc.replies}, provider, id, plan)
			if failed := prepare.AsError(err); failed == nil || !strings.HasPrefix(failed.Error(), tc.want) {
				t.Errorf("the error is %v, want %q", err, tc.want)
			}
		})
	}
}

// TestPrepare_longOutput has a Secret where the output is cut.
func TestPrepare_longOutput(t *testing.T) {
	provider := fake.New()
	id := provider.Adopt("box", "python")
	output := strings.Repeat("hunter2", 1000) + "é"
	err := prepare.Prepare(t.Context(), &agent{replies: map[string]wire.Reply{
		"first": {Run: &wire.Run{ExitCode: 1, Stderr: output}},
	}}, provider, id, plan)
	text := err.Error()
	if len(text) > 700 || strings.Contains(text, "unter2") || !strings.HasSuffix(text, "é") {
		t.Errorf("the error has %d bytes: %s", len(text), text)
	}
}

func TestPrepare_backEndThatFails(t *testing.T) {
	for name, tc := range map[string]struct {
		agent agent
		lose  bool
	}{
		"a sandbox that is gone":  {lose: true},
		"a daemon that is away":   {agent: agent{err: sandbox.NewUnavailableError(errors.New("not connected"))}},
		"an agent that is broken": {agent: agent{replies: map[string]wire.Reply{"first": {Error: wire.Failf(wire.Internal, "no pipe")}}}},
		"an agent without words":  {agent: agent{replies: map[string]wire.Reply{"first": {}}}},
	} {
		t.Run(name, func(t *testing.T) {
			provider := fake.New()
			id := provider.Adopt("box", "python")
			if tc.lose {
				provider.Lose(id)
			}
			if err := prepare.Prepare(t.Context(), &tc.agent, provider, id, plan); err == nil || prepare.AsError(err) != nil {
				t.Errorf("the plan is blamed: %v", err)
			}
		})
	}
}

func TestWithAgent(t *testing.T) {
	missing, other := &runner.AgentError{ExitCode: 127}, &runner.AgentError{ExitCode: 137}
	for name, tc := range map[string]struct {
		fails       []error
		cannotPlant error
		wantActs    int
		wantPlanted int
		want        error
	}{
		"an agent that is there":            {[]error{nil}, nil, 1, 0, nil},
		"one that is not":                   {[]error{missing, nil}, nil, 2, 1, nil},
		"one that is not, even then":        {[]error{missing, missing}, nil, 2, 1, missing},
		"one that cannot be planted":        {[]error{missing}, sandbox.NewNotFoundError(), 1, 1, sandbox.NewNotFoundError()},
		"one that was killed while it runs": {[]error{other}, nil, 1, 0, other},
	} {
		t.Run(name, func(t *testing.T) {
			a := &agent{err: tc.cannotPlant}
			acts := 0
			err := prepare.WithAgent(t.Context(), a, sandbox.ID{}, func() error {
				acts++
				return tc.fails[acts-1]
			})
			if acts != tc.wantActs || a.planted != tc.wantPlanted || (err == nil) != (tc.want == nil) ||
				err != nil && err.Error() != tc.want.Error() {
				t.Errorf("%d acts, %d plants, %v", acts, a.planted, err)
			}
		})
	}
}
