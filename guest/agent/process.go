package main

import (
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

const (
	// lastFramesWait lets frames that a dead interpreter had sent be read.
	lastFramesWait = 100 * time.Millisecond
	// drainWait bounds reading streams that a process outside the tree holds.
	drainWait = 200 * time.Millisecond
)

// program describes one interpreter to start.
type program struct {
	command  []string
	dir      string
	env      []string
	stdin    []byte // nil: /dev/null
	envelope []byte // descriptor 3; nil: a command without host, and so without channel
	stdout   io.Writer
	stderr   io.Writer
}

// process is a running interpreter and everything it started.
type process struct {
	cmd     *exec.Cmd
	pipes   pipes
	frames  chan frame
	exited  chan struct{}
	drained chan struct{}
	begun   time.Time
}

// start must be called on the main thread; see main.
func (p program) start() (*process, error) {
	opened, err := openPipes(p.stdin != nil)
	if err != nil {
		return nil, err
	}
	started := &process{
		cmd: p.commandWith(opened), pipes: opened,
		frames: make(chan frame, 4), exited: make(chan struct{}), drained: make(chan struct{}, 2),
	}
	dropSysAdmin()
	started.begun = time.Now()
	if err := started.cmd.Start(); err != nil {
		opened.close()
		return nil, err
	}
	started.attend(p)
	return started, nil
}

func (p program) commandWith(opened pipes) *exec.Cmd {
	command := &exec.Cmd{
		Path: p.command[0], Args: p.command, Dir: p.dir, Env: p.env,
		Stdout: opened[stdoutPipe].theirs, Stderr: opened[stderrPipe].theirs,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	if p.envelope != nil {
		command.ExtraFiles = []*os.File{opened[envelopePipe].theirs, opened[channelPipe].theirs}
	}
	if p.stdin != nil {
		command.Stdin = opened[stdinPipe].theirs
	}
	return command
}

// attend feeds and reads the running interpreter.
func (s *process) attend(p program) {
	for _, opened := range s.pipes {
		opened.theirs.Close()
	}
	go s.pipes[envelopePipe].feed(p.envelope)
	if p.stdin != nil {
		go s.pipes[stdinPipe].feed(p.stdin)
	}
	go readFrames(s.pipes[channelPipe].ours, s.frames)
	go s.pipes[stdoutPipe].drain(p.stdout, s.drained)
	go s.pipes[stderrPipe].drain(p.stderr, s.drained)
	go func() {
		_ = s.cmd.Wait()
		close(s.exited)
	}()
}

// lastFrames bounds waiting for frames of an interpreter that has exited: a
// grandchild may hold the channel open for ever.
func (s *process) lastFrames() { s.pipes[channelPipe].drainUntil(time.Now().Add(lastFramesWait)) }

// kill ends the interpreter, its process group and whatever left the group.
func (s *process) kill() {
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	<-s.exited
	endDescendants()
}

// finish reads what is left of the streams and closes everything.
func (s *process) finish() {
	limit := time.Now().Add(drainWait)
	for _, stream := range []int{stdoutPipe, stderrPipe} {
		s.pipes[stream].drainUntil(limit)
	}
	<-s.drained
	<-s.drained
	s.pipes.close()
}

// end says how the interpreter ended; valid after exited is closed.
func (s *process) end() (exitCode int, signal string) {
	status, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
		return -1, ""
	case status.Signaled():
		return 128 + int(status.Signal()), signalName(status.Signal())
	default:
		return status.ExitStatus(), ""
	}
}
