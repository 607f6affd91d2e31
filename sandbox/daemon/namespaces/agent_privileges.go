package namespaces

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// guestCapabilities are what programs keep in a user namespace with numbers of
// their own: what package managers, chown, su and servers on low ports need. All
// concern only files and processes of those numbers, which nothing outside of
// the guest has. Not among them: raw sockets, device nodes, chroot, and whatever
// concerns mounts, networks, tracing or the machine.
var guestCapabilities = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL,
	unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_NET_BIND_SERVICE,
}

// dropPrivileges leaves this thread, and all it starts, with at most the
// capabilities to keep, without a way to gain any, and behind Landlock and the
// filter. The agent's other threads are left with the same capabilities.
func dropPrivileges(keep []uintptr) error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clearing ambient capabilities: %w", err)
	}
	for capability := uintptr(0); capability < 64; capability++ {
		if slices.Contains(keep, capability) {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // past the last one that the kernel knows
		}
		if err != nil {
			return fmt.Errorf("dropping capability %d: %w", capability, err)
		}
	}
	if err := setAgentCapabilities(keep); err != nil {
		return err
	}
	if err := restrictPrograms(); err != nil {
		return fmt.Errorf("restricting by Landlock: %w", err)
	}
	return loadFilters()
}

// setAgentCapabilities leaves all threads where Go can reach them with no other
// capabilities, which is not so in a binary with cgo: there this thread's must do.
func setAgentCapabilities(keep []uintptr) error {
	header, data := capabilities(&keptCapabilities, keep)
	_, _, errno := syscall.AllThreadsSyscall(syscall.SYS_CAPSET, header, data, 0)
	if errno == syscall.ENOTSUP {
		_, _, errno = syscall.RawSyscall(syscall.SYS_CAPSET, header, data, 0)
	}
	if errno != 0 {
		return fmt.Errorf("dropping capabilities: %w", errno)
	}
	return nil
}
