package iii

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// uploadPiece is what a feeder hands over at once, in bytes: some frames of the
// channel, which leave together.
const uploadPiece = 256 << 10

// farewell bounds how long a feeder whose caller has left may take to tell the
// daemon so.
const farewell = 2 * time.Second

// feeder sends a content into a channel. The channel's end looks the same to the
// daemon whether all was sent or the sender left; so a feeder that stops early
// says so in a message, and the daemon keeps the old file
// (contracts/iii-sandbox.md §4.1, contracts/iii-bus.md §8 rule 9).
type feeder struct {
	caller context.Context
	// stop ends the sending at once.
	stop context.CancelFunc
	done chan error
}

// startFeeder begins to send; every start is followed by one end.
func (p *Provider) startFeeder(ctx context.Context, ref protocol.ChannelRef, source io.Reader) *feeder {
	// The socket outlives the caller's context for the length of the message.
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	f := &feeder{caller: ctx, stop: stop, done: make(chan error, 1)}
	go func() { f.done <- p.feed(life, ref, &callerReader{ctx, source}) }()
	return f
}

// end waits for the sending to end and returns its error. With an answer there
// is nothing more to send; without one the daemon is told.
func (f *feeder) end() error {
	defer f.stop()
	if f.caller.Err() == nil {
		f.stop()
	}
	bound := time.AfterFunc(farewell, f.stop)
	defer bound.Stop()
	return <-f.done
}

func (p *Provider) feed(life context.Context, ref protocol.ChannelRef, source io.Reader) error {
	writer, err := p.client.OpenWriter(life, ref)
	if err != nil {
		return err
	}
	if _, err = io.CopyBuffer(writer, source, make([]byte, uploadPiece)); err != nil {
		return errors.Join(err, writer.CloseWithError("the sender gave up"))
	}
	return writer.Close()
}

// callerReader ends with its caller.
type callerReader struct {
	ctx    context.Context
	source io.Reader
}

// Read implements io.Reader.
func (r *callerReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.source.Read(p)
}

// contentError is a failure of the reader that a request brought.
type contentError struct{ err error }

func (e *contentError) Error() string { return "reading the content: " + e.err.Error() }
func (e *contentError) Unwrap() error { return e.err }

// sizedReader reads exactly the announced number of bytes and fails otherwise,
// before a wrong file could be taken for a whole one.
type sizedReader struct {
	source io.Reader
	left   int64
}

func sized(req sandbox.WriteFileRequest) io.Reader {
	source := req.Content
	if source == nil {
		source = strings.NewReader("")
	}
	return &sizedReader{source: source, left: req.Size}
}

// Read implements io.Reader.
func (r *sizedReader) Read(p []byte) (int, error) {
	n, err := r.source.Read(p)
	r.left -= int64(n)
	switch {
	case r.left < 0:
		return 0, &contentError{errors.New("it holds more bytes than announced")}
	case errors.Is(err, io.EOF) && r.left > 0:
		return n, &contentError{fmt.Errorf("it ends %d bytes early: %w", r.left, io.ErrUnexpectedEOF)}
	case err != nil && !errors.Is(err, io.EOF):
		return n, &contentError{err}
	}
	return n, err
}
