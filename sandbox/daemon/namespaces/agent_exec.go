package namespaces

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/wire"

	"golang.org/x/sys/unix"
)

// spawner starts programs on the thread that is fit for it.
type spawner struct{ jobs chan<- spawnJob }

type spawnJob struct {
	program string
	request request
	streams []int
	result  chan spawned
}

type spawned struct {
	pid int
	err error
}

// processLimits of every program; set once by boot.
var processLimits []processLimit

// programScore makes the kernel out of memory choose a program, not the agent.
const programScore = "500"

// start forks and executes. A child inherits its badness at the fork, so that
// the agent wears the program's for that moment.
func (j spawnJob) start() spawned {
	_, _ = ownScore.WriteAt([]byte(programScore), 0)
	defer func() { _, _ = ownScore.WriteAt([]byte("0"), 0) }()
	files := make([]uintptr, len(j.streams))
	for i, fd := range j.streams {
		files[i] = uintptr(fd)
	}
	directory := j.request.Workdir
	if directory == "" {
		directory = "/"
	}
	takeOff, err := wearLimits()
	defer takeOff()
	if err != nil {
		return spawned{err: fmt.Errorf("limiting the program: %w", err)}
	}
	pid, err := syscall.ForkExec(j.program, j.request.Argv, &syscall.ProcAttr{
		Dir: directory, Env: j.request.Env, Files: files, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return spawned{err: err}
	}
	if err := fixLimits(pid); err != nil {
		_ = unix.Kill(-pid, unix.SIGKILL)
		_, _ = unix.Wait4(pid, nil, 0, nil)
		return spawned{err: fmt.Errorf("limiting the program: %w", err)}
	}
	return spawned{pid: pid}
}

// wearLimits gives the agent the programs' limits until the returned function is
// called: they are inherited at the fork, and set afterwards they would miss what
// a program starts at once. Only the soft ones, which the agent can take back.
func wearLimits() (takeOff func(), err error) {
	var worn []func()
	takeOff = func() {
		for _, each := range worn {
			each()
		}
	}
	for _, limit := range processLimits {
		var before unix.Rlimit
		if err := unix.Prlimit(0, limit.Resource, nil, &before); err != nil {
			return takeOff, err
		}
		value := unix.Rlimit{Cur: min(limit.Value+agentShare(limit), before.Max), Max: before.Max}
		if err := unix.Prlimit(0, limit.Resource, &value, nil); err != nil {
			return takeOff, err
		}
		worn = append(worn, func() { _ = unix.Prlimit(0, limit.Resource, &before, nil) })
	}
	return takeOff, nil
}

// agentShare is what the agent itself needs while it wears a limit: its memory
// and room for one more of the runtime's arenas. fixLimits takes it away again.
func agentShare(limit processLimit) uint64 {
	if limit.Resource != unix.RLIMIT_DATA {
		return 0
	}
	const dataField, arena = 5, 128 << 20
	text := make([]byte, 256)
	n, _ := ownSize.ReadAt(text, 0)
	fields := strings.Fields(string(text[:n]))
	if len(fields) <= dataField {
		return arena
	}
	pages, _ := strconv.ParseUint(fields[dataField], 10, 64)
	return pages*uint64(os.Getpagesize()) + arena
}

// fixLimits keeps a program from raising its soft limits. One that has ended
// already needs none.
func fixLimits(pid int) error {
	for _, limit := range processLimits {
		value := unix.Rlimit{Cur: limit.Value, Max: limit.Value}
		err := unix.Prlimit(pid, limit.Resource, &value, nil)
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// serveExec starts a program, reports its end, and frees its number only once
// the daemon is through with it, so that its process group cannot become
// another's meanwhile.
func serveExec(session *net.UnixConn, s *spawner, r request, streams []int) {
	pid, err := s.spawn(r, streams)
	if err != nil {
		failure, message := classifySpawn(err)
		_ = wire.WriteJSON(session, reply{Failure: failure, Message: message})
		return
	}
	exited := make(chan int, 1)
	go func() { exited <- awaitExit(pid) }()
	released := make(chan bool, 1)
	go func() {
		_, err := wire.ReadFrame(session, wire.RequestLimit)
		released <- err == nil
	}()
	followProgram(session, pid, exited, released)
	_, _ = unix.Wait4(pid, nil, 0, nil)
}

// followProgram returns when the program has ended and the daemon said that it
// is done with it or is gone; in the latter case the process group is killed.
func followProgram(session *net.UnixConn, pid int, exited <-chan int, released <-chan bool) {
	for exited != nil || released != nil {
		select {
		case code := <-exited:
			exited = nil
			_ = wire.WriteJSON(session, reply{Exited: true, ExitCode: code})
		case done := <-released:
			released = nil
			if !done {
				_ = unix.Kill(-pid, unix.SIGKILL)
			}
		}
	}
}

func (s *spawner) spawn(r request, streams []int) (int, error) {
	defer closeAll(streams)
	if len(r.Argv) == 0 {
		return 0, fs.ErrNotExist
	}
	program, err := findProgram(r)
	if err != nil {
		return 0, err
	}
	job := spawnJob{program: program, request: r, streams: streams, result: make(chan spawned, 1)}
	s.jobs <- job
	started := <-job.result
	return started.pid, started.err
}

// findProgram resolves a bare name along the program's own PATH.
func findProgram(r request) (string, error) {
	name := r.Argv[0]
	if strings.Contains(name, "/") {
		return name, nil
	}
	var refused error
	for _, directory := range filepath.SplitList(variable(r.Env, "PATH")) {
		candidate := filepath.Join(directory, name)
		info, err := os.Stat(candidate)
		if err != nil || info.IsDir() {
			continue
		}
		if info.Mode()&0o111 != 0 {
			return candidate, nil
		}
		refused = fs.ErrPermission
	}
	if refused != nil {
		return "", refused
	}
	return "", fs.ErrNotExist
}

func variable(env []string, name string) string {
	for _, entry := range env {
		if value, found := strings.CutPrefix(entry, name+"="); found {
			return value
		}
	}
	return ""
}

// classifySpawn maps an error of exec to 127 or 126 (contracts/iii-sandbox.md
// §3.2: a missing working directory looks like a missing program).
func classifySpawn(err error) (wire.FailureKind, string) {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return wire.FailureNotFound, "no such file or directory"
	case errors.Is(err, fs.ErrPermission):
		return wire.FailureNotExecutable, "permission denied"
	case errors.Is(err, syscall.ENOEXEC), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ELIBBAD):
		return wire.FailureNotExecutable, "exec format error"
	case errors.Is(err, syscall.E2BIG), errors.Is(err, syscall.ETXTBSY), errors.Is(err, syscall.ELOOP):
		return wire.FailureNotExecutable, err.Error()
	default:
		return wire.FailureOther, fmt.Sprint(err)
	}
}

// awaitExit waits for a program to end without reaping it and returns its exit
// code, which is 128 plus the signal for a killed one.
func awaitExit(pid int) int {
	// A siginfo_t: signal, errno, code, padding, then pid, user and status.
	var info [32]int32
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, unix.P_PID, uintptr(pid),
			uintptr(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOWAIT, 0, 0)
		if errno == 0 {
			break
		}
		if errno != syscall.EINTR {
			return -1
		}
	}
	const exitedByItself = 1 // CLD_EXITED
	code, status := info[2], int(info[6])
	if code == exitedByItself {
		return status
	}
	return 128 + status
}
