package main

import (
	"os"
	"strconv"
	"syscall"
)

// Numbers that the syscall package lacks; equal on amd64 and arm64.
const (
	sysCloseRange         = 436
	closeRangeCloexec     = 1 << 2
	prSetChildSubreaper   = 36
	prCapBoundingSetDrop  = 24
	capSysAdmin           = 21
	firstInheritableDescr = 3
)

// harden prepares the process itself: descriptors that a daemon left open must
// not reach guest programs, and their orphans must come to the agent so that it
// can end them.
func harden() error {
	if err := closeInherited(); err != nil {
		return err
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
		return os.NewSyscallError("prctl(PR_SET_CHILD_SUBREAPER)", errno)
	}
	return nil
}

func closeInherited() error {
	_, _, errno := syscall.RawSyscall(sysCloseRange, firstInheritableDescr, ^uintptr(0)>>32, closeRangeCloexec)
	if errno == 0 {
		return nil
	}
	// Kernels before 5.11, or a filter that does not know the call.
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd >= firstInheritableDescr {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}

// dropSysAdmin takes CAP_SYS_ADMIN from everything started from here on, so
// that no guest program can undo the private overlays (design rule 7). Without
// CAP_SETPCAP the kernel refuses; a process that lacks it is not the root of a
// microVM, and has nothing to drop.
func dropSysAdmin() {
	_, _, _ = syscall.AllThreadsSyscall(syscall.SYS_PRCTL, prCapBoundingSetDrop, capSysAdmin, 0)
}
