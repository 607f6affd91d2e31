package namespaces

import (
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// compiledFilters are the programs of programPolicies. Compiling takes a large
// part of a boot, so that an agent does it while it waits to be told what to be.
var compiledFilters = sync.OnceValues(func() ([][]syscall.SockFilter, error) {
	var programs [][]syscall.SockFilter
	for _, policy := range programPolicies() {
		instructions, err := policy.Assemble()
		if err != nil {
			return nil, fmt.Errorf("assembling the filter: %w", err)
		}
		raw, err := bpf.Assemble(instructions)
		if err != nil {
			return nil, fmt.Errorf("encoding the filter: %w", err)
		}
		program := make([]syscall.SockFilter, 0, len(raw))
		for _, i := range raw {
			program = append(program, syscall.SockFilter{Code: i.Op, Jt: i.Jt, Jf: i.Jf, K: i.K})
		}
		programs = append(programs, program)
	}
	return programs, nil
})

// loadFilters puts this thread, and all it starts, behind the filters.
func loadFilters() error {
	programs, err := compiledFilters()
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	for _, program := range programs {
		header := syscall.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
		_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&header)))
		runtime.KeepAlive(program)
		if errno != 0 {
			return fmt.Errorf("loading a filter: %w", errno)
		}
	}
	return nil
}
