package namespaces

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// processOne is the first process of the guest's own process namespace. All it
// does is be there: it mounts the guest's /proc, which only a process inside can,
// then sleeps. Orphans are its children, and because it ignores their ends the
// kernel reaps them at once. It is a copy of the agent that runs system calls
// from a table and no Go: a second start of this binary would double the time of
// a boot, and the agent itself must stay outside.

// systemCall is one call of the table; a failing one ends the process with its
// error number.
type systemCall struct {
	number, a, b, c, d, e uintptr
}

const processOneCalls = 6

// startProcessOne forks it and waits until it has mounted /proc on the folder
// proc of the working directory.
func startProcessOne() error {
	var ready [2]int
	if err := unix.Pipe2(ready[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	pid, err := forkProcessOne(ready[1])
	_ = unix.Close(ready[1])
	defer unix.Close(ready[0])
	if err != nil {
		return err
	}
	var word [1]byte
	if n, _ := unix.Read(ready[0], word[:]); n != 1 {
		var status unix.WaitStatus
		_, _ = unix.Wait4(pid, &status, 0, nil)
		return fmt.Errorf("mounting proc: %w", syscall.Errno(status.ExitStatus()))
	}
	go endWithProcessOne(pid)
	return nil
}

// endWithProcessOne ends the agent when the guest's process namespace is gone:
// nothing could run in it any more.
func endWithProcessOne(pid int) {
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &status, 0, nil)
		if !errors.Is(err, unix.EINTR) {
			os.Exit(1)
		}
	}
}

func forkProcessOne(ready int) (int, error) {
	proc, target := cString("proc"), cString("proc")
	name, word := cString("init"), []byte{1}
	header, none := capabilities(&noCapabilities, nil)
	ignore := [4]uintptr{1} // SIG_IGN
	calls := [processOneCalls]systemCall{
		{unix.SYS_MOUNT, address(proc), address(target), address(proc), unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, 0},
		{unix.SYS_PRCTL, unix.PR_SET_NAME, address(name), 0, 0, 0},
		{unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), uintptr(unsafe.Pointer(&ignore)), 0, 8, 0},
		{unix.SYS_CAPSET, header, none, 0, 0, 0},
		{unix.SYS_WRITE, uintptr(ready), address(word), 1, 0, 0},
		{unix.SYS_CLOSE_RANGE, 0, uintptr(^uint32(0)), 0, 0, 0},
	}
	pid, errno := fork(&calls)
	runtime.KeepAlive([]any{proc, target, name, word, &ignore})
	if errno != 0 {
		return 0, fmt.Errorf("forking: %w", errno)
	}
	return pid, nil
}

// fork runs the calls in a copy of this process. The copy has but this thread,
// so that it must not enter the runtime: no allocation, no growing stack, no
// signal handler.
//
//go:norace
//go:noinline
func fork(calls *[processOneCalls]systemCall) (int, syscall.Errno) {
	var all, before uint64 = ^uint64(0), 0
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK,
		uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&before)), 8, 0, 0)
	pid, errno := forkMasked(calls)
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&before)), 0, 8, 0, 0)
	return pid, errno
}

//go:norace
//go:nosplit
//go:noinline
func forkMasked(calls *[processOneCalls]systemCall) (int, syscall.Errno) {
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return int(pid), errno
	}
	for i := range processOneCalls {
		c := &calls[i]
		if _, _, errno := syscall.RawSyscall6(c.number, c.a, c.b, c.c, c.d, c.e, 0); errno != 0 {
			_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(errno), 0, 0)
		}
	}
	for {
		_, _, _ = syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}

// capabilityHeader and the sets outlive their addresses, which are all that the
// calls above hold.
var (
	capabilityHeader                 = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	noCapabilities, keptCapabilities [2]unix.CapUserData
)

// capabilities makes a set of permitted and effective ones.
func capabilities(set *[2]unix.CapUserData, members []uintptr) (header, data uintptr) {
	for _, capability := range members {
		word, bit := capability/32, uint32(1)<<(capability%32)
		set[word].Effective |= bit
		set[word].Permitted |= bit
	}
	return uintptr(unsafe.Pointer(&capabilityHeader)), uintptr(unsafe.Pointer(set))
}

func cString(text string) []byte { return append([]byte(text), 0) }

func address(bytes []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(bytes))) }
