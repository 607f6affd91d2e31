package engine

import (
	"bytes"
	"context"
	"io"
	"sync"

	"github.com/coder/websocket"
)

const (
	// itemRoom holds the frames into which SDKs cut data, 64 KiB
	// (contracts/iii-bus.md §8), and one byte more by which a longer one is known.
	itemRoom = 64<<10 + 1
	// smallItem is what is copied, so that short messages that wait for a reader
	// hold no large buffer each.
	smallItem = 16 << 10
)

// itemBuffers spare large frames their growth from small buffers.
var itemBuffers = sync.Pool{New: func() any { return new([itemRoom]byte) }}

// item is one frame on its way through a channel.
type item struct {
	kind websocket.MessageType
	data []byte
	// buffer is what data lies in, nil if it is data's alone.
	buffer *[itemRoom]byte
}

// receiveItem reads one frame; release gives its buffer back.
func receiveItem(ctx context.Context, socket *websocket.Conn) (item, error) {
	kind, frame, err := socket.Reader(ctx)
	if err != nil {
		return item{}, err
	}
	i := item{kind: kind, buffer: itemBuffers.Get().(*[itemRoom]byte)}
	n, end := io.ReadFull(frame, i.buffer[:])
	i.data = i.buffer[:n]
	switch {
	case end == nil:
		return i.grow(frame)
	// A broken connection's own are wrapped.
	case end != io.EOF && end != io.ErrUnexpectedEOF:
		i.release()
		return item{}, end
	case n <= smallItem:
		i = i.copied()
	}
	return i, nil
}

// grow reads the rest of a frame that is larger than a buffer.
func (i item) grow(rest io.Reader) (item, error) {
	i = i.copied()
	more, err := io.ReadAll(rest)
	i.data = append(i.data, more...)
	return i, err
}

func (i item) copied() item {
	own := item{kind: i.kind, data: bytes.Clone(i.data)}
	i.release()
	return own
}

// release must be the last use of the data.
func (i item) release() {
	if i.buffer != nil {
		itemBuffers.Put(i.buffer)
	}
}
