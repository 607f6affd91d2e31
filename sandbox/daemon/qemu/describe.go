package qemu

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// Isolation is the word for sandbox::list: qemu-kvm or qemu-tcg, and qemu before it
// is known which.
func (b *Backend) Isolation() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.accelerator == "" {
		return "qemu"
	}
	return isolation(b.accelerator)
}

func isolation(a accelerator) string { return "qemu-" + string(a) }

// Layers says in words what stands between a guest and this machine.
func (b *Backend) Layers() string {
	words := []string{"a virtual machine with a kernel of its own"}
	if b.Isolation() == isolation(emulation) {
		words = append(words, "an emulated processor, because hardware virtualization does not boot here: programs run 5 to 50 times slower")
	}
	if os.Geteuid() == 0 {
		words = append(words, "QEMU as a user of its own in a folder of its own")
	} else {
		words = append(words, "QEMU as the daemon's own user")
	}
	if b.together.Load() {
		words = append(words, "the host's network within QEMU's reach, because this user may not make namespaces")
	}
	return strings.Join(append(words, "seccomp around QEMU",
		"in the machine namespaces, seccomp, Landlock, user numbers of the guest's own, capabilities over its own files and processes only"), "; ")
}

// Limits says in words what bounds a guest.
func (b *Backend) Limits() string {
	return fmt.Sprintf("the machine's processors and memory, %d MiB more than the guest's; in it cgroup v2: memory, pids, cpu", overheadMiB)
}

// Network says in words what a guest with a network reaches.
func (b *Backend) Network() string {
	return "declared ports of the host's loopback through the gateway, names, and public addresses of the internet"
}

// SelfTest boots a guest, runs a program in it and stops it, or says what this
// machine lacks. The first one makes the images, which takes a while.
func (b *Backend) SelfTest(ctx context.Context) error {
	image := "node"
	if !b.available[image] {
		image = "python"
	}
	machine, err := b.Boot(ctx, daemon.BootSpec{Image: image, CPUs: 1, MemoryMiB: 128})
	if err != nil {
		return err
	}
	return daemon.TryMachine(ctx, machine, 30*time.Second)
}
