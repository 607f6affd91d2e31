package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// process is one role, running.
type process struct {
	greeting greeting

	command *exec.Cmd
	input   io.WriteCloser
	output  *bufio.Reader
	stderr  *strings.Builder
}

// start runs this program in a role, with additions to its environment, and reads
// its greeting.
func start(ctx context.Context, role, url string, env ...string) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{command: exec.CommandContext(ctx, program), stderr: &strings.Builder{}}
	p.command.Env = append(append(os.Environ(), roleVariable+"="+role, urlVariable+"="+url), env...)
	p.command.Stderr = p.stderr
	if p.input, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.output = bufio.NewReader(output)
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	if err := p.read(&p.greeting); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the %s: %w", role, err), p.end())
	}
	return p, nil
}

func (p *process) read(into any) error {
	line, err := p.output.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, into)
}

// usage asks the process about itself.
func (p *process) usage() (usage, error) {
	if _, err := io.WriteString(p.input, "\n"); err != nil {
		return usage{}, err
	}
	var f usage
	err := p.read(&f)
	return f, err
}

// end closes the process's input and waits for it.
func (p *process) end() error {
	_ = p.input.Close()
	if err := p.command.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(p.stderr.String()))
	}
	return nil
}

// parts are the engine, the executor and the caller, which is this process.
type parts struct {
	engine, executor *process
	caller           caller
	ends             []func() error
}

// startParts starts all three; nothing is left when it fails.
func startParts(ctx context.Context, env ...string) (p *parts, err error) {
	p = &parts{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.end())
		}
	}()
	if p.engine, err = start(ctx, engineRole, "", env...); err != nil {
		return p, err
	}
	p.ends = append(p.ends, p.engine.end)
	if p.executor, err = start(ctx, executorRole, p.engine.greeting.Bus, env...); err != nil {
		return p, err
	}
	p.ends = append(p.ends, p.executor.end)
	end, _, err := connect(ctx, p.engine.greeting.Bus, "near", serveEcho(nearFunction))
	if err != nil {
		return p, err
	}
	p.ends = append(p.ends, end)
	end, err = p.caller.connect(ctx, p.engine.greeting.Bus)
	if err != nil {
		return p, err
	}
	p.ends = append(p.ends, end)
	return p, nil
}

func (p *parts) end() error {
	var err error
	for i := len(p.ends) - 1; i >= 0; i-- {
		err = errors.Join(err, p.ends[i]())
	}
	p.ends = nil
	return err
}

// mallocs counts the allocations so far of caller, engine and executor.
func (p *parts) mallocs() ([3]uint64, error) {
	own, err := ownUsage()
	if err != nil {
		return [3]uint64{}, err
	}
	engine, err := p.engine.usage()
	if err != nil {
		return [3]uint64{}, err
	}
	executor, err := p.executor.usage()
	return [3]uint64{own.Mallocs, engine.Mallocs, executor.Mallocs}, err
}
