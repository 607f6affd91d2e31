package qemu

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// initPath is where the kernel finds this binary in the initial file system.
const initPath = "/init"

// RunInitIfAsked turns this process into process 1 of a virtual machine, and does
// not return, when a machine's kernel started it as one. Call it in main after that
// of package namespaces, whose agents are this binary too.
func RunInitIfAsked() {
	if os.Getpid() != 1 || os.Args[0] != initPath {
		return
	}
	if _, err := os.Stat(modulesFolder); err != nil {
		return
	}
	if err := runInit(); err != nil {
		fmt.Fprintln(os.Stderr, "process 1:", err)
	}
	powerOff()
}

// powerOff ends the machine; the daemon sees QEMU end.
func powerOff() {
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART); err != nil {
		// The kernel ends the machine when its first process ends.
		os.Exit(1)
	}
}

// runInit makes the kernel's bare start a place for a guest, then serves it until
// the guest has ended.
func runInit() error {
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"mounting the kernel's file systems", mountKernel},
		{"loading modules", loadModules},
		{"making the root", makeMachineRoot},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	port, err := openPort(controlPort)
	if err != nil {
		return err
	}
	g := &guest{port: port}
	return errors.Join(g.prepare(), g.live())
}
