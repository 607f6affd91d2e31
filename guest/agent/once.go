package main

import (
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// offeredScore makes the kernel, when memory runs out, choose a process that only
// waits.
const offeredScore = "1000"

// offer marks the process as the first that can be done without.
func (k *keeper) offer() {
	if !k.forks { // forks would inherit it
		k.score(offeredScore)
	}
}

// engage takes the mark back.
func (k *keeper) engage() {
	usual, err := os.ReadFile("/proc/self/oom_score_adj")
	if err == nil && !k.forks {
		k.score(string(usual))
	}
}

func (k *keeper) score(value string) {
	_ = os.WriteFile(filepath.Join("/proc", strconv.Itoa(k.interpreter.pid()), "oom_score_adj"), []byte(value), 0)
}

// serveOnce gives the process its one call and ends it.
func (k *keeper) serveOnce(connection *os.File) {
	call, ok := k.engageFor(connection)
	if !ok {
		return
	}
	p := k.interpreter
	go p.pipes[envelopePipe].feed(call.framed())
	if err := p.awaitBegun(begunWait); err != nil {
		call.notBegun()
		return
	}
	outcome := p.awaitResult(call.timeout-call.elapsed, call.stop)
	duration := time.Since(p.begun)
	if outcome.done && outcome.frame != nil && k.isAlone() {
		// It runs no more from here on; the end of so large a process takes the kernel
		// as long as the call took, and the caller need not wait for it.
		p.stop()
		p.catchUp()
	} else {
		p.kill()
		p.finish()
	}
	call.answer(call.report(outcome, duration, call.logs, call.errors), wire.StartReady)
}

// isAlone reports whether the interpreter has no descendants, nor left any.
func (k *keeper) isAlone() bool {
	below, known := childrenOfThreads(k.interpreter.pid())
	own, ownKnown := childrenOfThreads(os.Getpid())
	return known && ownKnown && len(below) == 0 && len(own) == 1
}

// serveShared gives the process one of its calls. False: it has not survived it.
func (k *keeper) serveShared(connection *os.File) bool {
	call, ok := k.engageFor(connection)
	if !ok {
		return k.hasSurvived() && k.rest()
	}
	p := k.interpreter
	fed := make(chan error, 1)
	go func() {
		_, err := p.pipes[envelopePipe].ours.Write(call.framed())
		fed <- err
	}()
	if err := p.awaitBegun(begunWait); err != nil {
		call.notBegun()
		return false
	}
	outcome := p.awaitResult(call.timeout-call.elapsed, call.stop)
	duration := time.Since(p.begun)
	survived := outcome.done && outcome.frame != nil && <-fed == nil
	if survived {
		p.catchUp()
	} else {
		p.kill()
		p.finish()
	}
	reply := call.report(outcome, duration, call.logs, call.errors)
	k.stdout.turn(k.early.logs)
	k.stderr.turn(both{k.early.logs, k.early.errors})
	survived = survived && k.rest()
	call.answer(reply, wire.StartShared)
	return survived
}

// engageFor receives a call and turns the streams to it.
func (k *keeper) engageFor(connection *os.File) (*served, bool) {
	call, err := k.accept(connection)
	if err != nil || !k.hasSurvived() || call.taken() != nil {
		return nil, false
	}
	k.engage()
	k.stdout.turn(call.logs)
	k.stderr.turn(both{call.logs, call.errors})
	k.early.give(call.logs, call.errors)
	k.interpreter.begun = time.Now()
	return call, true
}

func (k *keeper) hasSurvived() bool {
	select {
	case <-k.interpreter.exited:
		return false
	default:
		return true
	}
}
