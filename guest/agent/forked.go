package main

import (
	"encoding/binary"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

const (
	// forkWait is how long a fork may take; a process that is stopped makes none.
	forkWait = 2 * time.Second
	// quietWait is how long processes that have been told to end are given before
	// it is looked for others.
	quietWait = 5 * time.Millisecond

	guardianClean = 'C'
)

// guardian is a fork's life: the process above the handler's own. See
// python/sandbox_fork.py.
type guardian struct {
	keeper *keeper
	// named is closed once the two ids are known, or never will be.
	named   chan struct{}
	self    int
	handler int
	status  syscall.WaitStatus
	known   bool // the handler's status is
	// gone is closed when the guardian has ended; clean, if with nothing below it.
	gone  chan struct{}
	clean bool
}

// serveFork has the process forked for one call.
func (k *keeper) serveFork(connection *os.File) {
	call, err := k.accept(connection)
	if err != nil || !k.hasSurvived() {
		return
	}
	p, life, err := k.fork(call)
	if err != nil {
		return
	}
	named := life.awaitNamed()
	if !named {
		k.isStuck()
	}
	if !named || call.taken() != nil {
		// Without a request a late fork does nothing.
		p.pipes[envelopePipe].ours.Close()
		p.kill()
		p.finish()
		return
	}
	k.early.give(call.logs, call.errors)
	go p.pipes[envelopePipe].feed(call.request)
	if err := p.awaitBegun(begunWait); err != nil {
		call.notBegun()
		p.finish()
		return
	}
	call.answer(call.conclude(p, call.logs, call.errors), wire.StartForked)
}

// isStuck: another keeper's process is to take the calls that follow.
func (k *keeper) isStuck() {
	select {
	case k.stuck <- struct{}{}:
	default:
	}
}

func (k *keeper) fork(call *served) (*process, *guardian, error) {
	opened, err := openPipes(false)
	if err != nil {
		return nil, nil, err
	}
	report, err := newPipe(true)
	if err != nil {
		opened.close()
		return nil, nil, err
	}
	life := &guardian{keeper: k, named: make(chan struct{}), gone: make(chan struct{})}
	p := newProcess(life, opened)
	err = sendOver(k.link, []byte{'F'}, opened[envelopePipe].theirs, opened[channelPipe].theirs,
		opened[stdoutPipe].theirs, opened[stderrPipe].theirs, report.theirs)
	report.theirs.Close()
	if err != nil {
		opened.close()
		report.ours.Close()
		return nil, nil, err
	}
	p.attend(call.logs, both{call.logs, call.errors})
	go life.follow(report.ours, p.exited)
	return p, life, nil
}

// follow reads the guardian's report: two process ids, how the handler ended, and
// a letter if nothing is left.
func (g *guardian) follow(report *os.File, exited chan<- struct{}) {
	defer close(g.gone)
	defer report.Close()
	var ids [8]byte
	_, err := io.ReadFull(report, ids[:])
	if err == nil {
		g.self, g.handler = number(ids[:4]), number(ids[4:])
	}
	close(g.named)
	var status [4]byte
	if _, err := io.ReadFull(report, status[:]); err == nil {
		g.status, g.known = syscall.WaitStatus(number(status[:])), true //nolint:gosec // As the kernel gave it.
	}
	close(exited)
	var last [1]byte
	n, _ := report.Read(last[:])
	g.clean = n == 1 && last[0] == guardianClean
}

func number(bytes []byte) int { return int(int32(binary.NativeEndian.Uint32(bytes))) } //nolint:gosec // It is signed.

func (g *guardian) awaitNamed() bool {
	limit := time.NewTimer(forkWait)
	defer limit.Stop()
	select {
	case <-g.named:
		return g.self > 1
	case <-limit.C:
		return false
	}
}

func (g *guardian) pid() int { return g.handler }

// end: a handler whose guardian was killed dies with it.
func (g *guardian) end() (exitCode int, signal string) {
	if !g.known {
		return endOf(syscall.WaitStatus(syscall.SIGKILL))
	}
	return endOf(g.status)
}

// kill ends the handler and everything below the guardian, which ends by itself
// then.
func (g *guardian) kill(exited <-chan struct{}) {
	select {
	case <-g.named:
	default:
		return // not forked, and with nothing to do if it will be
	}
	if g.self <= 1 {
		return
	}
	select {
	case <-exited:
	default:
		_ = syscall.Kill(-g.handler, syscall.SIGKILL)
		_ = syscall.Kill(g.handler, syscall.SIGKILL)
	}
	g.hunt()
	if !g.clean {
		g.keeper.endStrays()
	}
}

func (g *guardian) hunt() {
	limit := time.NewTimer(endDescendantsWait)
	defer limit.Stop()
	pause := time.NewTimer(quietWait)
	defer pause.Stop()
	for {
		select {
		case <-g.gone:
			return
		case <-pause.C:
			for _, pid := range descendants(g.self) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			pause.Reset(rescanInterval)
		case <-limit.C:
			_ = syscall.Kill(g.self, syscall.SIGKILL)
			<-g.gone
			return
		}
	}
}

// endStrays ends what has come to the keeper because its guardian was killed.
func (k *keeper) endStrays() {
	k.strays.Lock()
	defer k.strays.Unlock()
	endChildrenBut(map[int]bool{k.interpreter.pid(): true})
}
