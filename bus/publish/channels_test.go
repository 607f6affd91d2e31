package publish

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// channelWorld is a worker on an engine of its own.
type channelWorld struct {
	client *bus.Client
	engine *engine.Engine
	denied atomic.Bool
}

func newChannelWorld(t *testing.T) *channelWorld {
	t.Helper()
	e, err := engine.New(engine.Config{Listeners: []engine.Listener{{Name: "workers", Address: "127.0.0.1:0"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := &channelWorld{engine: e}
	w.client, err = bus.New(bus.Options{URL: e.URL("workers"), Name: "operator", Permit: func() bool { return !w.denied.Load() }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.client.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, e.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	if err := w.client.WaitConnected(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// guestEnds opens what a guest is given.
func (w *channelWorld) guestEnds(t *testing.T, calls, replies wire.LinkEnd) (*bus.ChannelReader, *bus.ChannelWriter) {
	t.Helper()
	reader, err := w.client.OpenReader(t.Context(), protocol.ChannelRef{ChannelID: calls.ChannelID, AccessKey: calls.AccessKey, Direction: protocol.DirectionRead})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reader.Close() })
	writer, err := w.client.OpenWriter(t.Context(), protocol.ChannelRef{ChannelID: replies.ChannelID, AccessKey: replies.AccessKey, Direction: protocol.DirectionWrite})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = writer.Close() })
	return reader, writer
}

func TestChannels(t *testing.T) {
	w := newChannelWorld(t)
	opening, done := context.WithCancel(t.Context())
	calls, replies, ends, err := NewChannels(w.client).Open(opening)
	if err != nil {
		t.Fatal(err)
	}
	done() // What is open outlives that.
	reader, writer := w.guestEnds(t, calls, replies)
	for range 3 {
		got := make([]byte, 4)
		if _, err := ends.Write([]byte("call")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(reader, got); err != nil || string(got) != "call" {
			t.Fatalf("the guest read %q, %v", got, err)
		}
		if _, err := writer.Write([]byte("done")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(ends, got); err != nil || string(got) != "done" {
			t.Fatalf("the operator read %q, %v", got, err)
		}
	}
	// A close ends what goes on, and the guest sees it.
	read := make(chan error, 1)
	go func() {
		_, err := ends.Read(make([]byte, 1))
		read <- err
	}()
	if err := ends.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-read:
		if err == nil {
			t.Error("something was read after the end")
		}
	case <-time.After(patience):
		t.Fatal("a read does not end")
	}
	if _, err := io.ReadAll(reader); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the guest sees %v", err)
	}
	if _, err := ends.Write([]byte("x")); err == nil {
		t.Error("something was written after the end")
	}
}

// A close ends a write that waits for a guest that reads nothing.
func TestChannels_closeDuringAWrite(t *testing.T) {
	w := newChannelWorld(t)
	calls, replies, ends, err := NewChannels(w.client).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.guestEnds(t, calls, replies)
	written := make(chan error, 1)
	go func() {
		for piece := make([]byte, 1<<20); ; {
			if _, err := ends.Write(piece); err != nil {
				written <- err
				return
			}
		}
	}()
	if err := ends.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-written:
		if err == nil {
			t.Error("a write succeeded after the end")
		}
	case <-time.After(patience):
		t.Fatal("a write does not end")
	}
}

func TestChannels_refusals(t *testing.T) {
	w := newChannelWorld(t)
	w.denied.Store(true)
	if _, _, _, err := NewChannels(w.client).Open(t.Context()); !errors.Is(err, bus.ErrNotConnected) {
		t.Errorf("without a permit: %v", err)
	}
	w.denied.Store(false)
	if err := w.client.WaitConnected(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, _, _, err := NewChannels(w.client).Open(ended); err == nil {
		t.Error("it opened channels although nobody waits")
	}
}
