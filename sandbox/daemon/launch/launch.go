// Package launch starts the processes that guests are made of.
package launch

import (
	"errors"
	"os/exec"
	"runtime"
	"sync"
)

// Launcher starts processes that are to die with this one, from one thread that
// lives as long as their owner: the kernel kills such a process when the thread that
// started it ends, and Go ends threads as it likes.
type Launcher struct {
	jobs  chan func()
	ended chan struct{}
	once  sync.Once
}

// New starts the thread.
func New() *Launcher {
	l := &Launcher{jobs: make(chan func()), ended: make(chan struct{})}
	go l.run()
	return l
}

func (l *Launcher) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		select {
		case job := <-l.jobs:
			job()
		case <-l.ended:
			return
		}
	}
}

// Start starts the command on the launcher's thread.
func (l *Launcher) Start(command *exec.Cmd) error {
	result := make(chan error, 1)
	select {
	case l.jobs <- func() { result <- command.Start() }:
		return <-result
	case <-l.ended:
		return errors.New("the launcher is closed")
	}
}

// Close ends the thread, and with it what it started.
func (l *Launcher) Close() { l.once.Do(func() { close(l.ended) }) }
