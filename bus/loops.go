package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/coder/websocket"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// read is the connection's only reader. Nothing it calls blocks.
func (s *session) read() {
	for {
		frame, err := s.readFrame()
		if err != nil {
			s.fail(fmt.Errorf("reading from the engine: %w", err))
			return
		}
		if !s.permitted() {
			return
		}
		if len(bytes.TrimSpace(frame)) == 0 {
			continue
		}
		msg, err := protocol.Decode(frame)
		if err != nil {
			s.client.log.Warn("Frame of the engine dropped", "cause", err)
			continue
		}
		s.receive(msg)
	}
}

func (s *session) readFrame() ([]byte, error) {
	_, reader, err := s.conn.Reader(context.Background())
	if err != nil {
		return nil, err
	}
	s.touch()
	// Parts of a long frame count as signs of life.
	return io.ReadAll(&heardReader{reader: reader, touch: s.touch})
}

type heardReader struct {
	reader io.Reader
	touch  func()
}

func (r *heardReader) Read(p []byte) (int, error) {
	n, err := r.reader.Read(p)
	if n > 0 {
		r.touch()
	}
	return n, err
}

// write is the connection's only writer of messages. It has no limit of its
// own: an engine that does not read answers no ping either and falls silent.
func (s *session) write() {
	var batch []parcel
	for {
		var err error
		if batch, err = s.outbox.next(s.ctx, batch[:0]); err != nil || !s.permitted() {
			return
		}
		if err := s.writeBatch(batch); err != nil {
			s.fail(fmt.Errorf("writing to the engine: %w", err))
			return
		}
		clear(batch)
	}
}

// writeBatch lets frames that wait together leave together.
func (s *session) writeBatch(batch []parcel) error {
	if err := s.writeParcels(batch); err != nil {
		return err
	}
	for _, p := range batch {
		if p.written != nil {
			close(p.written)
		}
	}
	return nil
}

func (s *session) writeParcels(batch []parcel) (err error) {
	if len(batch) > 1 {
		s.wire.Hold()
		defer func() { err = errors.Join(err, s.wire.Release()) }()
	}
	for _, p := range batch {
		if !p.worthSending() {
			continue
		}
		if err := s.conn.Write(context.Background(), websocket.MessageText, p.frame); err != nil {
			return err
		}
	}
	return nil
}

// keepAlive pings, because the engine does not, and ends a connection on which
// nothing arrives (contracts/iii-bus.md §1.4).
func (s *session) keepAlive() {
	timers := s.client.options.timers
	for pause(s.ctx, timers.ping) {
		if time.Since(time.Unix(0, s.heard.Load())) > timers.silence {
			s.fail(errSilent)
			return
		}
		ctx, cancel := context.WithTimeout(s.ctx, timers.ping)
		// A missing pong is judged by the silence above.
		_ = s.conn.Ping(ctx)
		cancel()
	}
}
