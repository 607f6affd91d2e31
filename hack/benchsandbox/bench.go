package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/sandbox-operator/sandbox-operator/hack/figures"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// bench holds what the measurements share.
type bench struct {
	ctx     context.Context
	backend measured
	// cold is a second back end, which has nothing ready for the next guest.
	cold     measured
	options  options
	progress io.Writer
	metrics  figures.Metrics
	// prefix begins the names of the metrics.
	prefix    string
	bursts    []int
	idleCount int
}

const program = "/bin/true"

func (b *bench) boot() (daemon.Machine, error) {
	return b.backend.Boot(b.ctx, daemon.BootSpec{Image: "node", CPUs: 1, MemoryMiB: 64})
}

// use runs a program that does nothing.
func (b *bench) use(m daemon.Machine) error {
	outcome, err := m.Exec(b.ctx, daemon.ExecSpec{Argv: []string{program}, Timeout: time.Minute, OutputLimit: 1024})
	if err == nil && outcome.ExitCode != 0 {
		err = fmt.Errorf("%s ended with %d: %s", program, outcome.ExitCode, outcome.Stderr)
	}
	return err
}

// cycleOnce makes a sandbox, uses and stops it.
func (b *bench) cycleOnce() (created, stopped time.Duration, err error) {
	began := time.Now()
	m, err := b.boot()
	if err != nil {
		return 0, 0, err
	}
	err = b.use(m)
	created = time.Since(began)
	began = time.Now()
	err = errors.Join(err, m.Stop(context.WithoutCancel(b.ctx)))
	return created, time.Since(began), err
}

// coldOnce is cycleOnce on a back end that has nothing ready.
func (b *bench) coldOnce() (time.Duration, error) {
	warm := b.backend
	b.backend = b.cold
	defer func() { b.backend = warm }()
	took, _, err := b.cycleOnce()
	return took, err
}

// create measures create until the end of the first exec, in turn with bwrap
// doing the same: it does not keep its sandbox, so that one call is all of it.
func (b *bench) create() error {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		_, _ = fmt.Fprintln(b.progress, "  bwrap (Debian package bubblewrap) is not installed: no sandbox.create_ratio_bwrap")
	}
	var creates, stops, cold, others []time.Duration
	for range b.options.rounds {
		created, stopped, err := b.cycleOnce()
		if err != nil {
			return err
		}
		if took, err := b.coldOnce(); err == nil {
			cold = append(cold, took)
		} else {
			return err
		}
		creates, stops = append(creates, created), append(stops, stopped)
		if bwrap == "" {
			continue
		}
		took, err := b.spawn(bwrap, bwrapArguments...)
		if err != nil {
			return err
		}
		others = append(others, took)
	}
	b.metrics[b.prefix+"create_ms"], b.metrics[b.prefix+"create_p90_ms"] = median(creates), quantile(creates, 0.9)
	b.metrics[b.prefix+"create_cold_ms"] = median(cold)
	b.metrics[b.prefix+"stop_ms"] = median(stops)
	if bwrap != "" {
		b.metrics[b.prefix+"bwrap_ms"] = median(others)
		b.metrics[b.prefix+"create_ratio_bwrap"] = median(creates) / median(others)
	}
	return nil
}

// bwrapArguments give what a guest has: all namespaces, a root of its own with
// the host's /usr, and no capabilities.
var bwrapArguments = []string{
	"--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL", "--hostname", "sandbox",
	"--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
	"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--dir", "/etc", program,
}

// spawn runs a program of the host.
func (b *bench) spawn(name string, arguments ...string) (time.Duration, error) {
	began := time.Now()
	output, err := exec.CommandContext(b.ctx, name, arguments...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", name, err, output)
	}
	return time.Since(began), err
}

// exec measures an exec in a sandbox, in turn with the bare spawn of the same.
func (b *bench) exec() error {
	m, err := b.boot()
	if err != nil {
		return err
	}
	var execs, spawns []time.Duration
	for range b.options.rounds * 3 {
		began := time.Now()
		if err = b.use(m); err != nil {
			break
		}
		execs = append(execs, time.Since(began))
		var took time.Duration
		if took, err = b.spawn(program); err != nil {
			break
		}
		spawns = append(spawns, took)
	}
	if err = errors.Join(err, m.Stop(context.WithoutCancel(b.ctx))); err != nil {
		return err
	}
	b.metrics[b.prefix+"exec_ms"], b.metrics[b.prefix+"spawn_ms"] = median(execs), median(spawns)
	b.metrics[b.prefix+"exec_over_spawn_ms"] = median(execs) - median(spawns)
	return nil
}

// concurrent measures how long creates take that begin at the same time.
func (b *bench) concurrent() error {
	for _, n := range b.bursts {
		took := make([]time.Duration, n)
		failures := make([]error, n)
		began := time.Now()
		var group sync.WaitGroup
		for i := range n {
			group.Go(func() { took[i], _, failures[i] = b.cycleOnce() })
		}
		group.Wait()
		if err := errors.Join(failures...); err != nil {
			return err
		}
		b.metrics[fmt.Sprintf("%sconcurrent_%d_ms", b.prefix, n)] = median(took)
		b.metrics[fmt.Sprintf("%sconcurrent_%d_all_ms", b.prefix, n)] = millis(time.Since(began))
	}
	return nil
}

// many boots n sandboxes, a few at a time, and uses each once.
func (b *bench) many(n int) ([]daemon.Machine, error) {
	machines := make([]daemon.Machine, n)
	failures := make([]error, n)
	slots := make(chan struct{}, 4)
	var group sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			if machines[i], failures[i] = b.boot(); failures[i] == nil {
				failures[i] = b.use(machines[i])
			}
		})
	}
	group.Wait()
	return machines, errors.Join(failures...)
}

func (b *bench) stopAll(machines []daemon.Machine) error {
	var failed error
	for _, m := range machines {
		if m != nil {
			failed = errors.Join(failed, m.Stop(context.WithoutCancel(b.ctx)))
		}
	}
	return failed
}
