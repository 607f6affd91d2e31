package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// inlineLimit is the size in bytes from which a reply has no body (§9).
const inlineLimit = 1 << 20

// readResponse is that of sandbox::fs::read (contracts/iii-sandbox.md §4.2).
type readResponse struct {
	// Content is the reading end of a channel with all bytes of the file.
	Content protocol.ChannelRef `json:"content"`
	// Body is there for text below 1 MiB only.
	Body *string `json:"body,omitempty"`
	Size int64   `json:"size"`
	Mode string  `json:"mode" jsonschema_description:"Four octal digits."`
	// MTime is in Unix seconds.
	MTime int64 `json:"mtime" jsonschema_description:"Unix seconds."`
}

// readFile answers at once and sends the bytes through a channel of its own.
func (d *Daemon) readFile(ctx context.Context, req fileRequest) (readResponse, error) {
	e, err := d.claimPath(req.SandboxID, req.Path)
	if err != nil {
		return readResponse{}, err
	}
	info, file, err := e.machine.OpenFile(ctx, req.Path)
	if err != nil {
		return readResponse{}, machineFault(err, req.Path)
	}
	response := readResponse{Size: info.Size, Mode: formatMode(info.Mode), MTime: info.ModTime.Unix()}
	source := file
	if info.Size < inlineLimit {
		if source, err = response.inlineBody(file); err != nil {
			return readResponse{}, machineFault(err, req.Path)
		}
	}
	response.Content, err = d.startDownload(ctx, source)
	return response, err
}

// inlineBody reads a small file whole, puts it into the answer when it is text,
// and returns the same bytes for the channel.
func (r *readResponse) inlineBody(file io.ReadCloser) (io.ReadCloser, error) {
	data, err := io.ReadAll(io.LimitReader(file, inlineLimit))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	// The file may have changed between its description and its reading.
	r.Size = int64(len(data))
	if len(data) < inlineLimit && utf8.Valid(data) {
		text := string(data)
		r.Body = &text
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// startDownload makes a channel and feeds it until its reader has all, has left,
// or never came, in which case the engine sweeps the channel.
func (d *Daemon) startDownload(ctx context.Context, source io.ReadCloser) (protocol.ChannelRef, error) {
	pair, err := d.client.CreateChannel(ctx, 0)
	if err != nil {
		return protocol.ChannelRef{}, errors.Join(newFault(codeFileIO, "fs i/o error: no channel: %v", err), source.Close())
	}
	d.pumps.Go(func() {
		if err := d.pump(ctx, pair.Writer, source); err != nil {
			d.logger.Debug("Download ended early", "error", err)
		}
	})
	return pair.Reader, nil
}

func (d *Daemon) pump(ctx context.Context, ref protocol.ChannelRef, source io.ReadCloser) error {
	defer source.Close()
	writer, err := d.client.OpenWriter(ctx, ref)
	if err != nil {
		return err
	}
	failed := &recordingReader{source: source}
	_, err = io.Copy(writer, failed)
	if failed.err != nil {
		return errors.Join(failed.err, writer.CloseWithError(fmt.Sprintf("reading the file: %v", failed.err)))
	}
	return errors.Join(err, writer.Close())
}

// recordingReader tells a failing source from a failing destination.
type recordingReader struct {
	source io.Reader
	err    error
}

// Read implements io.Reader.
func (r *recordingReader) Read(p []byte) (int, error) {
	n, err := r.source.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}
