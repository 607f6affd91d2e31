// Package link is a WebSocket proxy on loopback between the bus engine and one of
// its workers, which can be made to fail as networks and workers do.
package link

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// Link stands between the engine and a worker. Its methods may be called
// concurrently.
type Link struct {
	// URL is what the worker takes for the engine.
	URL string

	server   *http.Server
	engine   atomic.Pointer[string]
	observer Observer

	mutex sync.Mutex
	// wires are the open network connections of both sides.
	wires map[*wire]struct{}
	// workers is how many worker sockets are open.
	workers int
	refuses bool
	// hole is closed when bytes may pass again, nil while they may.
	hole    chan struct{}
	latency func() time.Duration
	rules   map[*Rule]struct{}
	// open are the rules for the answers of calls that passed to the worker, by
	// invocation id.
	open map[string]*Rule
	// closed says that no socket is taken any more; serving counts those that were.
	closed  bool
	serving sync.WaitGroup
}

// New opens a link. The observer hears of the calls that pass to the worker; it
// may be nil.
func New(ctx context.Context, observer Observer) (*Link, error) {
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Link{
		URL: "ws://" + listener.Addr().String(), observer: observer,
		wires: map[*wire]struct{}{}, rules: map[*Rule]struct{}{}, open: map[string]*Rule{},
	}
	l.server = &http.Server{Handler: http.HandlerFunc(l.serve), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = l.server.Serve(wiredListener{listener, l}) }()
	return l, nil
}

// Close ends the link and all its connections.
func (l *Link) Close() error {
	l.SetHole(false)
	l.mutex.Lock()
	l.closed = true
	l.mutex.Unlock()
	err := l.server.Close()
	l.Cut()
	l.serving.Wait()
	return err
}

// enter says whether a socket is taken now; serving.Done must follow.
func (l *Link) enter() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.closed || l.refuses {
		return false
	}
	l.serving.Add(1)
	return true
}

// Lead says where the engine is.
func (l *Link) Lead(engineURL string) { l.engine.Store(&engineURL) }

// Workers is how many worker sockets are open.
func (l *Link) Workers() int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.workers
}

// serve relays one socket of the worker to the engine.
func (l *Link) serve(w http.ResponseWriter, r *http.Request) {
	engine := l.engine.Load()
	if engine == nil || !l.enter() {
		http.Error(w, "the engine is not there", http.StatusServiceUnavailable)
		return
	}
	defer l.serving.Done()
	// It outlives the request, which ends when the connection is taken over.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	up, err := l.dial(ctx, *engine+r.URL.RequestURI())
	if err != nil {
		http.Error(w, "the engine refuses", http.StatusBadGateway)
		return
	}
	defer func() { _ = up.CloseNow() }()
	down, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return
	}
	defer func() { _ = down.CloseNow() }()
	up.SetReadLimit(-1)
	down.SetReadLimit(-1)
	defer l.count(r.URL)()
	l.relay(ctx, cancel, up, down)
}

// dialTimeout bounds the engine's side of a handshake.
const dialTimeout = 10 * time.Second

func (l *Link) dial(ctx context.Context, address string) (*websocket.Conn, error) {
	bounded, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true
	connect := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := connect(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return l.wire(conn), nil
	}
	up, response, err := websocket.Dial(bounded, address, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport}, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil && response != nil && response.Body != nil {
		_ = response.Body.Close()
	}
	return up, err
}

// count notes a worker's own socket; those of channels have longer paths.
func (l *Link) count(u *url.URL) (end func()) {
	if u.Path != "/" && u.Path != "" {
		return func() {}
	}
	l.addWorkers(1)
	return func() { l.addWorkers(-1) }
}

func (l *Link) addWorkers(n int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.workers += n
}

// relay passes messages both ways until one side has gone.
func (l *Link) relay(ctx context.Context, cancel context.CancelFunc, up, down *websocket.Conn) {
	var both sync.WaitGroup
	both.Go(func() {
		defer cancel()
		l.pump(ctx, pipe{from: up, to: down, towardsWorker: true})
	})
	both.Go(func() {
		defer cancel()
		l.pump(ctx, pipe{from: down, to: up})
	})
	both.Wait()
}

// pipe is one direction of a socket.
type pipe struct {
	from, to      *websocket.Conn
	towardsWorker bool
	// answering counts the answers that are held back.
	answering *sync.WaitGroup
}

// message waits in a pipe for its time.
type message struct {
	kind websocket.MessageType
	data []byte
	due  time.Time
}

// pipeLength is how many messages wait in a pipe before its reader does.
const pipeLength = 4096

// pump passes the messages of one direction, in order, each no earlier than the
// latency wants it.
func (l *Link) pump(ctx context.Context, p pipe) {
	waiting := make(chan message, pipeLength)
	var writing, answering sync.WaitGroup
	p.answering = &answering
	writing.Go(func() { p.write(ctx, waiting) })
	reading, stop := context.WithCancel(ctx)
	err := l.read(reading, p, waiting)
	stop()
	close(waiting)
	writing.Wait()
	answering.Wait()
	passClose(p.to, err)
}

func (l *Link) read(ctx context.Context, p pipe, waiting chan<- message) error {
	for {
		kind, data, err := p.from.Read(ctx)
		if err != nil {
			return err
		}
		if kind == websocket.MessageText {
			if data = l.pass(ctx, p, data); data == nil {
				continue
			}
		}
		select {
		case waiting <- message{kind, data, time.Now().Add(l.delay())}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p pipe) write(ctx context.Context, waiting <-chan message) {
	failed := false
	for each := range waiting {
		// What cannot be written any more is read to the end, so that the reader never
		// waits.
		failed = failed || !pause(ctx, time.Until(each.due)) || p.to.Write(ctx, each.kind, each.data) != nil
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// passClose ends the other side in the same way: with a close frame only after one.
func passClose(to *websocket.Conn, err error) {
	var closed websocket.CloseError
	if errors.As(err, &closed) && closed.Code != websocket.StatusNoStatusRcvd {
		_ = to.Close(closed.Code, closed.Reason)
		return
	}
	_ = to.CloseNow()
}
