package guestnet

import (
	"io"
	"net"
	"sync"
)

// connections are the open ones of a guest. The zero value is ready.
type connections struct {
	use     networkUse
	mu      sync.Mutex
	open    map[net.Conn]struct{}
	closed  bool
	working sync.WaitGroup
}

// halfCloser is a connection that can end one direction.
type halfCloser interface {
	CloseWrite() error
}

// carry copies between two connections until both directions have ended or
// close is called.
func (c *connections) carry(guest, host net.Conn) {
	if !c.keep(guest, host) {
		return
	}
	defer c.forget(guest, host)
	var copying sync.WaitGroup
	copying.Go(func() { c.copyHalf(guest, host) })
	copying.Go(func() { c.copyHalf(host, guest) })
	copying.Wait()
}

// copyHalf copies one direction and passes on its end. When it breaks, the other
// direction ends too.
func (c *connections) copyHalf(to, from net.Conn) {
	_, err := io.Copy(to, &usedReader{source: from, use: &c.use})
	if half, ok := to.(halfCloser); ok && err == nil {
		_ = half.CloseWrite()
		return
	}
	_, _ = to.Close(), from.Close()
}

func (c *connections) keep(conns ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	if c.open == nil {
		c.open = map[net.Conn]struct{}{}
	}
	for _, conn := range conns {
		c.open[conn] = struct{}{}
	}
	c.working.Add(1)
	return true
}

func (c *connections) forget(conns ...net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range conns {
		delete(c.open, conn)
	}
	c.working.Done()
}

// close ends all connections and waits until nothing is copied any more.
func (c *connections) close() {
	c.mu.Lock()
	c.closed = true
	for conn := range c.open {
		_ = conn.Close()
	}
	c.mu.Unlock()
	c.working.Wait()
}
