package wire

import "encoding/json"

// Language names an interpreter that the agent can start.
type Language string

const (
	// Node runs ES modules with the guest's node.
	Node Language = "node"
	// Python runs source files with the guest's python3.
	Python Language = "python"
)

// Extension is the file name extension of the language's sources
// (contracts/code-runner.md §2). Unknown languages have none.
func (l Language) Extension() string {
	switch l {
	case Node:
		return "mjs"
	case Python:
		return "py"
	default:
		return ""
	}
}

// Subcommands of the agent.
const (
	CommandInit    = "init"
	CommandPlant   = "plant"
	CommandUnplant = "unplant"
	CommandCall    = "call"
	CommandRun     = "run"
	CommandDiscard = "discard"
	CommandCancel  = "cancel"
	CommandInstall = "install"
	CommandSetup   = "setup"
	CommandVersion = "version"
	// CommandServe is the resident supervisor, which the agent starts itself.
	CommandServe = "serve"
)

const (
	// MaxRequestBytes bounds a request of any transport.
	MaxRequestBytes = 64 << 20
	// MaxStdinRequestBytes bounds a request on standard input; above
	// 1 MiB callers should already write a request file (design rule 7).
	MaxStdinRequestBytes = 8 << 20
	// MaxResultBytes bounds a handler's or program's result.
	MaxResultBytes = 8 << 20
	// MaxFiles and MaxFileBytes bound the files of one run: how many, and the
	// bytes of all of them together.
	MaxFiles     = 256
	MaxFileBytes = 8 << 20
	// DefaultHandler is the name of the callable when a request names none.
	DefaultHandler = "handler"
)

// InitRequest prepares the private directory of the agent.
type InitRequest struct {
	// sharedImage: other sandboxes may share the folders of this image, so
	// each of them gets a private overlay (contracts/iii-sandbox.md §6.1).
	SharedImage bool `json:"sharedImage,omitempty"`
	// moduleFolder: absolute path of a node_modules folder in which the Node
	// SDK is linked, so that programs anywhere below its parent can import it
	// (contracts/code-runner.md §10). Empty: none. Failure to link is not an error.
	ModuleFolder string `json:"moduleFolder,omitempty"`
	// home: absolute path of the private folder, when the agent that runs is one
	// that an image brings along: it puts itself there first. Empty: the folder
	// that the agent is in.
	Home string `json:"home,omitempty"`
	// probe: start the interpreters to report their versions and the SDKs that
	// load in them. It takes half a second, so a boot leaves it out.
	Probe bool `json:"probe,omitempty"`
	// warm: start the resident supervisor, which keeps processes ready for warm
	// calls. It costs no time: init does not wait for it.
	Warm bool `json:"warm,omitempty"`
}

// PlantRequest stores one function's source and checks it.
type PlantRequest struct {
	Language Language `json:"language"`
	// sourceDigest: SHA-256 of source, lower-case hexadecimal.
	SourceDigest string `json:"sourceDigest"`
	Source       string `json:"source"`
	// handler: name of the callable; empty means DefaultHandler.
	Handler string `json:"handler,omitempty"`
	// known: the source has passed the check, with this handler, in a guest that was
	// made alike. It is put in place without another check, which takes an interpreter.
	Known bool `json:"known,omitempty"`
	// timeoutMs: limit of the load check; 0 means 10,000.
	TimeoutMs int64 `json:"timeoutMs,omitempty"`
	// warm: once the source has passed its check, processes for warm calls are
	// made ready. Plant does not wait for that, and it may fail without a word:
	// the calls then start cold. Isolation, Env and Bus must be those of the calls.
	Warm bool `json:"warm,omitempty"`
	// isolation: empty means PerCall.
	Isolation Isolation `json:"isolation,omitempty"`
	// env: additional environment variables, for the check and for what is made ready.
	Env map[string]string `json:"env,omitempty"`
	Bus
}

// UnplantRequest removes a planted source. A source that is not there is success.
type UnplantRequest struct {
	SourceDigest string `json:"sourceDigest"`
}

// Bus tells a guest program how to reach the bus; the agent passes it as
// III_URL and III_WORKER_NAME (contracts/code-runner.md §13). Empty fields keep
// what the sandbox was created with.
type Bus struct {
	BusURL     string `json:"busUrl,omitempty"`
	WorkerName string `json:"workerName,omitempty"`
}

// CallContext is the handler's second argument. There, every key is present; what
// has no value is null.
type CallContext struct {
	FunctionID  string          `json:"function_id"`
	Metadata    json.RawMessage `json:"metadata,omitempty"`
	Traceparent string          `json:"traceparent,omitempty"`
	// deadline_ms: Unix time in milliseconds at which the call ends; the agent
	// fills it in from the request's timeout if it is 0.
	DeadlineMs int64 `json:"deadline_ms,omitempty"`
}

// CallRequest calls the handler of a planted source, in a fresh interpreter
// unless it is warm.
type CallRequest struct {
	Language     Language `json:"language"`
	SourceDigest string   `json:"sourceDigest"`
	Handler      string   `json:"handler,omitempty"`
	// payload: any JSON; absent means undefined in Node and None in Python.
	Payload json.RawMessage `json:"payload,omitempty"`
	Context CallContext     `json:"context"`
	// timeoutMs: wall-clock limit of the interpreter, 1 or more.
	TimeoutMs int64 `json:"timeoutMs"`
	// logLimit: bytes of prints kept, head and tail; 0 means 16 KiB.
	LogLimit int `json:"logLimit,omitempty"`
	// env: additional environment variables.
	Env map[string]string `json:"env,omitempty"`
	// token: a name by which CancelRequest ends this call; see RunRequest.
	Token string `json:"token,omitempty"`
	// warm: use a process that is ready, where there is one; else the call starts
	// cold. Reply's Start says which it was.
	Warm bool `json:"warm,omitempty"`
	// isolation: what warm calls share; empty means PerCall.
	Isolation Isolation `json:"isolation,omitempty"`
	Bus
}

// File is a file put beside a program before it starts.
type File struct {
	// path: relative to the program's folder, or absolute. Missing parents are
	// made.
	Path    string `json:"path"`
	Content []byte `json:"content"`
	// mode: permission bits in octal; empty means 0644.
	Mode string `json:"mode,omitempty"`
}

// RunRequest runs a whole program as if it had been started directly.
type RunRequest struct {
	Language Language          `json:"language"`
	Source   string            `json:"source"`
	Args     []string          `json:"args,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Stdin    []byte            `json:"stdin,omitempty"`
	Files    []File            `json:"files,omitempty"`
	// folder: absolute path in which program and relative files are put and
	// which is the working directory; made if missing. Empty: a new folder for
	// this run, removed with everything in it afterwards.
	Folder string `json:"folder,omitempty"`
	// keepFiles: leave files (never the program) in place afterwards.
	KeepFiles bool `json:"keepFiles,omitempty"`
	// keepProcesses: leave the program's background processes alone after a
	// normal exit, as a kept runtime does. A deadline always kills them.
	KeepProcesses bool `json:"keepProcesses,omitempty"`
	// timeoutMs: wall-clock limit of the program, 1 or more.
	TimeoutMs int64 `json:"timeoutMs"`
	// stdoutLimit, stderrLimit: bytes kept of each stream, head and tail; 0
	// means as much as fits one reply.
	StdoutLimit int `json:"stdoutLimit,omitempty"`
	StderrLimit int `json:"stderrLimit,omitempty"`
	// token: 32 lower-case hexadecimal digits, random and used once, by which
	// CancelRequest ends this run. Empty: it cannot be canceled. Whoever knows it
	// can end the run, so it is never shown to the program.
	Token string `json:"token,omitempty"`
	Bus
}

// CancelRequest ends the run or call that was started with the token: its
// interpreter and all that stems from it, at once. One that has ended is
// success, and one that has yet to start will not.
type CancelRequest struct {
	Token string `json:"token"`
}

// DiscardRequest removes a result file once it has been read.
type DiscardRequest struct {
	// path: the path of a Reply's ResultFile.
	Path string `json:"path"`
}
