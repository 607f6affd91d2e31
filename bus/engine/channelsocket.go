package engine

import (
	"context"
	"net/http"
	"strings"

	"github.com/coder/websocket"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// serveChannel connects one end of a channel. Id and key are the only
// credential; who has none sees no difference between a wrong key and no
// channel (contracts/iii-bus.md §8).
func (e *Engine) serveChannel(w http.ResponseWriter, r *http.Request) {
	direction := r.URL.Query().Get("dir")
	c := e.channels.find(r.PathValue("id"), r.URL.Query().Get("key"))
	if c == nil || direction != protocol.DirectionRead && direction != protocol.DirectionWrite {
		http.NotFound(w, r)
		return
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		http.Error(w, "a channel end is a websocket", http.StatusUpgradeRequired)
		return
	}
	// The end is taken before the upgrade, so that who connected first has it.
	first := e.channels.take(c, direction)
	socket, err := accept(w, r)
	if err != nil {
		if first {
			e.channels.remove(c)
		}
		return
	}
	defer func() { _ = socket.CloseNow() }()
	switch {
	case !first:
		_ = socket.Close(websocket.StatusPolicyViolation, "")
	case direction == protocol.DirectionWrite:
		e.serveWriter(socket, c)
	default:
		e.serveReader(socket, c)
	}
}

// serveWriter reads the writer's socket only as fast as the buffer empties:
// that is the back-pressure.
func (e *Engine) serveWriter(socket *websocket.Conn, c *channel) {
	defer e.channels.endWriter(c)
	ctx, cancel := c.context(e.ctx, c.readerGone)
	defer cancel()
	for {
		i, err := receiveItem(ctx, socket)
		if err != nil || !c.put(ctx, i) {
			return
		}
	}
}

// serveReader sends what comes until the writer has ended or the reader went.
func (e *Engine) serveReader(socket *websocket.Conn, c *channel) {
	defer e.channels.endReader(c)
	ctx, cancel := c.context(e.ctx, nil)
	defer cancel()
	ctx = socket.CloseRead(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case i, more := <-c.items:
			if !more {
				_ = socket.Close(websocket.StatusNormalClosure, "")
				return
			}
			if !sendItem(ctx, socket, i) {
				return
			}
		}
	}
}

// sendItem may take as long as an unpaired channel lives: readers that pause
// are normal, readers that are stuck are not.
func sendItem(ctx context.Context, socket *websocket.Conn, i item) bool {
	ctx, cancel := context.WithTimeout(ctx, unpairedChannelTTL)
	defer cancel()
	defer i.release()
	return socket.Write(ctx, i.kind, i.data) == nil
}

// context ends with the parent, when the channel is aborted, and on gone.
func (c *channel) context(parent context.Context, gone <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	go func() {
		defer cancel()
		select {
		case <-c.aborted:
		case <-gone:
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
