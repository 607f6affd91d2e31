// Package sandbox is the seam between the operator and whatever runs its
// guests. A Provider creates, lists, executes in and stops sandboxes; the
// operator knows no more of the back end than this package says.
package sandbox

import (
	"context"
	"io"
	"time"
)

// Provider is one back end for sandboxes. All methods may be called
// concurrently, honour the context's deadline, and return the typed errors of
// this package.
type Provider interface {
	// Create boots a sandbox and returns once it accepts Exec. An
	// UnknownOutcomeError says that no answer came and that a sandbox with the
	// request's marker may exist or may yet appear.
	Create(ctx context.Context, req CreateRequest) (ID, error)
	// List returns every sandbox the back end has, those of strangers included.
	List(ctx context.Context) ([]Info, error)
	// Exec runs one program and returns when it has exited and closed its
	// streams. A non-zero exit is a result, not an error.
	Exec(ctx context.Context, id ID, req ExecRequest) (ExecResult, error)
	// WriteFile replaces one file of the guest atomically and creates missing
	// parents. The content may be of any size.
	WriteFile(ctx context.Context, id ID, req WriteFileRequest) error
	// ReadFile opens one file of the guest. The reader fails if fewer bytes
	// arrive than the file held when it was opened; the caller closes it.
	ReadFile(ctx context.Context, id ID, path string) (io.ReadCloser, error)
	// Stop destroys the sandbox. Running programs are killed. A sandbox that is
	// gone already is a NotFoundError.
	Stop(ctx context.Context, id ID) error
	// Touch renews the sandbox's idle lease without running anything in it.
	Touch(ctx context.Context, id ID) error
	// Capabilities says what the back end promises beyond this interface.
	Capabilities(ctx context.Context) (Capabilities, error)
}

// CreateRequest describes a sandbox to boot.
type CreateRequest struct {
	// Image is the name of an image in the back end's catalog.
	Image string
	// CPUs is the number of virtual processors; 0 leaves it to the back end.
	CPUs int
	// MemoryMiB is the guest's memory in MiB; 0 leaves it to the back end.
	MemoryMiB int
	// Marker becomes the sandbox's name, by which the operator knows it again.
	Marker Marker
	// Network gives the guest a network; without it there is only a loopback.
	Network bool
	// IdleTimeout is the lease after which the back end may stop an idle
	// sandbox by itself. It is sent in whole seconds.
	IdleTimeout time.Duration
	// Env is the environment of every program in the sandbox. Back ends replace
	// a loopback host in a URL by the address under which the guest reaches it.
	Env map[string]string
}

// Info is one row of a back end's list.
type Info struct {
	ID ID
	// Name is the name given at creation; a Marker if the sandbox is ours.
	Name  string
	Image string
	// Age is the time since creation, in whole seconds.
	Age time.Duration
	// ExecInFlight is the number of programs running now.
	ExecInFlight int
	// ExecSlotsFree is how many more may run at the same time.
	ExecSlotsFree int
	// Stopped is true in the short time between a stop and the row's removal.
	Stopped bool
	// Isolation names what separates the guest from the host, empty when the
	// back end does not say.
	Isolation string
}

// ExecRequest is one program to run in a sandbox.
type ExecRequest struct {
	// Argv is the program and its arguments; no shell is involved.
	Argv []string
	// Stdin is all of the program's standard input.
	Stdin []byte
	// Env is added to the sandbox's environment.
	Env map[string]string
	// Timeout is the wall-clock limit of the program. Past it the whole process
	// group is killed and a TimeoutError returned.
	Timeout time.Duration
	// Workdir is an absolute path in the guest; empty means /.
	Workdir string
}

// ExecResult is what a program left behind.
type ExecResult struct {
	// Stdout and Stderr are valid UTF-8 and may have been cut by the back end
	// without a mark (contracts/iii-sandbox.md §3.2: at 1 MiB each).
	Stdout, Stderr []byte
	// ExitCode is 128 plus the signal for a killed program, -1 if unknown.
	ExitCode int
	// Duration is the program's own run time as the back end measured it.
	Duration time.Duration
}

// WriteFileRequest is one file to place in a guest.
type WriteFileRequest struct {
	// Path is absolute.
	Path string
	// Mode holds the permission bits; 0 means 0644.
	Mode uint32
	// Content is read to its end.
	Content io.Reader
	// Size is the number of bytes Content holds.
	Size int64
}

// Capabilities are promises of a back end.
type Capabilities struct {
	// PrivateImages is true if no two sandboxes share a writable byte. Only then
	// is what an image brings trusted.
	PrivateImages bool
	// Isolation is the word for what separates guests from the host, empty when
	// the back end does not say.
	Isolation string
}
