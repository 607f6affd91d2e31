package e2e

import (
	"context"
	"net"
	"os/exec"
	"runtime"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// runUntilEnd starts a command that the kernel kills if this process dies. The
// kernel watches the thread, so that one lives as long as the command.
func runUntilEnd(command *exec.Cmd) (ended chan struct{}) {
	GinkgoHelper()
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	ended = make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait() // a controller that is told to end may say so by its exit code
		}
	}()
	Expect(<-started).To(Succeed())
	return ended
}

// freeAddress is one on loopback that nobody listens at.
func freeAddress(ctx context.Context) string {
	GinkgoHelper()
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(listener.Close()).To(Succeed()) }()
	return listener.Addr().String()
}
