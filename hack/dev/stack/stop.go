package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// Stop ends all parts in the reverse order of Start, each waited for, and removes the state, the kubeconfig
// and the env file. Logs stay. A part that does not end by itself is killed and
// reported; once the context ends, nothing gets any more time.
func (s *Stack) Stop(ctx context.Context) error {
	var errs []error
	for {
		last, ok := s.takeLast()
		if !ok {
			break
		}
		began := time.Now()
		if err := last.stopper.stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stopping %s: %w", last.part, err))
			continue
		}
		s.options.Progress(Step{Name: string(last.part) + " ended", Took: time.Since(began)})
	}
	s.nursery.close()
	errs = append(errs, s.removeFiles(), s.lock.Close())
	return errors.Join(errs...)
}

// takeLast removes the part that Start starts last from those that run. Some may have
// been started again since, in another order.
func (s *Stack) takeLast() (runningPart, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.running) == 0 {
		return runningPart{}, false
	}
	last := s.running[0]
	for _, r := range s.running {
		if slices.Index(startOrder, r.part) > slices.Index(startOrder, last.part) {
			last = r
		}
	}
	s.running = slices.DeleteFunc(s.running, func(r runningPart) bool { return r.part == last.part })
	return last, true
}

func (s *Stack) removeFiles() error {
	return errors.Join(
		os.RemoveAll(s.stateDir()),
		removeIfThere(s.Kubeconfig),
		removeIfThere(s.envPath()),
	)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// StopPart ends one part in good order, KillPart without a warning, as a crash
// would. Failed does not report them.
func (s *Stack) StopPart(ctx context.Context, part Part) error {
	r, err := s.take(part)
	if err != nil {
		return err
	}
	return r.stopper.stop(ctx)
}

// KillPart is described at StopPart. The engine has no process to kill.
func (s *Stack) KillPart(part Part) error {
	if s.PID(part) == 0 {
		return fmt.Errorf("%s is not a running process", part)
	}
	r, err := s.take(part)
	if err != nil {
		return err
	}
	p := r.stopper.(*process)
	_ = p.cmd.Process.Kill()
	<-p.done
	return nil
}

// EndPart has act bring a part to its end in its own way, such as losing its lease,
// and waits for that; act gets the process id. It returns the exit code, -1 after
// a signal. Failed does not report it. Once the context ends the part is killed.
func (s *Stack) EndPart(ctx context.Context, part Part, act func(pid int) error) (exitCode int, err error) {
	if s.PID(part) == 0 {
		return 0, fmt.Errorf("%s is not a running process", part)
	}
	r, err := s.take(part)
	if err != nil {
		return 0, err
	}
	p := r.stopper.(*process)
	if err = act(p.cmd.Process.Pid); err == nil {
		select {
		case <-p.done:
			return p.cmd.ProcessState.ExitCode(), nil
		case <-ctx.Done():
			err = fmt.Errorf("%s did not end by itself; see %s", part, p.logPath)
		}
	}
	_ = p.cmd.Process.Kill()
	<-p.done
	return 0, err
}

// PID is the process id of a part, 0 if it is not a running process.
func (s *Stack) PID(part Part) int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if i := s.find(part); i >= 0 {
		if p, ok := s.running[i].stopper.(*process); ok {
			return p.cmd.Process.Pid
		}
	}
	return 0
}

func (s *Stack) take(part Part) (runningPart, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	i := s.find(part)
	if i < 0 {
		return runningPart{}, fmt.Errorf("%s does not run", part)
	}
	r := s.running[i]
	s.running = append(s.running[:i], s.running[i+1:]...)
	return r, nil
}

// lockFolder makes the folder and takes it for this process; the lock goes with
// the process, so nothing is stale after a crash.
func lockFolder(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another stack uses %s: %w", dir, err), file.Close())
	}
	return file, nil
}
