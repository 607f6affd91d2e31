package qemu

import (
	"io"
	"sync"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/guestnet"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/wire"
)

// packetPort makes a stream of bytes one of packets, each read or written whole.
type packetPort struct {
	stream io.ReadWriteCloser
	// mu keeps the frames of several writers apart.
	mu sync.Mutex
}

var _ io.ReadWriteCloser = (*packetPort)(nil)

// Read implements io.Reader: one packet, of which what does not fit is dropped.
func (p *packetPort) Read(buffer []byte) (int, error) {
	packet, err := wire.ReadFrame(p.stream, guestnet.DeviceMTU)
	return copy(buffer, packet), err
}

// Write implements io.Writer: one packet.
func (p *packetPort) Write(packet []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := wire.WriteFrame(p.stream, packet); err != nil {
		return 0, err
	}
	return len(packet), nil
}

// Close implements io.Closer.
func (p *packetPort) Close() error { return p.stream.Close() }

// pump carries packets one way until either end is closed. A packet that the other
// end refuses is lost, as on any network.
func pump(to io.Writer, from io.Reader) {
	buffer := make([]byte, guestnet.DeviceMTU)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		_, _ = to.Write(buffer[:n])
	}
}
