package publish

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// Channels makes the connections of links to guests: two data channels of the bus
// each (contracts/iii-bus.md §8). It is a link.Opener.
type Channels struct{ client *bus.Client }

// NewChannels returns those of the client's bus.
func NewChannels(client *bus.Client) *Channels { return &Channels{client: client} }

// Open makes both channels and opens the operator's ends. The guest's are secrets.
func (c *Channels) Open(ctx context.Context) (calls, replies wire.LinkEnd, ends io.ReadWriteCloser, err error) {
	there, err := c.client.CreateChannel(ctx, 0)
	if err != nil {
		return calls, replies, nil, err
	}
	back, err := c.client.CreateChannel(ctx, 0)
	if err != nil {
		return calls, replies, nil, err
	}
	ends, err = c.openEnds(ctx, there.Writer, back.Reader)
	return linkEnd(there.Reader), linkEnd(back.Writer), ends, err
}

func linkEnd(ref protocol.ChannelRef) wire.LinkEnd {
	return wire.LinkEnd{ChannelID: ref.ChannelID, AccessKey: ref.AccessKey}
}

// openEnds bounds the opening by the context, but not what is opened.
func (c *Channels) openEnds(ctx context.Context, write, read protocol.ChannelRef) (io.ReadWriteCloser, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	writer, err := c.client.OpenWriter(life, write)
	if err != nil {
		end()
		return nil, err
	}
	reader, err := c.client.OpenReader(life, read)
	if err != nil {
		end()
		_ = writer.Close() // its context has ended
		return nil, err
	}
	ends := &channelEnds{end: end, writer: writer, reader: reader}
	if !stop() {
		return nil, errors.Join(ctx.Err(), ends.Close())
	}
	return ends, nil
}

// channelEnds are the ends of two channels as one connection. Reading, writing and
// closing may go on at the same time.
type channelEnds struct {
	end              context.CancelFunc
	reading, writing sync.Mutex
	reader           *bus.ChannelReader
	writer           *bus.ChannelWriter
}

func (e *channelEnds) Read(p []byte) (int, error) {
	e.reading.Lock()
	defer e.reading.Unlock()
	return e.reader.Read(p)
}

func (e *channelEnds) Write(p []byte) (int, error) {
	e.writing.Lock()
	defer e.writing.Unlock()
	return e.writer.Write(p)
}

// Close ends both at once: what was written last may be lost.
func (e *channelEnds) Close() error {
	// Reads and writes end by that, and each end is for one goroutine at a time.
	e.end()
	e.writing.Lock()
	defer e.writing.Unlock()
	_ = e.writer.Close() // says only that its context has ended
	e.reading.Lock()
	defer e.reading.Unlock()
	return e.reader.Close()
}
