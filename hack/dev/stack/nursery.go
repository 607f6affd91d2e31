package stack

import (
	"os/exec"
	"runtime"
	"syscall"
)

// nursery starts processes that the kernel ends when this process dies,
// whatever way it dies. The kernel's parent death signal follows the thread that
// started the process, not the whole program, and Go ends threads as it likes;
// so all are started from one thread that lives as long as the nursery.
type nursery struct {
	requests chan birth
	done     chan struct{}
}

type birth struct {
	cmd    *exec.Cmd
	result chan error
}

func newNursery() *nursery {
	n := &nursery{requests: make(chan birth), done: make(chan struct{})}
	go n.serve()
	return n
}

func (n *nursery) serve() {
	// Never unlocked: the thread ends with this goroutine, that is in close, when
	// all processes are gone.
	runtime.LockOSThread()
	defer close(n.done)
	for b := range n.requests {
		b.result <- b.cmd.Start()
	}
}

// start runs the command in a process group of its own, so that a Ctrl-C at the
// terminal reaches only this program, which then ends the parts in order.
func (n *nursery) start(cmd *exec.Cmd, onOurDeath syscall.Signal) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: onOurDeath}
	b := birth{cmd: cmd, result: make(chan error, 1)}
	n.requests <- b
	return <-b.result
}

// close ends the thread; every process that is still alive gets its death
// signal then.
func (n *nursery) close() {
	close(n.requests)
	<-n.done
}
