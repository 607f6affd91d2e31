package iii

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

type fileRequest struct {
	SandboxID string `json:"sandbox_id"`
	Path      string `json:"path"`
}

// ReadFile implements sandbox.Provider. It reads by the channel even when the
// answer carries the text too: an end that nobody opens keeps the daemon's pump
// and the engine's buffer for minutes (contracts/iii-sandbox.md §4.2). The
// context bounds the reader as well.
func (p *Provider) ReadFile(ctx context.Context, id sandbox.ID, path string) (io.ReadCloser, error) {
	type response struct {
		Content protocol.ChannelRef `json:"content"`
		Size    int64               `json:"size"`
	}
	answer, err := invoke[response](ctx, p, fileDeadline, "sandbox::fs::read", reads, fileRequest{id.Reveal(), path})
	if err != nil {
		return nil, atPath(err, path)
	}
	source, err := p.client.OpenReader(ctx, answer.Content)
	if err != nil {
		return nil, sandbox.NewUnavailableError(fmt.Errorf("opening guest file %s: %w", path, err))
	}
	return &download{source: source, path: path, left: answer.Size}, nil
}

// download checks that as many bytes arrive as the file held, because the
// channel's end does not tell a whole file from a cut one.
type download struct {
	source io.ReadCloser
	path   string
	left   int64
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (int, error) {
	n, err := d.source.Read(p)
	d.left -= int64(n)
	var reported *bus.ChannelError
	switch {
	case err == nil && d.left >= 0:
		return n, nil
	case errors.As(err, &reported):
		return n, sandbox.NewFileError(d.path, clean(reported.Message))
	case d.left < 0 || errors.Is(err, io.EOF) && d.left > 0:
		return n, sandbox.NewFileError(d.path, "the download does not have the size of the file: it was cut, or the file changed")
	}
	return n, err
}

// Close implements io.Closer.
func (d *download) Close() error { return d.source.Close() }
