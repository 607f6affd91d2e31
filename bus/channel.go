package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/coder/websocket"

	"github.com/sandbox-operator/sandbox-operator/bus/cork"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// ErrNoChannel says that the engine does not know a channel, or not with that
// key: it was never made, or it was swept after five minutes unpaired
// (contracts/iii-bus.md §8).
var ErrNoChannel = errors.New("no such channel")

// ChannelError is what the other end of a channel reported by a text frame
// {"error": …} (§8 rule 9).
type ChannelError struct{ Message string }

func (e *ChannelError) Error() string { return "the channel's other end failed: " + e.Message }

// CreateChannel asks the engine for a channel. buffer counts frames, 0 means the
// engine's default of 64; it is clamped to 1…1024. Both references are secrets.
func (c *Client) CreateChannel(ctx context.Context, buffer int) (protocol.ChannelPair, error) {
	type request struct {
		BufferSize int `json:"buffer_size,omitempty"`
	}
	pair, err := Invoke[protocol.ChannelPair](ctx, c, protocol.FunctionChannelsCreate, request{buffer})
	if err != nil {
		return protocol.ChannelPair{}, err
	}
	if pair.Writer.ChannelID == "" || pair.Reader.ChannelID == "" {
		return protocol.ChannelPair{}, errors.New("creating a channel: the engine's answer has no references")
	}
	return pair, nil
}

// dialChannel opens one end. Channels need no connection of the client.
func (c *Client) dialChannel(ctx context.Context, ref protocol.ChannelRef, direction string) (*websocket.Conn, *cork.Conn, error) {
	if ref.Direction != direction {
		return nil, nil, fmt.Errorf("opening a channel: the reference has direction %q, want %q", ref.Direction, direction)
	}
	address := c.url.JoinPath("ws", "channels", url.PathEscape(ref.ChannelID))
	address.RawQuery = url.Values{"key": {ref.AccessKey}, "dir": {direction}}.Encode()
	conn, wire, err := c.dial(ctx, address.String(), &websocket.DialOptions{})
	var refused *handshakeError
	if errors.As(err, &refused) && refused.status == http.StatusNotFound {
		return nil, nil, ErrNoChannel
	}
	if err != nil {
		return nil, nil, fmt.Errorf("opening a channel: %w", err)
	}
	return conn, wire, nil
}

// channelFrame is the size of binary frames in bytes (§1.3).
const channelFrame = 64 << 10

// ChannelWriter is the writing end of a channel. It is for one goroutine at a
// time.
type ChannelWriter struct {
	conn   *websocket.Conn
	wire   *cork.Conn
	ctx    context.Context
	cancel context.CancelFunc
	bound  time.Duration
}

// OpenWriter takes the writing end. ctx bounds the writer's whole life: when it
// ends writes fail and the reader sees the end of data, which it cannot tell
// from success; use CloseWithError for that.
func (c *Client) OpenWriter(ctx context.Context, ref protocol.ChannelRef) (*ChannelWriter, error) {
	conn, wire, err := c.dialChannel(ctx, ref, protocol.DirectionWrite)
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(ctx)
	// Nothing is expected, but pings and the close frame must be answered. The
	// context that comes back ends with the connection.
	return &ChannelWriter{
		conn:   conn,
		wire:   wire,
		ctx:    conn.CloseRead(life),
		cancel: cancel,
		bound:  c.options.timers.farewell,
	}, nil
}

// Write sends bytes in frames of 64 KiB. It blocks while the reader is behind.
func (w *ChannelWriter) Write(p []byte) (n int, err error) {
	// A frame that is masked is written in pieces of 4 KiB, each of which would be
	// a packet.
	w.wire.Hold()
	defer func() {
		if failed := w.wire.Release(); failed != nil && err == nil {
			n, err = 0, fmt.Errorf("writing to a channel: %w", failed)
		}
	}()
	for len(p) > 0 {
		size := min(len(p), channelFrame)
		if err := w.write(websocket.MessageBinary, p[:size]); err != nil {
			return n, fmt.Errorf("writing to a channel: %w", err)
		}
		n += size
		p = p[size:]
	}
	return n, nil
}

// WriteText sends one message, which the reader can tell from bytes.
func (w *ChannelWriter) WriteText(text string) error {
	if err := w.write(websocket.MessageText, []byte(text)); err != nil {
		return fmt.Errorf("writing to a channel: %w", err)
	}
	return nil
}

// write needs no context: the end of the writer's own closes the connection, and
// one watch over that costs less than one for each message.
func (w *ChannelWriter) write(kind websocket.MessageType, message []byte) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	return w.conn.Write(context.Background(), kind, message)
}

// Close ends the data. Everything written before reaches the reader: it is on its
// way before the close is, so there is no need to wait as SDKs do, whose sockets
// may still hold frames (§8 rules 5 and 6).
func (w *ChannelWriter) Close() error {
	defer w.cancel()
	if err := w.ctx.Err(); err != nil {
		_ = w.conn.CloseNow()
		return fmt.Errorf("closing a channel: %w", err)
	}
	bound := time.AfterFunc(w.bound, w.cancel)
	defer bound.Stop()
	if err := w.conn.Close(websocket.StatusNormalClosure, ""); err != nil {
		return fmt.Errorf("closing a channel: %w", err)
	}
	return nil
}

// CloseWithError tells the reader that the data is not whole, and closes.
func (w *ChannelWriter) CloseWithError(message string) error {
	text, err := json.Marshal(map[string]string{"error": message})
	if err != nil {
		return fmt.Errorf("closing a channel: %w", err)
	}
	return errors.Join(w.WriteText(string(text)), w.Close())
}
