package iii

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

const (
	// inlineLimit is the largest content in bytes that travels in the request.
	inlineLimit = 512 << 10
	// defaultMode is that of a file whose request names none.
	defaultMode = 0o644
)

// writeRequest is that of contracts/iii-sandbox.md §4.1.
type writeRequest struct {
	SandboxID  string               `json:"sandbox_id"`
	Path       string               `json:"path"`
	Mode       string               `json:"mode"`
	Parents    bool                 `json:"parents"`
	Content    *protocol.ChannelRef `json:"content,omitempty"`
	ContentB64 *string              `json:"content_b64,omitempty"`
}

type writeResponse struct {
	BytesWritten int64 `json:"bytes_written"`
}

// WriteFile implements sandbox.Provider: in the request up to 512 KiB, beyond
// that by channel.
func (p *Provider) WriteFile(ctx context.Context, id sandbox.ID, req sandbox.WriteFileRequest) error {
	request := newWriteRequest(id, req)
	var written int64
	var err error
	if req.Size > inlineLimit {
		written, err = p.upload(ctx, request, req)
	} else {
		written, err = p.writeInline(ctx, request, req)
	}
	if err != nil {
		return atPath(err, req.Path)
	}
	if written != req.Size {
		return sandbox.NewFileError(req.Path, fmt.Sprintf("%d bytes were written, want %d", written, req.Size))
	}
	return nil
}

func newWriteRequest(id sandbox.ID, req sandbox.WriteFileRequest) writeRequest {
	mode := req.Mode
	if mode == 0 {
		mode = defaultMode
	}
	return writeRequest{SandboxID: id.Reveal(), Path: req.Path, Mode: fmt.Sprintf("%04o", mode), Parents: true}
}

// upload sends the content through a channel while the daemon writes it.
func (p *Provider) upload(ctx context.Context, request writeRequest, req sandbox.WriteFileRequest) (int64, error) {
	deadline := fileDeadline + time.Duration(req.Size/uploadRate)*time.Second
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	pair, err := p.client.CreateChannel(ctx, 0)
	if err != nil {
		return 0, typed(err, reads)
	}
	request.Content = &pair.Reader
	feeder := p.startFeeder(ctx, pair.Writer, sized(req))
	answer, err := invoke[writeResponse](ctx, p, deadline, "sandbox::fs::write", changes, request)
	var own *contentError
	if fedErr := feeder.end(); err != nil && errors.As(fedErr, &own) {
		return 0, own
	}
	return answer.BytesWritten, err
}

func (p *Provider) writeInline(ctx context.Context, request writeRequest, req sandbox.WriteFileRequest) (int64, error) {
	data, err := io.ReadAll(sized(req))
	if err != nil {
		return 0, err
	}
	text := base64.StdEncoding.EncodeToString(data)
	request.ContentB64 = &text
	answer, err := invoke[writeResponse](ctx, p, fileDeadline, "sandbox::fs::write", changes, request)
	return answer.BytesWritten, err
}
