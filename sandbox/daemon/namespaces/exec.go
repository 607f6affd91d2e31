package namespaces

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/wire"
)

// killGrace is how long a killed program is waited for.
const killGrace = 2 * time.Second

// Exec runs one program (contracts/iii-sandbox.md §3.2). A cancelled context
// kills it like its timeout does.
func (m *machine) Exec(ctx context.Context, spec daemon.ExecSpec) (daemon.ExecOutcome, error) {
	if len(spec.Argv) == 0 {
		return daemon.ExecOutcome{}, errors.New("a program needs a name")
	}
	started := time.Now()
	streams, err := newStreams(spec.Stdin, spec.OutputLimit)
	if err != nil {
		return daemon.ExecOutcome{}, err
	}
	defer streams.close()
	session, err := m.openSession(streams.guestEnds()...)
	if err != nil {
		return daemon.ExecOutcome{}, err
	}
	defer session.Close()
	streams.start()
	outcome, err := m.run(ctx, session, streams, spec)
	outcome.Duration = time.Since(started)
	return outcome, err
}

// run drives one exec over its session.
func (m *machine) run(ctx context.Context, session *net.UnixConn, streams *streams, spec daemon.ExecSpec) (daemon.ExecOutcome, error) {
	replies := make(chan reply, 2)
	go readReplies(session, replies)
	err := wire.WriteJSON(session, request{Op: wire.OpExec, Argv: spec.Argv, Env: m.programEnv(spec.Env), Workdir: spec.Workdir})
	if err != nil {
		return daemon.ExecOutcome{}, m.gone(err)
	}
	timeout := newTimeout(spec.Timeout)
	defer timeout.Stop()
	var last reply
	for finished := false; !finished; {
		var open bool
		select {
		case last, open = <-replies:
			if !open {
				return daemon.ExecOutcome{}, m.gone(errors.New("the agent hung up"))
			}
			finished = last.Failure != "" || last.Exited
		case <-timeout.C:
			kill(session, replies)
			return daemon.ExecOutcome{}, daemon.ErrExecTimeout
		case <-ctx.Done():
			kill(session, replies)
			return daemon.ExecOutcome{}, ctx.Err()
		}
	}
	if last.Failure != "" {
		return spawnFailure(last, spec.Argv[0])
	}
	return m.collect(ctx, session, replies, streams, timeout, last.ExitCode)
}

// collect waits for the streams: a program that the first one left behind may
// hold them open until the timeout.
func (m *machine) collect(ctx context.Context, session *net.UnixConn, replies chan reply, streams *streams, timeout *time.Timer, code int) (daemon.ExecOutcome, error) {
	select {
	case <-streams.drained:
	case <-timeout.C:
		kill(session, replies)
		return daemon.ExecOutcome{}, daemon.ErrExecTimeout
	case <-ctx.Done():
		kill(session, replies)
		return daemon.ExecOutcome{}, ctx.Err()
	}
	// The frame lets what still runs survive; without it the group is killed.
	if err := wire.WriteFrame(session, []byte("done")); err != nil {
		return daemon.ExecOutcome{}, m.gone(err)
	}
	return daemon.ExecOutcome{Stdout: streams.stdout.bytes, Stderr: streams.stderr.bytes, ExitCode: code}, nil
}

// readReplies passes on what the agent says until it hangs up.
func readReplies(session *net.UnixConn, replies chan<- reply) {
	defer close(replies)
	for range cap(replies) {
		var next reply
		if wire.ReadJSON(session, &next) != nil {
			return
		}
		replies <- next
	}
}

// kill hangs up in the sending direction, at which the agent kills the process
// group, and waits for word that it did.
func kill(session *net.UnixConn, replies <-chan reply) {
	_ = session.CloseWrite()
	grace := time.NewTimer(killGrace)
	defer grace.Stop()
	for {
		select {
		case _, open := <-replies:
			if !open {
				return
			}
		case <-grace.C:
			return
		}
	}
}

// newTimeout is a timer that never fires for a program without a timeout.
func newTimeout(limit time.Duration) *time.Timer {
	if limit <= 0 {
		limit = 1<<63 - 1
	}
	return time.NewTimer(limit)
}

// spawnFailure is the outcome of a program that could not be started.
func spawnFailure(r reply, program string) (daemon.ExecOutcome, error) {
	switch r.Failure {
	case wire.FailureNotFound:
		return daemon.ExecOutcome{ExitCode: 127, Stderr: fmt.Appendf(nil, "%s: %s\n", program, r.Message)}, nil
	case wire.FailureNotExecutable:
		return daemon.ExecOutcome{ExitCode: 126, Stderr: fmt.Appendf(nil, "%s: %s\n", program, r.Message)}, nil
	default:
		return daemon.ExecOutcome{}, fmt.Errorf("starting the program: %s", r.Message)
	}
}

// programEnv is the guest's environment with the program's own over it, sorted.
func (m *machine) programEnv(own map[string]string) []string {
	merged := make(map[string]string, len(m.env)+len(own))
	for name, value := range m.env {
		merged[name] = value
	}
	for name, value := range own {
		merged[name] = value
	}
	list := make([]string, 0, len(merged))
	for name, value := range merged {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}
