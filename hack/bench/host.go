package main

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/sandbox-operator/sandbox-operator/hack/bench/results"
)

//go:embed guestfiles
var guestFiles embed.FS

// guestFile is one of the programs beside this one.
func guestFile(name string) (string, error) {
	content, err := fs.ReadFile(guestFiles, "guestfiles/"+name)
	return string(content), err
}

// execsPerSandbox is how many programs the daemon runs in a sandbox at once, unless
// it is told otherwise (contracts/iii-sandbox.md §3.3).
const execsPerSandbox = 4

// hostPrograms are handlers and interpreters on the host.
type hostPrograms struct {
	dir          string
	interpreters map[string]string
}

// newHostPrograms writes the handlers and the programs that call them.
func newHostPrograms(dir string) (*hostPrograms, error) {
	h := &hostPrograms{dir: dir, interpreters: map[string]string{}}
	for _, l := range languages {
		interpreter, err := interpreterOf(l)
		if err != nil {
			return nil, err
		}
		h.interpreters[l.name] = interpreter
		for _, program := range []string{"bare", "ready"} {
			content, err := guestFile("host/" + program + "." + l.extension)
			if err != nil {
				return nil, err
			}
			if err := os.WriteFile(h.path(program, l.name), []byte(content), 0o600); err != nil {
				return nil, err
			}
		}
		for _, w := range works {
			if err := os.WriteFile(h.path(w.name, l.name), []byte(w.sources[l.name]), 0o600); err != nil {
				return nil, err
			}
		}
	}
	return h, nil
}

// interpreterOf finds the interpreter that guests have too: not one of the user's
// versions, whose shims are programs of their own.
func interpreterOf(l language) (string, error) {
	if l.name == "python" {
		if _, err := os.Stat("/usr/bin/python3"); err == nil {
			return "/usr/bin/python3", nil
		}
		return exec.LookPath("python3")
	}
	return exec.LookPath(l.name)
}

func (h *hostPrograms) path(name, languageName string) string {
	extension := "mjs"
	if languageName == "python" {
		extension = "py"
	}
	return filepath.Join(h.dir, name+"."+extension)
}

func (h *hostPrograms) command(ctx context.Context, program string, cell results.Cell) *exec.Cmd {
	return exec.CommandContext(ctx, h.interpreters[cell.Language], h.path(program, cell.Language), h.path(cell.Handler, cell.Language))
}

// bare starts an interpreter for each call, as many at once as sandboxes would.
func (h *hostPrograms) bare(cell results.Cell) way {
	slots := make(chan struct{}, execsPerSandbox*cell.Instances)
	return way{name: results.Bare, call: func(ctx context.Context, _ int, payload json.RawMessage) ([]byte, error) {
		slots <- struct{}{}
		defer func() { <-slots }()
		command := h.command(ctx, "bare", cell)
		command.Stdin = bytes.NewReader(payload)
		answer, err := command.Output()
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, cut(failed.Stderr))
		}
		return answer, err
	}}
}

// handOff gives each call to a process that waits for it, made beforehand: in Node
// for this one call, in Python to fork for it. There is one caller.
func (h *hostPrograms) handOff(cell results.Cell) way {
	var waiting *waitingProcess
	end := func() error {
		if waiting == nil {
			return nil
		}
		ended := waiting
		waiting = nil
		return ended.end()
	}
	once := cell.Language == "node"
	return way{
		name: results.HandOff,
		before: func(ctx context.Context) (err error) {
			if once {
				if err := end(); err != nil {
					return err
				}
			}
			if waiting == nil {
				waiting, err = startWaiting(h.command(ctx, "ready", cell))
			}
			return err
		},
		call: func(_ context.Context, _ int, payload json.RawMessage) ([]byte, error) { return waiting.hand(payload) },
		end:  end,
	}
}

// waitingProcess answers a line with a line.
type waitingProcess struct {
	command *exec.Cmd
	input   io.WriteCloser
	output  *bufio.Reader
}

func startWaiting(command *exec.Cmd) (*waitingProcess, error) {
	p := &waitingProcess{command: command}
	var err error
	if p.input, err = command.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.output = bufio.NewReader(output)
	if err := command.Start(); err != nil {
		return nil, err
	}
	if line, err := p.output.ReadString('\n'); err != nil || line != "ready\n" {
		return nil, errors.Join(fmt.Errorf("a process does not get ready: %q", line), err, p.end())
	}
	return p, nil
}

func (p *waitingProcess) hand(payload []byte) ([]byte, error) {
	if _, err := p.input.Write(append(payload, '\n')); err != nil {
		return nil, err
	}
	return p.output.ReadBytes('\n')
}

// end closes the process's input, at which it ends.
func (p *waitingProcess) end() error {
	_ = p.input.Close()
	return p.command.Wait()
}
