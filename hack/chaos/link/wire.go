package link

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// errTorn is what the writer of a torn frame gets.
var errTorn = errors.New("the connection was cut in the middle of a frame")

// wire is a network connection that faults act on.
type wire struct {
	net.Conn
	link *Link
	// torn says that the next write passes only half of its bytes.
	torn   atomic.Bool
	closed chan struct{}
	once   sync.Once
}

type wiredListener struct {
	net.Listener
	link *Link
}

// Accept implements net.Listener.
func (l wiredListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.link.wire(conn), nil
}

func (l *Link) wire(conn net.Conn) *wire {
	w := &wire{Conn: conn, link: l, closed: make(chan struct{})}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.closed {
		_ = conn.Close()
		return w
	}
	l.wires[w] = struct{}{}
	return w
}

// Read implements net.Conn. In a hole what arrived waits, pings included.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	select {
	case <-w.link.passable():
	case <-w.closed:
	}
	return n, err
}

// Write implements net.Conn.
func (w *wire) Write(p []byte) (int, error) {
	if !w.torn.Load() || len(p) < 2 {
		return w.Conn.Write(p)
	}
	n, _ := w.Conn.Write(p[:len(p)/2])
	_ = w.Close()
	return n, errTorn
}

// Close implements net.Conn.
func (w *wire) Close() error {
	w.once.Do(func() {
		close(w.closed)
		w.link.mutex.Lock()
		defer w.link.mutex.Unlock()
		delete(w.link.wires, w)
	})
	return w.Conn.Close()
}

var always = func() chan struct{} {
	open := make(chan struct{})
	close(open)
	return open
}()

// passable is closed when bytes may pass.
func (l *Link) passable() <-chan struct{} {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.hole == nil {
		return always
	}
	return l.hole
}

// Cut drops all connections without a word.
func (l *Link) Cut() {
	for _, w := range l.openWires() {
		_ = w.Close()
	}
}

// Tear drops each connection in the middle of the next frame on it.
func (l *Link) Tear() {
	for _, w := range l.openWires() {
		w.torn.Store(true)
	}
}

func (l *Link) openWires() []*wire {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	wires := make([]*wire, 0, len(l.wires))
	for w := range l.wires {
		wires = append(wires, w)
	}
	return wires
}

// Refuse says whether new connections are refused.
func (l *Link) Refuse(refuses bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.refuses = refuses
}

// SetHole says whether bytes vanish into a hole: they wait, both ways, until it is
// over.
func (l *Link) SetHole(there bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	switch {
	case there && l.hole == nil:
		l.hole = make(chan struct{})
	case !there && l.hole != nil:
		close(l.hole)
		l.hole = nil
	}
}

// SetLatency delays every message by what the function says, which is asked by
// several goroutines; nil delays none.
func (l *Link) SetLatency(latency func() time.Duration) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.latency = latency
}

func (l *Link) delay() time.Duration {
	l.mutex.Lock()
	latency := l.latency
	l.mutex.Unlock()
	if latency == nil {
		return 0
	}
	return latency()
}
