package qemu

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/launch"
)

// shape is what machines of one saved state have in common.
type shape struct {
	accelerator     accelerator
	cpus, memoryMiB int
	network         bool
	// images are the disks, which their owner closes.
	images []*os.File
}

// process is a running QEMU.
type process struct {
	command *exec.Cmd
	console *launch.Tail
	control net.Conn
	// network and monitor are nil where there is none.
	network net.Conn
	monitor *net.UnixConn
	// ended is closed after the process has ended, when waited has its status.
	ended  chan struct{}
	waited error
}

// consoleBytes is how much of a machine's console is kept for the log.
const consoleBytes = 4096

// connections of a machine while it is being started: our ends and QEMU's.
type starting struct {
	process *process
	files   []*os.File
	theirs  []*os.File
}

// firstInherited is the number of the first descriptor that a child gets.
const firstInherited = 3

// pass gives QEMU a file and returns the number that it has there.
func (s *starting) pass(file *os.File) int {
	s.files = append(s.files, file)
	return firstInherited + len(s.files) - 1
}

// connect makes a socket of which QEMU gets one end.
func (s *starting) connect() (net.Conn, int, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("making a socket pair: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "theirs")
	s.theirs = append(s.theirs, theirs)
	ours := os.NewFile(uintptr(pair[0]), "ours")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	return conn, s.pass(theirs), err
}

// start starts a machine: anew, with a monitor, or from a saved state.
func (b *Backend) start(s shape, state *os.File) (*process, error) {
	run := &starting{process: &process{console: &launch.Tail{Limit: consoleBytes}, ended: make(chan struct{})}}
	defer func() {
		for _, file := range run.theirs {
			_ = file.Close()
		}
	}()
	fds, err := run.connectAll(s, state)
	if err == nil {
		err = b.execute(run, s, fds)
	}
	if err != nil {
		run.process.hangUp()
		return nil, fmt.Errorf("starting QEMU: %w", err)
	}
	return run.process, nil
}

func (s *starting) connectAll(want shape, state *os.File) (fds descriptors, err error) {
	if s.process.control, fds.control, err = s.connect(); err != nil {
		return fds, err
	}
	if want.network {
		if s.process.network, fds.network, err = s.connect(); err != nil {
			return fds, err
		}
	}
	for _, image := range want.images {
		fds.images = append(fds.images, s.pass(image))
	}
	if state != nil {
		fds.state = s.pass(state)
		return fds, nil
	}
	conn, number, err := s.connect()
	if err != nil {
		return fds, err
	}
	s.process.monitor, fds.monitor = conn.(*net.UnixConn), number
	return fds, nil
}

// execute starts the process: as root with a user and a root folder of its own, else
// as this user, and both without any network where the kernel allows that.
func (b *Backend) execute(run *starting, s shape, fds descriptors) error {
	slot, err := b.users.take()
	if err != nil {
		return err
	}
	// An ordinary user may not be allowed to make namespaces; root always is.
	attempts := []bool{true, false}
	if os.Geteuid() == 0 {
		attempts = attempts[:1]
	}
	for _, apart := range attempts {
		run.process.command = b.command(run, s, fds, slot, apart)
		if err = b.launcher.Start(run.process.command); err == nil {
			b.together.Store(!apart)
			go run.process.watch(func() { b.users.give(slot) })
			return nil
		}
	}
	b.users.give(slot)
	return err
}

func (b *Backend) command(run *starting, s shape, fds descriptors, slot int, apart bool) *exec.Cmd {
	root := b.runtime
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	if apart {
		attributes.Cloneflags = unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	}
	if os.Geteuid() == 0 {
		root = "/"
		attributes.Chroot = b.runtime
		attributes.Credential = b.users.credential(slot, s.accelerator)
	} else if apart {
		attributes.Cloneflags |= unix.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	}
	in := func(name string) string { return filepath.Join(root, name) }
	l := layout{
		accelerator: s.accelerator, cpus: s.cpus, memoryMiB: s.memoryMiB, fds: fds,
		firmware: in(runtimeFirmware), kernel: in(runtimeKernel), initial: in(runtimeInitial),
	}
	loader := []string{"qemu", "--library-path", in(runtimeLib), in(runtimeQEMU)}
	return &exec.Cmd{
		Path: in(runtimeLoader), Args: append(loader, l.arguments()...), Dir: "/",
		Env:    []string{"QEMU_MODULE_DIR=" + in(runtimeModules)},
		Stdout: run.process.console, Stderr: run.process.console, ExtraFiles: run.files,
		WaitDelay: time.Second, SysProcAttr: attributes,
	}
}

func (p *process) watch(freed func()) {
	p.waited = p.command.Wait()
	p.hangUp()
	freed()
	close(p.ended)
}

func (p *process) hangUp() {
	for _, conn := range []net.Conn{p.control, p.network} {
		if conn != nil {
			_ = conn.Close()
		}
	}
	if p.monitor != nil {
		_ = p.monitor.Close()
	}
}

func (p *process) kill() { _ = p.command.Process.Kill() }

// stop kills the process and waits until it is gone.
func (p *process) stop(ctx context.Context) error {
	p.kill()
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// why adds what the machine last said to an error of speaking to it.
func (p *process) why(err error) error {
	if err == nil {
		return nil
	}
	if said := p.console.String(); said != "" {
		return fmt.Errorf("%w; it said: %s", err, said)
	}
	return err
}
