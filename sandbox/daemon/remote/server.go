package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/wire"
)

// Serve does on the machine what a Client at the other end of the connection asks
// for. It returns when the connection ends.
func Serve(connection io.ReadWriteCloser, machine daemon.Machine) error {
	session, err := yamux.Server(connection, configuration())
	if err != nil {
		return err
	}
	defer session.Close()
	for {
		stream, err := session.AcceptStream()
		if err != nil {
			return err
		}
		go serveStream(stream, machine)
	}
}

// call is one operation under way.
type call struct {
	stream  *yamux.Stream
	machine daemon.Machine
	request request
}

func serveStream(stream *yamux.Stream, machine daemon.Machine) {
	defer stream.Close()
	c := call{stream: stream, machine: machine}
	if wire.ReadJSON(stream, &c.request) != nil {
		return
	}
	if err := c.serve(); err != nil {
		_ = wire.WriteJSON(stream, failed(err))
	}
}

func failed(err error) reply {
	kind := wire.Classify(err)
	switch {
	case errors.Is(err, daemon.ErrExecTimeout):
		kind = failureTimeout
	case errors.Is(err, daemon.ErrMachineGone):
		kind = failureGone
	}
	return reply{Failure: kind, Message: err.Error()}
}

func (c call) serve() error {
	switch c.request.Op {
	case wire.OpExec:
		return c.exec()
	case wire.OpWrite:
		return c.write()
	case wire.OpOpen:
		return c.open()
	}
	do, known := operations[c.request.Op]
	if !known {
		return fmt.Errorf("unknown operation %q", c.request.Op)
	}
	ctx, stop := c.untilHangUp()
	defer stop()
	result, err := do(ctx, c.machine, c.request.Arguments)
	if err != nil {
		return err
	}
	return c.answer(result)
}

// operations are those whose arguments and result are each one JSON text.
var operations = map[wire.Operation]func(context.Context, daemon.Machine, json.RawMessage) (any, error){
	wire.OpStat: with(func(ctx context.Context, m daemon.Machine, path string) (any, error) { return m.Stat(ctx, path) }),
	wire.OpList: with(func(ctx context.Context, m daemon.Machine, path string) (any, error) { return m.List(ctx, path) }),
	wire.OpMakeDir: with(func(ctx context.Context, m daemon.Machine, spec daemon.MakeDirSpec) (any, error) {
		return m.MakeDir(ctx, spec)
	}),
	wire.OpRemove: with(func(ctx context.Context, m daemon.Machine, spec daemon.RemoveSpec) (any, error) {
		return true, m.Remove(ctx, spec)
	}),
	wire.OpChangeMode: with(func(ctx context.Context, m daemon.Machine, spec daemon.ModeSpec) (any, error) {
		return m.ChangeMode(ctx, spec)
	}),
	wire.OpMove: with(func(ctx context.Context, m daemon.Machine, spec daemon.MoveSpec) (any, error) {
		return true, m.Move(ctx, spec)
	}),
	wire.OpGrep: with(func(ctx context.Context, m daemon.Machine, spec daemon.GrepSpec) (any, error) {
		return m.Grep(ctx, spec)
	}),
	wire.OpSed: with(func(ctx context.Context, m daemon.Machine, spec daemon.SedSpec) (any, error) { return m.Sed(ctx, spec) }),
}

func with[A any](do func(context.Context, daemon.Machine, A) (any, error)) func(context.Context, daemon.Machine, json.RawMessage) (any, error) {
	return func(ctx context.Context, m daemon.Machine, text json.RawMessage) (any, error) {
		var arguments A
		if err := json.Unmarshal(text, &arguments); err != nil {
			return nil, err
		}
		return do(ctx, m, arguments)
	}
}

// untilHangUp returns a context that ends when the client closes its half, which
// also frees whoever is writing to it. No content may be due any more.
func (c call) untilHangUp() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, c.stream)
		cancel()
		_ = c.stream.SetWriteDeadline(time.Unix(1, 0))
	}()
	return ctx, cancel
}

// answer sends a result as content, because it may be larger than a frame.
func (c call) answer(result any) error {
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	if len(text) > wire.ResultLimit {
		return fmt.Errorf("the result has %d bytes, at most %d fit", len(text), wire.ResultLimit)
	}
	c.send(reply{}, bytes.NewReader(text))
	return nil
}

// send writes a reply and content after it. A client that hung up is not told.
func (c call) send(r reply, contents ...io.Reader) {
	if wire.WriteJSON(c.stream, r) != nil {
		return
	}
	for _, content := range contents {
		if wire.SendChunks(c.stream, content) != nil {
			return
		}
	}
}

func (c call) exec() error {
	var spec daemon.ExecSpec
	if err := json.Unmarshal(c.request.Arguments, &spec); err != nil {
		return err
	}
	var err error
	if spec.Stdin, err = io.ReadAll(&wire.ChunkReader{Source: c.stream}); err != nil {
		return err
	}
	ctx, stop := c.untilHangUp()
	defer stop()
	outcome, err := c.machine.Exec(ctx, spec)
	if err != nil {
		return err
	}
	c.send(reply{ExitCode: outcome.ExitCode}, bytes.NewReader(outcome.Stdout), bytes.NewReader(outcome.Stderr))
	return nil
}

func (c call) write() error {
	var spec daemon.WriteSpec
	if err := json.Unmarshal(c.request.Arguments, &spec); err != nil {
		return err
	}
	written, err := c.machine.WriteFile(context.Background(), spec, &wire.ChunkReader{Source: c.stream})
	if err != nil {
		return err
	}
	return wire.WriteJSON(c.stream, reply{Written: written})
}

func (c call) open() error {
	var path string
	if err := json.Unmarshal(c.request.Arguments, &path); err != nil {
		return err
	}
	ctx, stop := c.untilHangUp()
	defer stop()
	info, content, err := c.machine.OpenFile(ctx, path)
	if err != nil {
		return err
	}
	defer content.Close()
	c.send(reply{Info: &info}, content)
	return nil
}
