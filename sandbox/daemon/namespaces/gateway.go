package namespaces

import (
	"context"
	"net"
	"strconv"
	"sync"
	"time"
)

const dialTimeout = 10 * time.Second

// gateway carries connections that a guest makes to its gateway's declared ports
// to the same ports of the host's loopback. The listening sockets were made in
// the guest's network and handed out, so that no device is needed.
type gateway struct {
	listeners []net.Listener
	dial      dialFunc
	open      connections
	ctx       context.Context
	cancel    context.CancelFunc
	working   sync.WaitGroup
}

func newGateway(listeners []net.Listener, ports []int, dial dialFunc) *gateway {
	g := &gateway{listeners: listeners, dial: dial}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	for i, listener := range listeners {
		g.working.Go(func() { g.accept(listener, ports[i]) })
	}
	return g
}

func (g *gateway) accept(listener net.Listener, port int) {
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
func (g *gateway) connect(guest net.Conn, port int) {
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

// LastUse implements networkEnd.
func (g *gateway) LastUse() time.Time { return g.open.use.last() }

// Close ends listeners and connections and waits for their goroutines.
func (g *gateway) Close() error {
	closeListeners(g.listeners)
	g.cancel()
	g.open.close()
	g.working.Wait()
	return nil
}

func closeListeners(listeners []net.Listener) {
	for _, listener := range listeners {
		_ = listener.Close()
	}
}
