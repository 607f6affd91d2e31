package main

import (
	"encoding/json"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

const (
	// takenWait bounds everything up to the moment from which the handler may have
	// run; after it the call starts cold.
	takenWait = 6 * time.Second
	// replyMarginWait is how long after the deadline a keeper may answer that it has
	// passed. It is less than the 2 s that the operator waits for the agent.
	replyMarginWait = 1500 * time.Millisecond
)

// cancelWait is how long a keeper may take to end a canceled call, less than a cancel
// waits for the agent.
const cancelWait = gentleWait - 500*time.Millisecond

// warmCall is one call by way of the supervisor.
type warmCall struct {
	home       folder
	spec       warmSpec
	head       callHead
	line       hostLine
	payload    json.RawMessage
	begun      time.Time
	timeout    time.Duration
	stop       <-chan os.Signal
	connection *os.File
	packets    chan packet
	keeper     int // its process id
}

func newWarmCall(home folder, interpreter string, request wire.CallRequest, begun time.Time) *warmCall {
	timeout := milliseconds(request.TimeoutMs)
	spec, own := newWarmSpec(interpreter, request, environment(home, request.Bus, callEnvironment(request)))
	return &warmCall{
		home: home, spec: spec, payload: request.Payload, begun: begun, timeout: timeout,
		head: callHead{TimeoutMs: request.TimeoutMs, LogLimit: request.LogLimit},
		line: hostLine{Context: newHandlerContext(request.Context, timeout), Env: own},
	}
}

// warmOutcome is what became of a warm call.
type warmOutcome int

const (
	warmDone    warmOutcome = iota // there is a reply
	warmNotRun                     // there is no process for it; a later call may fare better
	warmMissing                    // nor is there a supervisor, or it is of no use
)

// do returns the framed reply. Unless it is warmDone, the handler has not run by
// this way and never will.
func (w *warmCall) do() ([]byte, warmOutcome) {
	connection, err := dial(w.home)
	if connection != nil {
		defer connection.Close()
	}
	if err != nil {
		return nil, warmMissing
	}
	w.connection, w.packets = connection, make(chan packet, 4)
	_ = connection.SetWriteDeadline(w.begun.Add(w.timeout))
	if writePacket(connection, askCall, []byte(w.spec.key())) != nil {
		return nil, warmMissing
	}
	go w.receive()
	switch w.awaitTaken() {
	case answerTaken:
		return w.awaitReply()
	case answerUnknown:
		w.introduce()
		return nil, warmNotRun
	case answerCold:
		return nil, warmNotRun
	case sendCancel:
		return canceledReply()
	default:
		return nil, warmMissing
	}
}

func canceledReply() ([]byte, warmOutcome) {
	return framed(wire.Failf(wire.Canceled, "canceled")), warmDone
}

func framed(failure *wire.Failure) []byte {
	frame, _ := fit(failed(failure)) // it holds nothing that could not be encoded
	return frame
}

// receive passes on what comes, then closes packets.
func (w *warmCall) receive() {
	defer close(w.packets)
	for {
		next, err := readPacket(w.connection, wire.MaxBodyBytes+4096)
		if err != nil {
			return
		}
		w.packets <- next
	}
}

// introduce says what pool the call would have needed.
func (w *warmCall) introduce() {
	if spec, err := wire.Marshal(w.spec); err == nil {
		_ = writePacket(w.connection, askWarm, spec)
	}
}

// awaitTaken returns answerTaken once the call must not be started in another way,
// sendCancel if it is not to be started at all, and what else the answer was. Zero:
// the supervisor or the keeper is of no use.
func (w *warmCall) awaitTaken() byte {
	limit := time.NewTimer(min(takenWait, w.timeout))
	defer limit.Stop()
	quick := time.NewTimer(min(quickAnswer, w.timeout))
	defer quick.Stop()
	var waiting time.Time
	for {
		select {
		case next, open := <-w.packets:
			switch {
			case !open:
				return 0
			case next.kind == answerWait:
				quick.Stop()
				limit.Reset(w.patience())
				waiting = time.Now()
			case next.kind == answerAccepted:
				quick.Stop()
				if !waiting.IsZero() {
					w.head.WaitedMs = time.Since(waiting).Milliseconds()
				}
				w.keeper, _ = strconv.Atoi(string(next.body))
				if w.send() != nil {
					return 0
				}
			default:
				return next.kind
			}
		case <-w.stop:
			return sendCancel
		case <-quick.C:
			return w.giveUp()
		case <-limit.C:
			return w.giveUp()
		}
	}
}

// patience is how long the call waits for a process that is being made. What calls
// share is to be had in that way only; any other is left half of its time to start
// cold, which the supervisor, which does not know that time, has it do sooner.
func (w *warmCall) patience() time.Duration {
	if w.spec.Shared {
		return min(importWait+takenWait, w.timeout)
	}
	return min(importWait+takenWait, w.timeout/2)
}

// giveUp makes sure that the call cannot be taken any more, or finds that it just
// has been: what is in the socket stays readable, and nothing more gets into it.
func (w *warmCall) giveUp() byte {
	descriptor, err := descriptorOf(w.connection)
	if err != nil {
		return 0
	}
	_ = syscall.Shutdown(descriptor, syscall.SHUT_RD)
	for next := range w.packets {
		if next.kind == answerTaken {
			return answerTaken
		}
	}
	return 0
}

// send sends the call itself to the keeper.
func (w *warmCall) send() error {
	w.head.ElapsedMs = time.Since(w.begun).Milliseconds()
	head, err := wire.Marshal(w.head)
	if err != nil {
		return err
	}
	line, err := wire.Marshal(w.line)
	if err != nil {
		return err
	}
	return writePacket(w.connection, sendCall, head, []byte("\n"), line, []byte("\n"), w.payload)
}

// awaitReply waits for what became of a call that has been taken.
func (w *warmCall) awaitReply() ([]byte, warmOutcome) {
	limit := time.NewTimer(time.Until(w.begun.Add(w.timeout + replyMarginWait)))
	defer limit.Stop()
	canceled, stop := false, w.stop
	for {
		select {
		case next, open := <-w.packets:
			switch {
			case open && next.kind == answerReply:
				return next.body, warmDone
			case open && next.kind != answerNotBegun:
			case canceled:
				return canceledReply()
			case open:
				return nil, warmNotRun
			default:
				return framed(lost()), warmDone
			}
		case <-stop:
			stop, canceled = nil, true
			_ = writePacket(w.connection, sendCancel)
			limit.Reset(cancelWait)
		case <-limit.C:
			w.endKeeper()
			if canceled {
				return canceledReply()
			}
			return framed(wire.Failf(wire.TimedOut, "no result within %d ms", w.timeout.Milliseconds())), warmDone
		}
	}
}

func lost() *wire.Failure {
	return &wire.Failure{Kind: wire.NoResult, Type: "KeeperLost", Message: "the process that looked after the handler was lost before there was a result"}
}

// endKeeper ends a keeper that does not answer, which may have been stopped, and
// all that is below it.
func (w *warmCall) endKeeper() {
	if w.keeper <= 1 {
		return
	}
	below := descendants(w.keeper)
	_ = syscall.Kill(w.keeper, syscall.SIGKILL)
	for _, pid := range below {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}
