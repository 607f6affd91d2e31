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
	"slices"
	"sync"
	"syscall"
	"time"
)

// The callers' program, without what an installation may have put beside it.
//
//go:embed node/*.json node/*.mjs
var files embed.FS

// driverGrace is how long the callers' program may take to end.
const driverGrace = 10 * time.Second

// errDriverEnded is the answer to commands that the program did not get to.
var errDriverEnded = errors.New("the program of the callers ended")

// driver is a Node process in which the published iii-sdk makes the workers of
// this suite. Its methods may be called concurrently.
type driver struct {
	dir     string
	command *exec.Cmd
	input   io.WriteCloser
	stderr  bytes.Buffer
	ended   chan struct{}

	mutex   sync.Mutex
	next    int
	waiting map[int]chan message
	events  map[string][]json.RawMessage
}

// message is one line that the program wrote.
type message struct {
	ID      int             `json:"id"`
	Value   json.RawMessage `json:"value"`
	Error   *refusal        `json:"error"`
	Event   string          `json:"event"`
	Payload json.RawMessage `json:"payload"`
}

// refusal is an error as a Node caller sees it.
type refusal struct {
	Code       string `json:"code"`
	Message    string `json:"message"`
	Stacktrace string `json:"stacktrace"`
}

func (r *refusal) Error() string { return r.Code + ": " + r.Message }

// startDriver starts the program in a folder of its own, beside its packages.
func startDriver(busURL, modules string) (*driver, error) {
	dir, err := os.MkdirTemp("", "conformance-runner-node-")
	if err != nil {
		return nil, err
	}
	d := &driver{dir: dir, ended: make(chan struct{}), waiting: map[int]chan message{}, events: map[string][]json.RawMessage{}}
	if err := d.launch(busURL, modules); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return d, nil
}

func (d *driver) launch(busURL, modules string) error {
	sources, err := fs.Sub(files, "node")
	if err != nil {
		return err
	}
	if err := os.CopyFS(d.dir, sources); err != nil {
		return fmt.Errorf("writing the callers' program: %w", err)
	}
	if err := os.Symlink(modules, filepath.Join(d.dir, "node_modules")); err != nil {
		return err
	}
	d.command = exec.Command("node", "driver.mjs") //nolint:noctx // stop ends it
	d.command.Dir, d.command.Stderr = d.dir, &d.stderr
	d.command.Env = append(os.Environ(), "III_URL="+busURL)
	d.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if d.input, err = d.command.StdinPipe(); err != nil {
		return err
	}
	output, err := d.command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := d.command.Start(); err != nil {
		return err
	}
	go d.listen(output)
	return nil
}

// listen hands out what the program writes until it ends.
func (d *driver) listen(output io.Reader) {
	defer close(d.ended)
	reader := bufio.NewReader(output)
	for {
		line, err := reader.ReadBytes('\n')
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(line, &m) == nil {
			d.deliver(m)
		}
	}
}

func (d *driver) deliver(m message) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if m.Event != "" {
		d.events[m.Event] = append(d.events[m.Event], m.Payload)
		return
	}
	if waiting, ok := d.waiting[m.ID]; ok {
		waiting <- m
		delete(d.waiting, m.ID)
	}
}

// do sends a command and waits for its answer. The error is a *refusal if the
// command itself failed.
func (d *driver) do(ctx context.Context, verb string, arguments m) (json.RawMessage, error) {
	answer := make(chan message, 1)
	id, err := d.send(verb, arguments, answer)
	if err != nil {
		return nil, err
	}
	select {
	case got := <-answer:
		if got.Error != nil {
			return nil, got.Error
		}
		return got.Value, nil
	case <-d.ended:
		return nil, fmt.Errorf("%w: %s", errDriverEnded, d.stderr.String())
	case <-ctx.Done():
		d.mutex.Lock()
		defer d.mutex.Unlock()
		delete(d.waiting, id)
		return nil, fmt.Errorf("%s was not answered: %w", verb, context.Cause(ctx))
	}
}

func (d *driver) send(verb string, arguments m, answer chan message) (int, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.next++
	command := m{"id": d.next, "do": verb}
	for name, value := range arguments {
		command[name] = value
	}
	line, err := json.Marshal(command)
	if err != nil {
		return 0, err
	}
	d.waiting[d.next] = answer
	_, err = d.input.Write(append(line, '\n'))
	return d.next, err
}

// received are the payloads with which a function was called so far.
func (d *driver) received(function string) []json.RawMessage {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return slices.Clone(d.events[function])
}

// stop ends the program and removes its folder.
func (d *driver) stop() error {
	_ = d.input.Close()
	select {
	case <-d.ended:
	case <-time.After(driverGrace):
		_ = d.command.Process.Kill()
		<-d.ended
	}
	return errors.Join(d.command.Wait(), os.RemoveAll(d.dir))
}
