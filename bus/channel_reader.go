package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/coder/websocket"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// ChannelReader is the reading end of a channel: by Read as bytes, or by Next
// frame by frame. It is for one goroutine at a time.
type ChannelReader struct {
	conn   *websocket.Conn
	ctx    context.Context
	cancel context.CancelFunc
	// frame is the binary frame that Read is in.
	frame io.Reader
	// ended is what every further read returns.
	ended error
}

// ChannelFrame is one frame of a channel.
type ChannelFrame struct {
	// Text is true for a message, false for bytes.
	Text bool
	Data []byte
}

// OpenReader takes the reading end. ctx bounds the reader's whole life.
func (c *Client) OpenReader(ctx context.Context, ref protocol.ChannelRef) (*ChannelReader, error) {
	conn, _, err := c.dialChannel(ctx, ref, protocol.DirectionRead)
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(ctx)
	// One watch costs less than a context in each read.
	context.AfterFunc(life, func() { _ = conn.CloseNow() })
	return &ChannelReader{conn: conn, ctx: life, cancel: cancel}, nil
}

// Read reads the bytes of all binary frames as one stream, to io.EOF when the
// writer has closed. A text frame {"error": …} is a *ChannelError; other text
// frames are skipped. A connection that broke is io.ErrUnexpectedEOF.
func (r *ChannelReader) Read(p []byte) (int, error) {
	for {
		if r.frame == nil {
			if err := r.openBinary(); err != nil {
				return 0, err
			}
		}
		n, err := r.frame.Read(p)
		if errors.Is(err, io.EOF) {
			r.frame, err = nil, nil
		}
		if err != nil {
			return n, r.end(err)
		}
		if n > 0 || len(p) == 0 {
			return n, nil
		}
	}
}

// Next reads one whole frame, or what Read left of one. It does not look into
// text frames. At the end it is io.EOF.
func (r *ChannelReader) Next() (ChannelFrame, error) {
	kind, frame := websocket.MessageBinary, r.frame
	if frame == nil {
		var err error
		if kind, frame, err = r.open(); err != nil {
			return ChannelFrame{}, err
		}
	}
	r.frame = nil
	data, err := io.ReadAll(frame)
	if err != nil {
		return ChannelFrame{}, r.end(err)
	}
	return ChannelFrame{Text: kind == websocket.MessageText, Data: data}, nil
}

// Close gives the end up; the writer's data no longer flows.
func (r *ChannelReader) Close() error {
	r.cancel()
	// The peer may be in the middle of sending and would not answer a closing
	// handshake soon.
	_ = r.conn.CloseNow()
	if r.ended == nil {
		r.ended = errors.New("channel is closed")
	}
	return nil
}

// openBinary comes to the next binary frame, over text frames.
func (r *ChannelReader) openBinary() error {
	for {
		kind, frame, err := r.open()
		if err != nil {
			return err
		}
		if kind == websocket.MessageBinary {
			r.frame = frame
			return nil
		}
		text, err := io.ReadAll(frame)
		if err != nil {
			return r.end(err)
		}
		if reported := reportedError(text); reported != nil {
			r.ended = reported
			return reported
		}
	}
}

func (r *ChannelReader) open() (websocket.MessageType, io.Reader, error) {
	if r.ended != nil {
		return 0, nil, r.ended
	}
	if err := r.ctx.Err(); err != nil {
		return 0, nil, r.end(err)
	}
	kind, frame, err := r.conn.Reader(context.Background())
	if err != nil {
		return 0, nil, r.end(err)
	}
	return kind, frame, nil
}

// end translates the connection's end: codes of close frames carry no meaning
// (contracts/iii-bus.md §8 rule 6).
func (r *ChannelReader) end(err error) error {
	switch {
	case websocket.CloseStatus(err) != -1:
		r.ended = io.EOF
	case r.ctx.Err() != nil:
		r.ended = fmt.Errorf("reading from a channel: %w", r.ctx.Err())
	default:
		r.ended = fmt.Errorf("reading from a channel: %w", io.ErrUnexpectedEOF)
	}
	return r.ended
}

// reportedError is the error that a message reports, as its text or, if it is no
// text, as its JSON; nil for a message of another kind.
func reportedError(text []byte) error {
	var report struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(text, &report) != nil || len(report.Error) == 0 || string(report.Error) == "null" {
		return nil //nolint:nilerr // What is no JSON is a message of another kind.
	}
	var message string
	if json.Unmarshal(report.Error, &message) == nil {
		return &ChannelError{Message: message}
	}
	return &ChannelError{Message: string(report.Error)}
}
