package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// program describes a part of the stack that is a process.
type program struct {
	name string
	path string
	args []string
	env  []string
	// ready returns nil once the part answers; it is asked again until then.
	ready func(context.Context) error
	// patience bounds the time until it is ready.
	patience time.Duration
	// grace is how long it gets to end after SIGTERM before it is killed.
	grace time.Duration
	// onOurDeath is the signal it gets if this process is killed.
	onOurDeath syscall.Signal
}

// process is a program that runs.
type process struct {
	program program
	cmd     *exec.Cmd
	logPath string
	// done is closed after the process and its whole group are gone.
	done chan struct{}
}

// launch starts a program with its output in LOGDIR/NAME.log and waits until it
// is ready. After an error it no longer runs.
func launch(ctx context.Context, n *nursery, logDir string, p program) (*process, error) {
	logPath := filepath.Join(logDir, p.name+".log")
	// Appended to, so that what a part said before it was started again stays.
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(p.path, p.args...) //nolint:noctx // it outlives the context of its start
	cmd.Env = append(baseEnvironment(), p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := n.start(cmd, p.onOurDeath); err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	started := &process{program: p, cmd: cmd, logPath: logPath, done: make(chan struct{})}
	go started.reap()
	if err := started.waitReady(ctx); err != nil {
		return nil, errors.Join(err, started.stop(context.WithoutCancel(ctx)))
	}
	return started, nil
}

// baseEnvironment is what a part gets of ours: no kubeconfig, bus URL or feature
// switch of the developer's shell may change what the stack does.
func baseEnvironment() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG", "XDG_CACHE_HOME"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// reap waits for the end. The rest of the group is killed while the dead leader
// still holds its number, so that no other group can have taken it over.
func (p *process) reap() {
	defer close(p.done)
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	_ = p.cmd.Wait() // how it ended is in ProcessState
}

// running says whether the process has not ended yet.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (p *process) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.program.patience)
	defer cancel()
	err := poll(ctx, p.done, p.program.ready)
	switch {
	case err == nil:
		return nil
	case !p.running():
		return fmt.Errorf("%s ended at its start (%s); the end of its log, %s:\n%s",
			p.program.name, p.cmd.ProcessState, p.logPath, tail(p.logPath))
	default:
		return fmt.Errorf("%s is not ready after %s: %w; the end of its log, %s:\n%s",
			p.program.name, p.program.patience, err, p.logPath, tail(p.logPath))
	}
}

// stop asks the process to end and kills it if it does not, or once the context
// ends. It returns an error only if it had to be killed: what exit code follows
// SIGTERM differs by program.
func (p *process) stop(ctx context.Context) error {
	if !p.running() {
		return nil
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, p.program.grace)
	defer cancel()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	_ = p.cmd.Process.Kill()
	<-p.done
	return fmt.Errorf("%s did not end in time and was killed; see %s", p.program.name, p.logPath)
}

// pollInterval is short because most parts are ready within a second.
const pollInterval = 50 * time.Millisecond

// poll asks until the answer is nil, the context ends or gone is closed, and
// returns the last answer.
func poll(ctx context.Context, gone <-chan struct{}, ask func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-gone:
			return err
		case <-ticker.C:
		}
	}
}

// tailLines is how much of a log goes into an error.
const tailLines = 15

func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
