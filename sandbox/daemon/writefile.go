package daemon

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"strings"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// writeRequest is that of sandbox::fs::write (contracts/iii-sandbox.md §4.1).
// Exactly one of Content and ContentB64 is given.
type writeRequest struct {
	SandboxID  string   `json:"sandbox_id"`
	Path       string   `json:"path" jsonschema_description:"Absolute path in the guest."`
	Mode       *string  `json:"mode,omitempty" jsonschema_description:"Octal mode, 0644 when absent."`
	Parents    bool     `json:"parents,omitempty" jsonschema_description:"Makes missing parent folders."`
	Content    *content `json:"content,omitempty"`
	ContentB64 *string  `json:"content_b64,omitempty" jsonschema_description:"Bytes in base64."`
}

type writeResponse struct {
	BytesWritten int64  `json:"bytes_written"`
	Path         string `json:"path"`
}

// writeFile replaces a file of a guest atomically.
func (d *Daemon) writeFile(ctx context.Context, req writeRequest) (writeResponse, error) {
	if (req.Content == nil) == (req.ContentB64 == nil) {
		return writeResponse{}, invalidRequest("give exactly one of content and content_b64")
	}
	mode, err := parseMode(orDefault(req.Mode, defaultFileMode))
	if err != nil {
		return writeResponse{}, err
	}
	inline, err := req.inline()
	if err != nil {
		return writeResponse{}, err
	}
	e, err := d.claimPath(req.SandboxID, req.Path)
	if err != nil {
		return writeResponse{}, err
	}
	spec := WriteSpec{Path: req.Path, Mode: mode, Parents: req.Parents}
	if inline == nil {
		return d.upload(ctx, e, spec, *req.Content.channel)
	}
	return write(ctx, e, spec, inline)
}

// inline is the content that stands in the request, nil when it comes by
// channel.
func (r writeRequest) inline() (io.Reader, error) {
	if r.ContentB64 != nil {
		decoded, err := base64.StdEncoding.DecodeString(*r.ContentB64)
		if err != nil {
			return nil, invalidRequest("content_b64 is not base64: %v", err)
		}
		return bytes.NewReader(decoded), nil
	}
	if r.Content.channel != nil {
		return nil, nil
	}
	return strings.NewReader(r.Content.text), nil
}

func write(ctx context.Context, e *entry, spec WriteSpec, source io.Reader) (writeResponse, error) {
	written, err := e.machine.WriteFile(ctx, spec, source)
	if err != nil {
		return writeResponse{}, machineFault(err, spec.Path)
	}
	return writeResponse{BytesWritten: written, Path: spec.Path}, nil
}

// upload writes what comes through a channel. An upload that pauses too long or
// breaks leaves the old file.
func (d *Daemon) upload(ctx context.Context, e *entry, spec WriteSpec, ref protocol.ChannelRef) (writeResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The context is the reader's whole life, so the opening is bounded apart.
	opening := time.AfterFunc(d.uploadIdle, cancel)
	source, err := d.client.OpenReader(ctx, ref)
	opening.Stop()
	if err != nil {
		return writeResponse{}, newFault(codeChannel, "fs channel aborted: %v", err)
	}
	defer source.Close()
	watched := newStallReader(source, d.uploadIdle, cancel)
	response, err := write(ctx, e, spec, watched)
	if cause := watched.failure(); cause != nil {
		return writeResponse{}, newFault(codeChannel, "fs channel aborted: %v", cause)
	}
	return response, err
}
