package guestnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"
)

const (
	networkCard = tcpip.NICID(1)
	// maxConnecting bounds the connects that wait for their host's answer.
	maxConnecting = 256
)

// Dial makes the daemon's half of a connection.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Network is a guest's network in user space: a TCP/IP stack that stands for
// every address there is, and dials from the daemon where policy allows.
type Network struct {
	policy policy
	dial   Dial
	names  *nameRelay
	stack  *stack.Stack
	open   connections
	ctx    context.Context
	cancel context.CancelFunc
	// closing counts the teardowns of the back end that still run.
	closing *sync.WaitGroup
	once    sync.Once
}

// Options are what a Network needs; all but Nameserver are required.
type Options struct {
	// Device gives and takes the guest's packets, one a read or write. The Network
	// closes it.
	Device io.ReadWriteCloser
	// Ports are those of the host's loopback that the gateway leads to.
	Ports []int
	Dial  Dial
	// Nameserver is the host's, with its port; without one names have no answer.
	Nameserver string
	// Closing counts the teardowns that still run after Close.
	Closing *sync.WaitGroup
}

// New starts to carry a guest's packets.
func New(options Options) (*Network, error) {
	link := &device{packets: options.Device}
	o := &Network{policy: policy{ports: slices.Clone(options.Ports)}, dial: options.Dial, closing: options.Closing}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	if err := o.build(link, options.Nameserver); err != nil {
		o.cancel()
		link.Close()
		o.stack.Close()
		return nil, fmt.Errorf("making the guest's network: %w", err)
	}
	return o, nil
}

func (o *Network) build(link *device, nameserver string) error {
	o.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4},
	})
	sack, receive := tcpip.TCPSACKEnabled(true), tcpip.TCPReceiveBufferSizeRangeOption{Min: 4 << 10, Default: 1 << 20, Max: 4 << 20}
	send := tcpip.TCPSendBufferSizeRangeOption{Min: 4 << 10, Default: 1 << 20, Max: 4 << 20}
	gateway := tcpip.AddrFrom4(GatewayBytes)
	err := firstError(
		func() tcpip.Error { return o.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &sack) },
		func() tcpip.Error { return o.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &receive) },
		func() tcpip.Error { return o.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &send) },
		func() tcpip.Error { return o.stack.CreateNIC(networkCard, link) },
		func() tcpip.Error {
			return o.stack.AddProtocolAddress(networkCard, tcpip.ProtocolAddress{
				Protocol: ipv4.ProtocolNumber, AddressWithPrefix: gateway.WithPrefix(),
			}, stack.AddressProperties{})
		},
		// Together: take packets for any address, and answer from it.
		func() tcpip.Error { return o.stack.SetSpoofing(networkCard, true) },
		func() tcpip.Error { return o.stack.SetPromiscuousMode(networkCard, true) },
	)
	if err != nil {
		return errors.New(err.String())
	}
	o.stack.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: networkCard}})
	forwarder := tcp.NewForwarder(o.stack, 0, maxConnecting, o.connect)
	o.stack.SetTransportProtocolHandler(tcp.ProtocolNumber, forwarder.HandlePacket)
	names, failed := newNameRelay(o.ctx, o.stack, nameserver, o.dial, &o.open.use)
	o.names = names
	return failed
}

func firstError(steps ...func() tcpip.Error) tcpip.Error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// connect decides about one connect of the guest; each runs on its own.
func (o *Network) connect(request *tcp.ForwarderRequest) {
	id := request.ID()
	target, allowed := o.target(id)
	if !allowed {
		request.Complete(true) // the guest sees "connection refused"
		return
	}
	ctx, cancel := context.WithTimeout(o.ctx, dialTimeout)
	defer cancel()
	host, err := o.dial(ctx, "tcp", target)
	if err != nil {
		request.Complete(true)
		return
	}
	defer host.Close()
	var queue waiter.Queue
	endpoint, failed := request.CreateEndpoint(&queue)
	request.Complete(failed != nil)
	if failed != nil {
		return
	}
	guest := gonet.NewTCPConn(&queue, endpoint)
	defer guest.Close()
	o.open.carry(guest, host)
}

// target is where the daemon dials for an address of the guest's.
func (o *Network) target(id stack.TransportEndpointID) (string, bool) {
	address := netip.AddrFrom4(id.LocalAddress.As4())
	port := int(id.LocalPort)
	if address.String() == GatewayAddress {
		if port == dnsPort {
			return o.names.nameserver, o.names.nameserver != ""
		}
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), o.policy.allowsPort(port)
	}
	return net.JoinHostPort(address.String(), strconv.Itoa(port)), o.policy.allowsAddress(address)
}

// LastUse is when the network last carried something; zero when it never did.
func (o *Network) LastUse() time.Time { return o.open.use.last() }

// Close ends the network. What the kernel takes long for goes on behind; the
// back end's Close waits for it.
func (o *Network) Close() error {
	o.once.Do(func() {
		o.cancel()
		o.open.close()
		o.closing.Go(func() {
			o.names.close()
			o.stack.RemoveNIC(networkCard)
			o.stack.Close()
			o.stack.Wait()
		})
	})
	return nil
}

var _ io.Closer = (*Network)(nil)
