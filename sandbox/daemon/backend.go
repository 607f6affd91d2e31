// Package daemon serves the sandbox::* functions of contracts/iii-sandbox.md on
// the iii bus: the embedded stand-in for the iii-sandbox daemon. What isolates
// a guest is a Backend.
package daemon

import (
	"context"
	"io"
	"time"
)

// Backend boots guests of one kind of isolation. No two guests share a writable
// byte: the daemon promises so as private_images of sandbox::catalog::list. Its
// methods may be called concurrently.
type Backend interface {
	// Isolation is the word that a sandbox's row in sandbox::list carries.
	Isolation() string
	// CheckImage returns an error that wraps ErrNoImage when there are no files for
	// an image of the catalog.
	CheckImage(image string) error
	// Boot starts a guest and returns once it runs programs. The context bounds
	// the boot only.
	Boot(ctx context.Context, spec BootSpec) (Machine, error)
	// Close ends what the back end itself holds. Machines are stopped by their
	// owner first.
	Close() error
}

// PatientBackend is a Backend whose guests may take longer to boot than usual.
type PatientBackend interface {
	Backend
	// BootTimeout is how long a boot may take.
	BootTimeout() time.Duration
}

// BootSpec describes one guest.
type BootSpec struct {
	// Image is a name from the daemon's catalog.
	Image string
	// CPUs is the number of virtual processors, at least 1.
	CPUs int
	// MemoryMiB bounds the guest's memory, in MiB.
	MemoryMiB int
	// Network gives the guest a network (contracts/iii-sandbox.md §6).
	Network bool
	// HostPorts are the loopback ports of the host that the guest reaches
	// through its gateway. They count only with Network.
	HostPorts []int
	// Mounts are host folders that belong to the image, read-only in the guest.
	Mounts []Mount
	// Env is the environment of every program of the guest.
	Env map[string]string
}

// Mount shows a folder of the host in guests, read-only.
type Mount struct {
	// Source is an absolute path on the host.
	Source string `json:"source"`
	// Target is an absolute, clean path in the guest, other than its root.
	Target string `json:"target"`
}

// Machine is one running guest. Its methods may be called concurrently.
type Machine interface {
	Files
	// Exec runs one program and returns when it has exited and its streams are
	// closed. A program that passes its timeout is killed with its whole process
	// group and reported with ErrExecTimeout.
	Exec(ctx context.Context, spec ExecSpec) (ExecOutcome, error)
	// WriteFile writes a file to a temporary name, syncs it and renames it. When
	// content pauses for too long it fails with ErrUploadStalled. After that, and
	// after the end of the context, a pending Read of content may still go on.
	WriteFile(ctx context.Context, spec WriteSpec, content io.Reader) (int64, error)
	// OpenFile opens a regular file for reading and follows symbolic links
	// inside the guest.
	OpenFile(ctx context.Context, path string) (FileInfo, io.ReadCloser, error)
	// Stat describes a path and does not follow a final symbolic link.
	Stat(ctx context.Context, path string) (FileInfo, error)
	// Done is closed when the guest has ended by itself or was stopped.
	Done() <-chan struct{}
	// Stop ends the guest with every process in it and frees what it held. A
	// second call does nothing.
	Stop(ctx context.Context) error
}

// NetworkUser is a Machine that knows when its guest last used its network: by
// payload, not by keep-alives. Such use keeps a sandbox from being idle
// (contracts/iii-sandbox.md §5, §6).
type NetworkUser interface {
	// LastNetworkUse is exact to about a second, and zero when there was none.
	LastNetworkUse() time.Time
}

// ExecSpec is one program to run in a guest.
type ExecSpec struct {
	Argv    []string
	Stdin   []byte
	Env     map[string]string
	Workdir string
	Timeout time.Duration
	// OutputLimit bounds each of the two streams, in bytes; the rest is read and
	// dropped.
	OutputLimit int
}

// ExecOutcome is what a program left behind.
type ExecOutcome struct {
	Stdout, Stderr []byte
	// ExitCode is 128 plus the signal for a killed program, 127 for one that is
	// missing and 126 for one that cannot be executed.
	ExitCode int
	Duration time.Duration
}

// WriteSpec is one file to write.
type WriteSpec struct {
	Path    string
	Mode    uint32
	Parents bool
}

// FileInfo describes one path of a guest.
type FileInfo struct {
	Name      string
	IsDir     bool
	IsSymlink bool
	Size      int64
	Mode      uint32
	// ModTime is in whole seconds.
	ModTime time.Time
}
