package guestnet

import (
	"context"
	"net"
	"strconv"
	"sync"
	"time"
)

const dialTimeout = 10 * time.Second

// Gateway carries connections that a guest makes to its gateway's declared ports
// to the same ports of the host's loopback. The listening sockets were made in
// the guest's network and handed out, so that no device is needed.
type Gateway struct {
	listeners []net.Listener
	dial      Dial
	open      connections
	ctx       context.Context
	cancel    context.CancelFunc
	working   sync.WaitGroup
}

// NewGateway starts to accept from the listeners, one for each port.
func NewGateway(listeners []net.Listener, ports []int, dial Dial) *Gateway {
	g := &Gateway{listeners: listeners, dial: dial}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	for i, listener := range listeners {
		g.working.Go(func() { g.accept(listener, ports[i]) })
	}
	return g
}

func (g *Gateway) accept(listener net.Listener, port int) {
	for {
		guest, err := listener.Accept()
		if err != nil {
			return
		}
		g.working.Go(func() { g.connect(guest, port) })
	}
}

// connect joins one connection of the guest to the host's port. A port where
// nobody listens resets it.
func (g *Gateway) connect(guest net.Conn, port int) {
	defer guest.Close()
	ctx, cancel := context.WithTimeout(g.ctx, dialTimeout)
	defer cancel()
	host, err := g.dial(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		if connection, ok := guest.(*net.TCPConn); ok {
			_ = connection.SetLinger(0)
		}
		return
	}
	defer host.Close()
	g.open.carry(guest, host)
}

// LastUse is when the network last carried something; zero when it never did.
func (g *Gateway) LastUse() time.Time { return g.open.use.last() }

// Close ends listeners and connections and waits for their goroutines.
func (g *Gateway) Close() error {
	CloseListeners(g.listeners)
	g.cancel()
	g.open.close()
	g.working.Wait()
	return nil
}

// CloseListeners closes them all.
func CloseListeners(listeners []net.Listener) {
	for _, listener := range listeners {
		_ = listener.Close()
	}
}
