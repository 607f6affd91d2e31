package guest

import (
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

const (
	// execMargin is what an execution may take beyond the deadline that the
	// agent enforces, so that the agent's own answer arrives (design rule 7).
	execMargin = 2 * time.Second
	// upkeepTimeout bounds commands that run no guest code.
	upkeepTimeout = 30 * time.Second
	// defaultCheck is the agent's limit for loading a source it is given.
	defaultCheck = 10 * time.Second
	// maxStdinBytes is the size from which a request should go by file.
	maxStdinBytes = 1 << 20
)

// Command is one execution of the agent.
type Command struct {
	Argv  []string
	Stdin []byte
	// Timeout is that of the execution: the deadline inside plus two seconds.
	Timeout time.Duration
}

// NeedsFile reports whether the request is too large for standard input.
func (c Command) NeedsFile() bool { return len(c.Stdin) > maxStdinBytes }

// WithRequestFile returns the command that reads its request from the given
// file, and what must be written there first; see AgentProgram.RequestPath.
func (c Command) WithRequestFile(path string) (Command, []byte) {
	argv := append(append([]string(nil), c.Argv...), "--request-file", path)
	return Command{Argv: argv, Timeout: c.Timeout}, c.Stdin
}

// Init prepares the guest. An empty ModuleFolder becomes ModuleDirectory.
func (p AgentProgram) Init(request wire.InitRequest) Command {
	if request.ModuleFolder == "" {
		request.ModuleFolder = ModuleDirectory
	}
	return p.command(wire.CommandInit, request, upkeepTimeout)
}

// InitBaked is Init by the agent that the image holds, which puts itself into the
// private folder first, so that it need not be written there.
func (p AgentProgram) InitBaked(request wire.InitRequest) Command {
	request.Home = p.folder()
	command := p.Init(request)
	command.Argv[0] = p.BakedPath()
	return command
}

// Plant stores and checks a source; an empty SourceDigest is filled in.
func (p AgentProgram) Plant(request wire.PlantRequest) Command {
	if request.SourceDigest == "" {
		request.SourceDigest = SourceDigest([]byte(request.Source))
	}
	limit := defaultCheck
	if request.TimeoutMs > 0 {
		limit = milliseconds(request.TimeoutMs)
	}
	return p.command(wire.CommandPlant, request, limit)
}

// Unplant removes a source.
func (p AgentProgram) Unplant(request wire.UnplantRequest) Command {
	return p.command(wire.CommandUnplant, request, upkeepTimeout)
}

// Call calls a planted source's handler. Its payload must be valid JSON.
func (p AgentProgram) Call(request wire.CallRequest) Command {
	stdin, err := wire.EncodeCall(request)
	return p.encoded(wire.CommandCall, stdin, err, milliseconds(request.TimeoutMs))
}

// Run runs a whole program.
func (p AgentProgram) Run(request wire.RunRequest) Command {
	return p.command(wire.CommandRun, request, milliseconds(request.TimeoutMs))
}

// Cancel ends the run or call that was started with a token.
func (p AgentProgram) Cancel(request wire.CancelRequest) Command {
	return p.command(wire.CommandCancel, request, upkeepTimeout)
}

// Install installs packages. An empty ModuleFolder becomes ModuleDirectory.
func (p AgentProgram) Install(request wire.InstallRequest) Command {
	if request.ModuleFolder == "" {
		request.ModuleFolder = ModuleDirectory
	}
	return p.command(wire.CommandInstall, request, milliseconds(request.TimeoutMs))
}

// Setup runs one command line of the shell.
func (p AgentProgram) Setup(request wire.SetupRequest) Command {
	return p.command(wire.CommandSetup, request, milliseconds(request.TimeoutMs))
}

// Link opens a link by the program of LinkProgram.
func (p AgentProgram) Link(request wire.LinkRequest) Command {
	return p.command(wire.CommandLink, request, upkeepTimeout)
}

// Discard removes a result file that has been read.
func (p AgentProgram) Discard(request wire.DiscardRequest) Command {
	return p.command(wire.CommandDiscard, request, upkeepTimeout)
}

// command encodes a request. Only raw JSON that is not JSON cannot be encoded;
// the agent refuses the empty request that results.
func (p AgentProgram) command(name string, request any, limit time.Duration) Command {
	stdin, err := wire.Marshal(request)
	return p.encoded(name, stdin, err, limit)
}

func (p AgentProgram) encoded(name string, stdin []byte, err error, limit time.Duration) Command {
	if err != nil {
		stdin = nil
	}
	return Command{Argv: []string{p.Path(), name}, Stdin: stdin, Timeout: limit + execMargin}
}

func milliseconds(count int64) time.Duration { return time.Duration(count) * time.Millisecond }

// ParseReply reads an execution's standard output. An error is a
// *wire.FrameError: the output was cut, or the agent did not get to answer.
func ParseReply(stdout []byte) (wire.Reply, error) { return wire.DecodeReply(stdout) }
