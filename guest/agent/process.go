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
	stdin    []byte     // nil: /dev/null
	envelope []byte     // descriptor 3; nil: a command without host, and so without channel
	keepOpen bool       // more follows the envelope
	extra    []*os.File // descriptor 5 and following
	stdout   io.Writer
	stderr   io.Writer
}

// life is the part of a process that depends on how it came about.
type life interface {
	// end says how it ended; valid after exited is closed.
	end() (exitCode int, signal string)
	// kill ends it and everything that stems from it.
	kill(exited <-chan struct{})
	pid() int
}

// process is a running interpreter and everything it started.
type process struct {
	life
	pipes   pipes
	frames  chan frame
	exited  chan struct{}
	drained chan struct{}
	begun   time.Time
	stdout  io.Writer
	stderr  io.Writer
}

// start must be called on the main thread; see main.
func (p program) start() (*process, error) {
	opened, err := openPipes(p.stdin != nil)
	if err != nil {
		return nil, err
	}
	command := p.commandWith(opened)
	started := newProcess(child{command}, opened)
	dropSysAdmin()
	started.begun = time.Now()
	if err := command.Start(); err != nil {
		opened.close()
		return nil, err
	}
	started.attend(p.stdout, p.stderr)
	started.give(p)
	go func() {
		_ = command.Wait()
		close(started.exited)
	}()
	return started, nil
}

func newProcess(life life, opened pipes) *process {
	return &process{
		life: life, pipes: opened, begun: time.Now(),
		frames: make(chan frame, 4), exited: make(chan struct{}), drained: make(chan struct{}, 2),
	}
}

func (p program) commandWith(opened pipes) *exec.Cmd {
	command := &exec.Cmd{
		Path: p.command[0], Args: p.command, Dir: p.dir, Env: p.env,
		Stdout: opened[stdoutPipe].theirs, Stderr: opened[stderrPipe].theirs,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	if p.envelope != nil {
		command.ExtraFiles = append([]*os.File{opened[envelopePipe].theirs, opened[channelPipe].theirs}, p.extra...)
	}
	if p.stdin != nil {
		command.Stdin = opened[stdinPipe].theirs
	}
	return command
}

// attend reads the running interpreter.
func (s *process) attend(stdout, stderr io.Writer) {
	s.stdout, s.stderr = stdout, stderr
	for _, opened := range s.pipes {
		opened.theirs.Close()
	}
	go readFrames(s.pipes[channelPipe].reader(), s.frames)
	go s.pipes[stdoutPipe].drain(stdout, s.drained)
	go s.pipes[stderrPipe].drain(stderr, s.drained)
}

// give feeds it.
func (s *process) give(p program) {
	if !p.keepOpen {
		go s.pipes[envelopePipe].feed(p.envelope)
	} else if _, err := s.pipes[envelopePipe].ours.Write(p.envelope); err != nil {
		s.pipes[envelopePipe].ours.Close() // it has ended already
	}
	if p.stdin != nil {
		go s.pipes[stdinPipe].feed(p.stdin)
	}
}

// lastFrames bounds waiting for frames of an interpreter that has exited: a
// grandchild may hold the channel open for ever.
func (s *process) lastFrames() { s.pipes[channelPipe].drainUntil(time.Now().Add(lastFramesWait)) }

// kill ends the interpreter, its process group and whatever left the group.
func (s *process) kill() { s.life.kill(s.exited) }

// stop keeps the process and its group from running any further, without waiting
// for their end.
func (s *process) stop() { _ = syscall.Kill(-s.pid(), syscall.SIGKILL) }

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

// child is an interpreter that this process started itself.
type child struct{ cmd *exec.Cmd }

func (c child) pid() int { return c.cmd.Process.Pid }

func (c child) kill(exited <-chan struct{}) {
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	<-exited
	endDescendants()
}

func (c child) end() (exitCode int, signal string) {
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		return -1, ""
	}
	return endOf(status)
}

func endOf(status syscall.WaitStatus) (exitCode int, signal string) {
	if status.Signaled() {
		return 128 + int(status.Signal()), signalName(status.Signal())
	}
	return status.ExitStatus(), ""
}
