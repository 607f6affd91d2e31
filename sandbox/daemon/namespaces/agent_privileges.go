package namespaces

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/elastic/go-seccomp-bpf"
	"golang.org/x/sys/unix"
)

// dropPrivileges leaves this thread, and all it starts, without capabilities,
// without a way to gain any, and behind the filter. The agent's other threads
// lose theirs too.
func dropPrivileges() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clearing ambient capabilities: %w", err)
	}
	for capability := uintptr(0); capability < 64; capability++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // past the last one that the kernel knows
		}
		if err != nil {
			return fmt.Errorf("dropping capability %d: %w", capability, err)
		}
	}
	if err := dropAgentCapabilities(); err != nil {
		return err
	}
	for _, policy := range programPolicies() {
		if err := seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Policy: policy}); err != nil {
			return err
		}
	}
	return nil
}

// dropAgentCapabilities empties the sets of all threads where Go can reach them,
// which is not so in a binary with cgo: there this thread's must do.
func dropAgentCapabilities() error {
	header, data := emptyCapabilities()
	_, _, errno := syscall.AllThreadsSyscall(syscall.SYS_CAPSET, header, data, 0)
	if errno == syscall.ENOTSUP {
		_, _, errno = syscall.RawSyscall(syscall.SYS_CAPSET, header, data, 0)
	}
	if errno != 0 {
		return fmt.Errorf("dropping capabilities: %w", errno)
	}
	return nil
}
