// Package remote carries the operations of a daemon.Machine over one connection: a
// Server stands beside the guest's programs, in a virtual machine, and a Client
// with the daemon.
//
// Each operation is a stream of its own, so that none waits behind another. It
// begins with a request in one frame; what follows is content in chunks, a reply,
// and content again, as the operation needs. Whoever gives up closes its half: for
// the server that ends the operation.
package remote

import (
	"encoding/json"
	"io"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/wire"
)

// writeTimeout is how long the connection may take no byte before it counts as
// lost. It is long because an emulated processor may be starved by its host.
const writeTimeout = 2 * time.Minute

// request is the first frame of a stream. Arguments are the daemon.…Spec of the
// operation, or the path where that is all it has.
type request struct {
	Op        wire.Operation
	Arguments json.RawMessage
}

// reply answers a request.
type reply struct {
	Failure wire.FailureKind `json:",omitempty"`
	Message string           `json:",omitempty"`
	// ExitCode is of an exec, whose two streams follow as content.
	ExitCode int   `json:",omitempty"`
	Written  int64 `json:",omitempty"`
	// Info is of a file that is opened, whose content follows.
	Info *daemon.FileInfo `json:",omitempty"`
}

// What only an operation as a whole can end with.
const (
	failureTimeout wire.FailureKind = "timeout"
	failureGone    wire.FailureKind = "gone"
)

func configuration() *yamux.Config {
	config := yamux.DefaultConfig()
	// The connection ends with its machine, of which both sides learn otherwise.
	config.EnableKeepAlive = false
	config.StreamOpenTimeout, config.StreamCloseTimeout = 0, 0
	config.ConnectionWriteTimeout = writeTimeout
	config.LogOutput = io.Discard
	return config
}
