package remote

import (
	"context"
	"io"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/wire"
)

// Stat describes a path and does not follow a final symbolic link.
func (c *Client) Stat(ctx context.Context, path string) (daemon.FileInfo, error) {
	return wire.Do[daemon.FileInfo](ctx, c.Files, wire.OpStat, path)
}

func (c *Client) operate(ctx context.Context, op wire.Operation, arguments any) ([]byte, error) {
	e, err := c.ask(ctx, op, arguments)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	if _, err := e.reply(); err != nil {
		return nil, err
	}
	return e.content(wire.ResultLimit)
}

// WriteFile writes a file whole or not at all and returns how many bytes it was.
func (c *Client) WriteFile(ctx context.Context, spec daemon.WriteSpec, content io.Reader) (int64, error) {
	e, err := c.ask(ctx, wire.OpWrite, spec)
	if err != nil {
		return 0, err
	}
	defer e.Close()
	source := &source{content: content}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		// A refusal ends the sending, and the reason is in the reply. A source that
		// fails hangs up, at which the server gives up too.
		if wire.SendChunks(e.Stream, source) != nil {
			_ = e.Stream.Close()
		}
	}()
	r, err := e.reply()
	// A sender that waits for its source would wait for ever.
	if err != nil && !source.failed(sent) {
		return 0, err
	}
	<-sent
	if source.err != nil {
		return 0, source.err
	}
	return r.Written, err
}

// source tells a failing content from a failing connection.
type source struct {
	content io.Reader
	err     error
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.content.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// failed says whether the sending has ended because the content failed.
func (s *source) failed(sent <-chan struct{}) bool {
	select {
	case <-sent:
		return s.err != nil
	default:
		return false
	}
}

// OpenFile opens a regular file for reading. The context bounds the reading too.
func (c *Client) OpenFile(ctx context.Context, path string) (daemon.FileInfo, io.ReadCloser, error) {
	e, err := c.ask(ctx, wire.OpOpen, path)
	if err != nil {
		return daemon.FileInfo{}, nil, err
	}
	r, err := e.reply()
	if err == nil && r.Info == nil {
		err = e.lost(io.ErrUnexpectedEOF)
	}
	if err != nil {
		_ = e.Close()
		return daemon.FileInfo{}, nil, err
	}
	return *r.Info, &openFile{ChunkReader: wire.ChunkReader{Source: e.Stream}, exchange: e}, nil
}

type openFile struct {
	wire.ChunkReader
	exchange *exchange
}

// Close ends the reading.
func (f *openFile) Close() error { return f.exchange.Close() }
