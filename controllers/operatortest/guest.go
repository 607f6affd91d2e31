package operatortest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// Guest answers execs as the agent does. A planted source loads unless a line has
// the word BROKEN, and has the handlers whose names it holds. A call answers with
// the planted source as a JSON string.
type Guest struct {
	files Files

	mu        sync.Mutex
	planted   map[sandbox.ID]map[string]string
	plants    int
	checks    int
	cancelled []string
	outfits   []string
	call      func(context.Context, wire.CallRequest) (wire.Reply, error)
	run       func(context.Context, wire.RunRequest) (wire.Reply, error)
}

// Files are those of sandboxes. A fake.Provider has them.
type Files interface {
	// File returns what was written to a path of a sandbox.
	File(id sandbox.ID, name string) (content []byte, written bool)
}

// NewGuest returns a guest of the sandboxes that have these files, whose programs
// print "done" and exit with 0.
func NewGuest(files Files) *Guest {
	return &Guest{
		files:   files,
		planted: map[sandbox.ID]map[string]string{},
		run: func(context.Context, wire.RunRequest) (wire.Reply, error) {
			return wire.Reply{Run: &wire.Run{Stdout: "done\n"}, DurationMs: 1}, nil
		},
	}
}

// OnRun sets what runs do from now on. The context ends when the execution is
// given up; an error is one of the sandbox package.
func (g *Guest) OnRun(f func(context.Context, wire.RunRequest) (wire.Reply, error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.run = f
}

// OnCall sets what calls of planted sources do; nil is the default.
func (g *Guest) OnCall(f func(context.Context, wire.CallRequest) (wire.Reply, error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.call = f
}

// Plants counts the plants so far.
func (g *Guest) Plants() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.plants
}

// Checks counts the plants that were not known to load.
func (g *Guest) Checks() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.checks
}

// Exec implements fake.ExecFunc.
func (g *Guest) Exec(ctx context.Context, info sandbox.Info, req sandbox.ExecRequest) (sandbox.ExecResult, error) {
	if len(req.Argv) != 2 || path.Base(req.Argv[0]) != "agent" {
		return sandbox.ExecResult{}, fmt.Errorf("this guest runs only the agent, not %q", req.Argv)
	}
	ctx, cancel := context.WithTimeout(ctx, req.Timeout)
	defer cancel()
	agent, written := g.files.File(info.ID, req.Argv[0])
	if !written {
		return sandbox.ExecResult{ExitCode: 127, Stderr: []byte("no such file")}, nil
	}
	if req.Argv[1] == wire.CommandInit {
		return framed(wire.Reply{Init: &wire.Init{
			AgentDigest: guest.SourceDigest(agent), NodeVersion: "20.0.0", PythonVersion: "3.12.0",
		}})
	}
	reply, err := g.answer(ctx, info, req.Argv[1], req.Stdin)
	if err != nil {
		return sandbox.ExecResult{}, err
	}
	return framed(reply)
}

func framed(reply wire.Reply) (sandbox.ExecResult, error) {
	frame, err := wire.EncodeReply(reply)
	return sandbox.ExecResult{Stdout: frame}, err
}

func (g *Guest) answer(ctx context.Context, info sandbox.Info, command string, stdin []byte) (wire.Reply, error) {
	switch command {
	case wire.CommandPlant:
		return decoded(stdin, func(r wire.PlantRequest) (wire.Reply, error) { return g.plant(info.ID, r), nil })
	case wire.CommandUnplant:
		return decoded(stdin, func(r wire.UnplantRequest) (wire.Reply, error) { return g.unplant(info.ID, r), nil })
	case wire.CommandCall:
		return decoded(stdin, func(r wire.CallRequest) (wire.Reply, error) { return g.callPlanted(ctx, info.ID, r) })
	case wire.CommandRun:
		g.mu.Lock()
		run := g.run
		g.mu.Unlock()
		return decoded(stdin, func(r wire.RunRequest) (wire.Reply, error) { return run(ctx, r) })
	case wire.CommandCancel:
		return decoded(stdin, func(r wire.CancelRequest) (wire.Reply, error) { return g.note(r.Token), nil })
	case wire.CommandInstall:
		return decoded(stdin, func(r wire.InstallRequest) (wire.Reply, error) { return g.outfit(strings.Join(r.Packages, " ")), nil })
	case wire.CommandSetup:
		return decoded(stdin, func(r wire.SetupRequest) (wire.Reply, error) { return g.outfit(r.Command), nil })
	default:
		return wire.Reply{}, fmt.Errorf("the agent has no command %q", command)
	}
}

// note remembers what was cancelled.
func (g *Guest) note(token string) wire.Reply {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cancelled = append(g.cancelled, token)
	return wire.Reply{}
}

// Cancelled lists the tokens of the runs and calls that were to end.
func (g *Guest) Cancelled() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.cancelled)
}

// outfit installs and sets up nothing. A text with FAILS in it fails, and says so
// itself.
func (g *Guest) outfit(text string) wire.Reply {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.outfits = append(g.outfits, text)
	if strings.Contains(text, "FAILS") {
		return wire.Reply{Run: &wire.Run{ExitCode: 1, Stderr: text}}
	}
	return wire.Reply{Run: &wire.Run{}}
}

// Outfits lists what was installed and set up so far, in order.
func (g *Guest) Outfits() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.outfits)
}

// decoded refuses what the agent would refuse: unknown fields and trailing text.
func decoded[R any](stdin []byte, f func(R) (wire.Reply, error)) (wire.Reply, error) {
	decoder := json.NewDecoder(strings.NewReader(string(stdin)))
	decoder.DisallowUnknownFields()
	var request R
	if err := decoder.Decode(&request); err != nil {
		return wire.Reply{Error: wire.Failf(wire.BadRequest, "%v", err)}, nil
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return wire.Reply{Error: wire.Failf(wire.BadRequest, "trailing text")}, nil
	}
	return f(request)
}

func (g *Guest) plant(id sandbox.ID, r wire.PlantRequest) wire.Reply {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.plants++
	if !r.Known {
		g.checks++
		if failure := check(r); failure != nil {
			return wire.Reply{Error: failure}
		}
	}
	if g.planted[id] == nil {
		g.planted[id] = map[string]string{}
	}
	g.planted[id][r.SourceDigest] = r.Source
	return wire.Reply{}
}

func check(r wire.PlantRequest) *wire.Failure {
	for i, line := range strings.Split(r.Source, "\n") {
		if strings.Contains(line, "BROKEN") {
			return &wire.Failure{Kind: wire.LoadFailed, Type: "SyntaxError", Message: "Unexpected identifier", Line: i + 1}
		}
	}
	if _, thrown, ok := strings.Cut(r.Source, "THROWS "); ok {
		return &wire.Failure{Kind: wire.LoadFailed, Type: "Error", Message: thrown}
	}
	if strings.Contains(r.Source, "SLOW") {
		return wire.Failf(wire.TimedOut, "the source did not load in time")
	}
	if !strings.Contains(r.Source, r.Handler) {
		return wire.Failf(wire.HandlerMissing, "the source defines no function %s", r.Handler)
	}
	return nil
}

func (g *Guest) unplant(id sandbox.ID, r wire.UnplantRequest) wire.Reply {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.planted[id], r.SourceDigest)
	return wire.Reply{}
}

// Planted lists the sources in a sandbox.
func (g *Guest) Planted(id sandbox.ID) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var sources []string
	for _, source := range g.planted[id] {
		sources = append(sources, source)
	}
	return sources
}

func (g *Guest) callPlanted(ctx context.Context, id sandbox.ID, r wire.CallRequest) (wire.Reply, error) {
	g.mu.Lock()
	source, ok := g.planted[id][r.SourceDigest]
	call := g.call
	g.mu.Unlock()
	switch {
	case !ok:
		return wire.Reply{Error: wire.Failf(wire.NotPlanted, "the source is not here")}, nil
	case call != nil:
		return call(ctx, r)
	}
	result, err := json.Marshal(source)
	return wire.Reply{Result: result, DurationMs: 1}, err
}
