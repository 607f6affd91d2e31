package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// dying is how long a process that was told to end may take.
const dying = 30 * time.Second

// process is a started served.
type process struct {
	serving
	command    *exec.Cmd
	input      io.Closer
	complaints bytes.Buffer
}

// start runs s in a process of the mode's user and returns once it serves.
func (m mode) start(ctx context.Context, s served) (*process, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	p := &process{command: exec.CommandContext(ctx, "/proc/self/exe")}
	p.command.Dir = "/"
	p.command.Env = []string{serveVariable + "=" + string(text), "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
	p.command.Stderr = &p.complaints
	p.command.SysProcAttr = m.attributes()
	p.command.WaitDelay = dying
	if p.input, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(output).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &p.serving)
	}
	if err != nil {
		err = errors.Join(err, p.stop())
		return nil, fmt.Errorf("the daemon did not start: %w: %s", err, p.complaints.String())
	}
	return p, nil
}

// stop ends the process as a signal would end a daemon, and waits for it.
func (p *process) stop() error {
	_ = p.input.Close()
	ended := make(chan error, 1)
	go func() { ended <- p.command.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(dying):
		_ = p.kill()
		return errors.Join(errors.New("the daemon did not end in time"), <-ended)
	}
}

func (p *process) kill() error { return p.command.Process.Signal(syscall.SIGKILL) }

// pid is the host's number of the process.
func (p *process) pid() int { return p.command.Process.Pid }
