package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// Between the supervisor and a keeper.
const (
	orderCall     = 'c' // take the call of the connection that comes along
	orderLeave    = 'l' // end, after the calls at hand
	orderNoted    = 'k' // reportIdle has been taken note of
	reportOrder   = 'a' // an order has arrived
	reportReady   = 'y' // a report as JSON: the handler is loaded
	reportLeaving = 'g' // the process takes no more calls
	reportIdle    = 'i' // a report as JSON: the shared process has done a call
)

// stuckAfter is how long a keeper may leave orders lying.
const stuckAfter = 10 * time.Second

// report says how a keeper's process is.
type report struct {
	Forks bool  `json:"forks"`
	Bytes int64 `json:"bytes"`
}

// attendant is the supervisor's side of one keeper. The supervisor's lock guards
// what changes.
type attendant struct {
	pool  *pool
	state state
	begun time.Time
	since time.Time // it has been ready, or ready again; zero if it never was
	forks bool
	// pending: a call that had it made.
	pending *os.File
	control *os.File // nil until it is started
	// owed: orders that are not known to have arrived, and since when the keeper
	// has said nothing.
	owed    int
	silent  time.Time
	command *exec.Cmd
	pid     int
}

// startKeeper must be called on the main goroutine: what it starts is a child that
// is no stray only once it is known.
func startKeeper(home folder, of warmSpec) (*os.File, *exec.Cmd, error) {
	spec, err := wire.Marshal(of)
	if err != nil {
		return nil, nil, err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close()
	command := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{home.join(agentName), wire.CommandServe, keeperFlag}, Dir: "/",
		Env: os.Environ(), Stdin: bytes.NewReader(spec), ExtraFiles: []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if err := command.Start(); err != nil {
		ours.Close()
		return nil, nil, err
	}
	return ours, command, nil
}

// send gives an order; a call's comes with its connection.
func (a *attendant) send(order byte, connection ...*os.File) error {
	if a.owed == 0 {
		a.silent = time.Now()
	}
	a.owed++
	return sendOver(a.control, []byte{order}, connection...)
}

// isStuck: it has been stopped, or does not get to run.
func (a *attendant) isStuck(now time.Time) bool {
	return a.control != nil && a.owed > 0 && now.Sub(a.silent) > stuckAfter
}

// handPending sends the call that waits for the keeper.
func (a *attendant) handPending() {
	_ = a.send(orderCall, a.pending)
	a.pending.Close()
	a.pending = nil
}

// dismiss lets the keeper end.
func (a *attendant) dismiss() {
	a.state = stateLeaving
	if a.control != nil {
		_ = a.send(orderLeave)
	}
}

// receive waits for a report.
func (a *attendant) receive() (kind byte, found report, err error) {
	text := make([]byte, maxControlBytes)
	n, err := a.control.Read(text)
	if err != nil || n == 0 {
		return 0, report{}, errPacket
	}
	err = json.Unmarshal(text[1:n], &found)
	return text[0], found, err
}
