package engine

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/bus/cork"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// connection is one worker. It has one reading goroutine, which handles its
// messages in order, and one writing goroutine.
type connection struct {
	engine  *Engine
	id      string
	token   string
	address string
	// session is nil for trusted connections.
	session *session
	// middleware is the function that sees this connection's calls, if any.
	middleware  string
	connectedAt time.Time
	socket      *websocket.Conn
	// wire is what socket writes to.
	wire    *cork.Conn
	outbox  *outbox
	pending *pending
	// stuck ends the connection when a frame takes too long to leave.
	stuck  *time.Timer
	ctx    context.Context
	cancel context.CancelFunc

	// phase is held while registrations are handled, so that the grace timer
	// and the reader cannot mix their order up.
	phase   sync.Mutex
	settled bool
	queued  []protocol.Message
	grace   *time.Timer

	// Guarded by registry.mu.
	registered bool
	identified bool
	namespace  string
	metadata   workerMetadata
}

// serveWorker runs a worker's connection to its end.
func (e *Engine) serveWorker(w http.ResponseWriter, r *http.Request, l Listener) {
	socket, err := accept(w, r)
	if err != nil {
		e.log.Debug("Worker socket refused", "listener", l.Name, "error", err)
		return
	}
	defer func() { _ = socket.CloseNow() }()
	session, err := e.authenticate(r, l.Policy)
	if err != nil {
		e.log.Info("Worker refused", "listener", l.Name, "error", err)
		e.refuse(socket, err)
		return
	}
	c := e.newConnection(socket, session, r)
	c.middleware = l.MiddlewareFunctionID
	defer c.cancel()
	// One watch over the socket costs less than a context in each read and write.
	defer context.AfterFunc(c.ctx, func() { _ = socket.CloseNow() })()
	if !e.tasks.start(c.write) {
		return
	}
	c.open()
	c.read()
	e.disconnect(c)
}

func (e *Engine) newConnection(socket *websocket.Conn, s *session, r *http.Request) *connection {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	c := &connection{
		engine: e, id: uuid.NewString(), token: uuid.NewString(), address: host, session: s,
		connectedAt: time.Now(), socket: socket, wire: wireOf(r), outbox: newOutbox(), pending: newPending(),
		namespace: protocol.DefaultNamespace,
	}
	c.ctx, c.cancel = context.WithCancel(e.ctx)
	c.stuck = time.AfterFunc(e.config.WriteTimeout, c.dropStuck)
	c.stuck.Stop()
	c.phase.Lock()
	defer c.phase.Unlock()
	c.grace = time.AfterFunc(e.config.NamespaceGrace, c.settle)
	return c
}

// open makes the worker known (contracts/iii-bus.md §4.1).
func (c *connection) open() {
	c.engine.registry.addWorker(c)
	c.push(&protocol.WorkerRegistered{WorkerID: c.id, ReattachToken: c.token})
	c.engine.workersChanged(workerConnected, c.id)
}

// disconnect ends a connection at once. It may be called again and while the
// connection still reads: what comes later finds the worker gone.
func (e *Engine) disconnect(c *connection) {
	c.cancel()
	c.grace.Stop()
	c.outbox.finish()
	e.retire(c)
}

// retire takes back everything a worker had (§4.2).
func (e *Engine) retire(c *connection) {
	removed := e.registry.removeWorker(c)
	e.abandon(c)
	if removed {
		e.workersChanged(workerDisconnected, c.id)
	}
}

func (c *connection) read() {
	for {
		kind, frame, err := c.socket.Read(context.Background())
		if err != nil {
			c.engine.log.Debug("Worker connection ended", "worker", c.id, "error", err)
			return
		}
		if ignorable(kind, frame) {
			continue
		}
		msg, err := protocol.Decode(frame)
		if err != nil {
			c.engine.log.Warn("Frame dropped", "worker", c.id, "error", cut(err.Error(), maxLabelRunes))
			continue
		}
		c.handle(msg)
	}
}

// ignorable frames are blank ones and telemetry (§1.2).
func ignorable(kind websocket.MessageType, frame []byte) bool {
	if kind == websocket.MessageBinary {
		for _, prefix := range []string{"OTLP", "MTRC", "LOGS"} {
			if bytes.HasPrefix(frame, []byte(prefix)) {
				return true
			}
		}
	}
	return len(bytes.TrimSpace(frame)) == 0
}

// write sends queued frames until the outbox ends, then closes politely.
func (c *connection) write() {
	defer c.cancel()
	var batch [][]byte
	for {
		var more bool
		if batch, more = c.outbox.take(c.ctx, batch[:0]); !more {
			break
		}
		if err := c.writeBatch(batch); err != nil {
			c.engine.log.Info("Worker dropped", "worker", c.id, "error", err)
			return
		}
		clear(batch)
	}
	if c.ctx.Err() == nil {
		_ = c.socket.Close(websocket.StatusPolicyViolation, "")
	}
}

// writeBatch lets frames that wait together leave together.
func (c *connection) writeBatch(batch [][]byte) (err error) {
	defer c.stuck.Stop()
	if len(batch) > 1 {
		c.wire.Hold()
		defer func() { err = errors.Join(err, c.wire.Release()) }()
	}
	for _, frame := range batch {
		c.stuck.Reset(c.engine.config.WriteTimeout)
		if err := c.socket.Write(context.Background(), websocket.MessageText, frame); err != nil {
			return err
		}
	}
	return nil
}

func (c *connection) dropStuck() {
	c.engine.log.Info("Worker dropped: it does not read", "worker", c.id)
	c.cancel()
}

// push queues a message without waiting; a worker that is too far behind is
// dropped.
func (c *connection) push(msg protocol.Message) {
	frame, err := protocol.EncodeValid(msg)
	if err != nil {
		c.engine.log.Error("Message lost", "worker", c.id, "error", err)
		return
	}
	if errors.Is(c.outbox.push(frame), errOutboxFull) {
		c.engine.log.Info("Worker dropped", "worker", c.id, "error", errOutboxFull)
		c.cancel()
	}
}

// send queues a message once there is room.
func (c *connection) send(ctx context.Context, msg protocol.Message) error {
	frame, err := protocol.EncodeValid(msg)
	if err != nil {
		return err
	}
	return c.outbox.send(ctx, frame)
}

// reattach evicts the half-dead connection that this worker had before, so
// that it does not collide with itself (§4.3). What does not match is ignored.
func (c *connection) reattach(m *protocol.Reattach) {
	old := c.engine.registry.worker(m.PreviousWorkerID)
	if old == nil || old == c || !sameSecret(old.token, m.ReattachToken) {
		return
	}
	c.engine.log.Info("Worker replaced by its next connection", "worker", old.id, "by", c.id)
	c.engine.disconnect(old)
}

// refuse tells a peer that it failed authentication and closes (§2.14).
func (e *Engine) refuse(socket *websocket.Conn, reason error) {
	message := "authentication failed"
	var denied *authError
	if errors.As(reason, &denied) {
		message = denied.message
	}
	frame, err := protocol.Encode(&protocol.Error{Error: protocol.ErrorBody{Code: protocol.CodeAuthError, Message: message}})
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(e.ctx, e.config.WriteTimeout)
	defer cancel()
	if socket.Write(ctx, websocket.MessageText, frame) == nil {
		_ = socket.Close(websocket.StatusPolicyViolation, "")
	}
}
