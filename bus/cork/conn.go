// Package cork lets several small messages leave a network connection in one
// packet. A WebSocket library writes each message at once; under load that is
// one system call, and one wake-up of the peer, for each.
package cork

import (
	"net"
	"sync"
)

// capacity is what a held connection gathers before it writes anyway, in bytes.
const capacity = 64 << 10

// Conn is a net.Conn whose writes can be held back for a moment. Write, Hold
// and Release may be called concurrently.
type Conn struct {
	net.Conn

	mu   sync.Mutex
	held bool
	// gathered is what was written since Hold.
	gathered []byte
	// failed is the error of a write that a caller was told has succeeded.
	failed error
}

// New wraps a connection.
func New(conn net.Conn) *Conn { return &Conn{Conn: conn} }

// Hold keeps what is written from now on until Release, or until there is so
// much of it that waiting gains nothing.
func (c *Conn) Hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = true
}

// Release writes what was held back.
func (c *Conn) Release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = false
	return c.flush()
}

// Write implements net.Conn. On a held connection a nil error says only that
// the bytes are kept; Release, or a later Write, tells what became of them.
func (c *Conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil {
		return 0, c.failed
	}
	if c.held && len(c.gathered)+len(p) <= capacity {
		c.gathered = append(c.gathered, p...)
		return len(p), nil
	}
	if err := c.flush(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// flush needs mu.
func (c *Conn) flush() error {
	if len(c.gathered) == 0 {
		return c.failed
	}
	_, err := c.Conn.Write(c.gathered)
	c.gathered = c.gathered[:0]
	if err != nil {
		c.failed = err
	}
	return err
}
