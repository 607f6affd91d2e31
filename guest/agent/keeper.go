package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

const (
	keeperControl  = 3
	prSetDumpable  = 4
	earlyLogsBytes = 64 << 10
)

var errNotReady = errors.New("the process did not get ready")

// keeper has one interpreter with the handler loaded, and the calls that it, or
// its forks, serve. It does for them what an agent does that was started for one
// call; it is the parent of the interpreter and of whatever loses its own.
type keeper struct {
	home        folder
	spec        warmSpec
	control     *os.File
	interpreter *process
	link        *os.File // over which the interpreter is asked to fork; nil if it is not
	forks       bool
	stdout      *tap
	stderr      *tap
	early       *earlyLogs
	orders      chan order
	stuck       chan struct{} // the interpreter does not fork
	calls       sync.WaitGroup
	strays      sync.Mutex
}

type order struct {
	kind       byte
	connection *os.File
}

// keep runs a keeper until its supervisor, or the work, is gone.
func keep(home folder) error {
	// What belongs to other calls must not be reached through /proc.
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetDumpable, 0, 0); errno != 0 {
		return os.NewSyscallError("prctl(PR_SET_DUMPABLE)", errno)
	}
	body, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	var spec warmSpec
	if err := json.Unmarshal(body, &spec); err != nil {
		return err
	}
	control, err := socketFile(keeperControl)
	if err != nil {
		return err
	}
	k := &keeper{home: home, spec: spec, control: control, early: newEarlyLogs(), orders: make(chan order, 64), stuck: make(chan struct{}, 1)}
	if err := k.begin(); err != nil {
		return err
	}
	go k.receiveOrders()
	k.serve()
	go k.refuse()
	k.calls.Wait()
	k.interpreter.kill()
	return nil
}

// refuse lets go of calls that were on their way to a keeper that takes no more.
// They have not been taken, and start in another way.
func (k *keeper) refuse() {
	_ = k.report(reportLeaving)
	for next := range k.orders {
		if next.connection != nil {
			next.connection.Close()
		}
	}
}

// begin starts the interpreter and waits until it has loaded the handler.
func (k *keeper) begin() error {
	if failure := ensureHosts(k.home); failure != nil {
		return failure
	}
	program := k.spec.program(k.home)
	k.stdout, k.stderr = &tap{target: k.early.logs}, &tap{target: both{k.early.logs, k.early.errors}}
	program.stdout, program.stderr = k.stdout, k.stderr
	if k.spec.Language == wire.Python && !k.spec.Shared {
		ours, theirs, err := socketPair()
		if err != nil {
			return err
		}
		defer theirs.Close()
		k.link, program.extra = ours, []*os.File{theirs}
	}
	started, err := program.start()
	if err != nil {
		return err
	}
	k.interpreter = started
	ready, err := k.awaitReady()
	if err != nil {
		started.kill()
		return err
	}
	k.forks = ready.Forks && k.link != nil && len(childrenOf(os.Getpid())) == 1
	k.offer()
	return k.report(reportReady)
}

func (k *keeper) awaitReady() (readiness, error) {
	limit := time.NewTimer(importWait)
	defer limit.Stop()
	for {
		select {
		case next, open := <-k.interpreter.frames:
			if !open || next.isResult() {
				return readiness{}, errNotReady
			}
			var ready readiness
			if next.kind == frameReady {
				err := json.Unmarshal(next.body, &ready)
				return ready, err
			}
		case <-k.interpreter.exited:
			return readiness{}, errNotReady
		case <-limit.C:
			return readiness{}, errNotReady
		}
	}
}

// report tells the supervisor how the process is.
func (k *keeper) report(kind byte) error {
	// Numbers only: this cannot fail.
	found := report{Forks: k.forks}
	if kind != reportOrder {
		found.Bytes = ownBytes(k.interpreter.pid())
	}
	text, _ := wire.Marshal(found)
	return sendOver(k.control, append([]byte{kind}, text...))
}

func (k *keeper) receiveOrders() {
	defer close(k.orders)
	for {
		text, descriptors, err := receiveOver(k.control)
		if err != nil {
			return
		}
		_ = k.report(reportOrder)
		next := order{kind: text[0]}
		if len(descriptors) == 1 {
			next.connection, err = socketFile(descriptors[0])
		}
		if err == nil {
			k.orders <- next
		}
	}
}

// serve takes calls until it is to take no more.
func (k *keeper) serve() {
	for {
		select {
		case next, open := <-k.orders:
			if !open || next.kind == orderLeave {
				return
			}
			if next.connection != nil && !k.take(next.connection) {
				return
			}
		case <-k.interpreter.exited:
			return
		case <-k.stuck:
			return
		}
	}
}

// take serves one call and reports whether the keeper can take another.
func (k *keeper) take(connection *os.File) bool {
	if k.forks {
		k.calls.Go(func() {
			defer connection.Close()
			k.serveFork(connection)
		})
		return true
	}
	defer connection.Close()
	if !k.spec.Shared {
		k.serveOnce(connection)
		return false
	}
	return k.serveShared(connection)
}

// rest tells the supervisor that the process is free, and waits until it knows, so
// that a caller's next call finds it. False: the keeper is to leave.
func (k *keeper) rest() bool {
	if k.report(reportIdle) != nil {
		return false
	}
	limit := time.NewTimer(quickAnswer)
	defer limit.Stop()
	select {
	case next, open := <-k.orders:
		return open && next.kind == orderNoted
	case <-limit.C:
		return false
	}
}
