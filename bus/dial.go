package bus

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/coder/websocket"

	"github.com/sandbox-operator/sandbox-operator/bus/cork"
)

// dial opens any of the engine's sockets, and tells what it writes to. Errors
// do not name the URL.
func (c *Client) dial(ctx context.Context, address string, options *websocket.DialOptions) (*websocket.Conn, *cork.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.timers.handshake)
	defer cancel()
	var wire atomic.Pointer[cork.Conn]
	options.HTTPClient = corkedHTTPClient(&wire)
	options.HTTPHeader = c.options.Header.Clone()
	conn, response, err := websocket.Dial(ctx, address, options)
	if response != nil && response.StatusCode != http.StatusSwitchingProtocols {
		return nil, nil, &handshakeError{status: response.StatusCode}
	}
	if err != nil {
		return nil, nil, withoutURL(err)
	}
	conn.SetReadLimit(maxMessage)
	return conn, wire.Load(), nil
}

// corkedHTTPClient is for one handshake, and keeps the connection it makes for
// it. It reuses none: one that failed its upgrade is of no use.
func corkedHTTPClient(wire *atomic.Pointer[cork.Conn]) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true
	connect := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := connect(ctx, network, address)
		if err != nil {
			return nil, err
		}
		corked := cork.New(conn)
		wire.Store(corked)
		return corked, nil
	}
	return &http.Client{Transport: transport}
}
