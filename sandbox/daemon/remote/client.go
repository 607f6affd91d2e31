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

// timeoutGrace is how long after a program's timeout its server may take to say
// so. One that does not has lost its machine to the guest.
const timeoutGrace = 20 * time.Second

// Client is a daemon.Machine without its life: Done and Stop are for whoever made
// the machine. Its methods may be called concurrently.
type Client struct {
	wire.Files
	session *yamux.Session
}

// NewClient speaks to the server at the other end of the connection, which it
// takes over.
func NewClient(connection io.ReadWriteCloser) (*Client, error) {
	session, err := yamux.Client(connection, configuration())
	if err != nil {
		return nil, err
	}
	client := &Client{session: session}
	client.Operate = client.operate
	return client, nil
}

// Close ends the connection and all operations on it.
func (c *Client) Close() error { return c.session.Close() }

// session of one operation.
type exchange struct {
	*yamux.Stream
	ctx  context.Context
	stop func() bool
}

// ask opens a stream and sends a request. The end of the context ends the
// exchange at both sides.
func (c *Client) ask(ctx context.Context, op wire.Operation, arguments any) (*exchange, error) {
	text, err := json.Marshal(arguments)
	if err != nil {
		return nil, err
	}
	stream, err := c.session.OpenStream()
	if err != nil {
		return nil, errors.Join(daemon.ErrMachineGone, err)
	}
	e := &exchange{Stream: stream, ctx: ctx}
	e.stop = context.AfterFunc(ctx, func() {
		_ = stream.SetDeadline(time.Unix(1, 0))
		_ = stream.Close()
	})
	if err := wire.WriteJSON(stream, request{Op: op, Arguments: text}); err != nil {
		_ = e.Close()
		return nil, e.lost(err)
	}
	return e, nil
}

// Close ends the exchange.
func (e *exchange) Close() error {
	e.stop()
	return e.Stream.Close()
}

// lost tells a caller that gave up from a machine that ended.
func (e *exchange) lost(err error) error {
	if e.ctx.Err() != nil {
		return e.ctx.Err()
	}
	return errors.Join(daemon.ErrMachineGone, err)
}

// reply reads the server's reply, and a failure as an error.
func (e *exchange) reply() (reply, error) {
	var r reply
	if err := wire.ReadJSON(e.Stream, &r); err != nil {
		return r, e.lost(err)
	}
	switch r.Failure {
	case failureTimeout:
		return r, daemon.ErrExecTimeout
	case failureGone:
		return r, fmt.Errorf("%s: %w", r.Message, daemon.ErrMachineGone)
	}
	return r, wire.FileError(r.Failure, r.Message)
}

// content reads content whole, of which there must not be more than the limit.
func (e *exchange) content(limit int) ([]byte, error) {
	// One byte more has the reader meet the end mark, behind which the next begins.
	content, err := io.ReadAll(io.LimitReader(&wire.ChunkReader{Source: e.Stream}, int64(limit)+1))
	if err != nil {
		return nil, e.lost(err)
	}
	if len(content) > limit {
		return nil, fmt.Errorf("the guest's side sent more than %d bytes", limit)
	}
	return content, nil
}

// Exec runs one program.
func (c *Client) Exec(ctx context.Context, spec daemon.ExecSpec) (daemon.ExecOutcome, error) {
	if len(spec.Argv) == 0 {
		return daemon.ExecOutcome{}, errors.New("a program needs a name")
	}
	started := time.Now()
	bounded, cancel := ctx, context.CancelFunc(func() {})
	if spec.Timeout > 0 {
		bounded, cancel = context.WithTimeout(ctx, spec.Timeout+timeoutGrace)
	}
	defer cancel()
	outcome, err := c.exec(bounded, spec)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		err = daemon.ErrExecTimeout
	}
	outcome.Duration = time.Since(started)
	return outcome, err
}

func (c *Client) exec(ctx context.Context, spec daemon.ExecSpec) (outcome daemon.ExecOutcome, err error) {
	input := spec.Stdin
	spec.Stdin = nil
	e, err := c.ask(ctx, wire.OpExec, spec)
	if err != nil {
		return outcome, err
	}
	defer e.Close()
	if err := wire.SendChunks(e.Stream, bytes.NewReader(input)); err != nil {
		return outcome, e.lost(err)
	}
	r, err := e.reply()
	if err != nil {
		return outcome, err
	}
	outcome.ExitCode = r.ExitCode
	for _, stream := range []*[]byte{&outcome.Stdout, &outcome.Stderr} {
		if *stream, err = e.content(spec.OutputLimit); err != nil {
			return outcome, err
		}
	}
	return outcome, nil
}
