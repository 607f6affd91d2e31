package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/remote"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/wire"
)

// guest is the one guest of this machine, seen from process 1.
type guest struct {
	port    *port
	backend *namespaces.Backend
}

// prepare does what does not differ between guests, and says so.
func (g *guest) prepare() error {
	var p preparation
	if err := wire.ReadJSON(g.port, &p); err != nil {
		return err
	}
	err := g.makeBackend(p)
	return errors.Join(err, g.say(err))
}

func (g *guest) say(err error) error {
	var a answer
	if err != nil {
		a.Error = err.Error()
	}
	return wire.WriteJSON(g.port, a)
}

func (g *guest) makeBackend(p preparation) (err error) {
	if err := linkRoot(p.Root); err != nil {
		return err
	}
	layer := namespaces.Layer{Scratch: "/layer/scratch", Usr: "/layer/usr"}
	// Half of the memory, of which it is part, as in package namespaces.
	if err := layer.Make(p.Root, int64(p.MemoryMiB)<<20/2); err != nil {
		return fmt.Errorf("making the guest's layer: %w", err)
	}
	g.backend, err = namespaces.New(namespaces.Options{
		Layer:  &layer,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		Root:   p.Root, Available: p.Available, MaxProcesses: p.MaxProcesses, Spare: true, Carry: carry,
	})
	if err != nil {
		return err
	}
	return g.backend.Prepare(context.Background(), p.CPUs, p.MemoryMiB)
}

// linkRoot gives the machine's root what the plan speaks of.
func linkRoot(plan namespaces.RootPlan) error {
	for name, target := range plan.Links {
		if err := os.Symlink(target, "/"+name); err != nil {
			return err
		}
	}
	for i, path := range plan.Trees {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(filepath.Join(treesFolder, strconv.Itoa(i)), path); err != nil {
			return err
		}
	}
	return nil
}

// live becomes one guest and serves it until it has ended.
func (g *guest) live() error {
	if g.backend == nil {
		return errors.New("the machine was not prepared")
	}
	var b birth
	if err := wire.ReadJSON(g.port, &b); err != nil {
		return err
	}
	machine, err := g.begin(b)
	if err := errors.Join(err, g.say(err)); err != nil {
		return err
	}
	go func() {
		<-machine.Done()
		fmt.Fprintln(os.Stderr, "process 1: the guest's agent has ended")
		powerOff()
	}()
	return remote.Serve(g.port, machine)
}

func (g *guest) begin(b birth) (daemon.Machine, error) {
	if err := reseed(b.Seed); err != nil {
		return nil, fmt.Errorf("reseeding: %w", err)
	}
	if err := setClock(b.Now); err != nil {
		return nil, fmt.Errorf("setting the clock: %w", err)
	}
	return g.backend.Boot(context.Background(), b.Spec)
}

func setClock(now time.Time) error {
	spec := unix.NsecToTimespec(now.UnixNano())
	return unix.ClockSettime(unix.CLOCK_REALTIME, &spec)
}

// randomness is the kernel's struct rand_pool_info.
type randomness struct {
	bits, bytes int32
	pool        [seedBytes]byte
}

// reseed gives the kernel's generator fresh randomness and has it start anew from
// there at once.
func reseed(seed []byte) error {
	device, err := os.OpenFile("/dev/urandom", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer device.Close()
	fresh := randomness{bits: int32(len(seed)) * 8, bytes: int32(len(seed))}
	copy(fresh.pool[:], seed)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, device.Fd(), unix.RNDADDENTROPY, uintptr(unsafe.Pointer(&fresh)))
	if errno == 0 {
		_, _, errno = unix.Syscall(unix.SYS_IOCTL, device.Fd(), unix.RNDRESEEDCRNG, 0)
	}
	if errno != 0 {
		return errno
	}
	return nil
}

// carry takes a guest's packets to the daemon, which has the stack and the policy.
func carry(device io.ReadWriteCloser, _ []int) (namespaces.NetworkEnd, error) {
	out, err := openPort(networkPort)
	if err != nil {
		return nil, err
	}
	packets := &packetPort{stream: out}
	go pump(packets, device)
	go pump(device, packets)
	return &carrier{device: device, port: out}, nil
}

// carrier is the machine's end of a guest's network. The daemon knows of its use.
type carrier struct{ device, port io.Closer }

// Close implements namespaces.NetworkEnd.
func (c *carrier) Close() error { return errors.Join(c.device.Close(), c.port.Close()) }

// LastUse implements namespaces.NetworkEnd.
func (c *carrier) LastUse() time.Time { return time.Time{} }
