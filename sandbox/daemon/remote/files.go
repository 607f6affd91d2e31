package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/wire"
)

// Stat describes a path and does not follow a final symbolic link.
func (c *Client) Stat(ctx context.Context, path string) (daemon.FileInfo, error) {
	return operate[daemon.FileInfo](ctx, c, opStat, path)
}

// List implements daemon.Files.
func (c *Client) List(ctx context.Context, path string) ([]daemon.FileInfo, error) {
	return operate[[]daemon.FileInfo](ctx, c, opList, path)
}

// MakeDir implements daemon.Files.
func (c *Client) MakeDir(ctx context.Context, spec daemon.MakeDirSpec) (bool, error) {
	return operate[bool](ctx, c, opMakeDir, spec)
}

// Remove implements daemon.Files.
func (c *Client) Remove(ctx context.Context, spec daemon.RemoveSpec) error {
	_, err := operate[bool](ctx, c, opRemove, spec)
	return err
}

// ChangeMode implements daemon.Files.
func (c *Client) ChangeMode(ctx context.Context, spec daemon.ModeSpec) (int, error) {
	return operate[int](ctx, c, opChangeMode, spec)
}

// Move implements daemon.Files.
func (c *Client) Move(ctx context.Context, spec daemon.MoveSpec) error {
	_, err := operate[bool](ctx, c, opMove, spec)
	return err
}

// Grep implements daemon.Files.
func (c *Client) Grep(ctx context.Context, spec daemon.GrepSpec) (daemon.GrepResult, error) {
	return operate[daemon.GrepResult](ctx, c, opGrep, spec)
}

// Sed implements daemon.Files.
func (c *Client) Sed(ctx context.Context, spec daemon.SedSpec) (daemon.SedResult, error) {
	return operate[daemon.SedResult](ctx, c, opSed, spec)
}

// operate asks for an operation whose arguments and result are each one JSON text.
func operate[R any](ctx context.Context, c *Client, op operation, arguments any) (R, error) {
	var result R
	e, err := c.ask(ctx, op, arguments)
	if err != nil {
		return result, err
	}
	defer e.Close()
	if _, err := e.reply(); err != nil {
		return result, err
	}
	text, err := e.content(wire.ResultLimit)
	if err != nil {
		return result, err
	}
	if err := json.Unmarshal(text, &result); err != nil {
		return result, fmt.Errorf("reading the result of %s: %w", op, err)
	}
	return result, nil
}

// WriteFile writes a file whole or not at all and returns how many bytes it was.
func (c *Client) WriteFile(ctx context.Context, spec daemon.WriteSpec, content io.Reader) (int64, error) {
	e, err := c.ask(ctx, opWrite, spec)
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
	e, err := c.ask(ctx, opOpen, path)
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
