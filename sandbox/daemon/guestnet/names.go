package guestnet

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

const (
	dnsPort         = 53
	maxNameQueries  = 64
	nameTimeout     = 5 * time.Second
	maxNameMessage  = 64 << 10
	nameHeaderBytes = 12
)

// nameRelay passes a guest's DNS questions on to the host's name server, as they
// are. What names resolve to is no secret; whether they can be reached is for
// the policy.
type nameRelay struct {
	nameserver string
	dial       Dial
	use        *networkUse
	ctx        context.Context
	socket     *gonet.UDPConn
	slots      chan struct{}
	working    sync.WaitGroup
}

// newNameRelay listens on the gateway. Without a name server every question is
// refused at once.
func newNameRelay(ctx context.Context, s *stack.Stack, nameserver string, dial Dial, use *networkUse) (*nameRelay, error) {
	local := tcpip.FullAddress{NIC: networkCard, Addr: tcpip.AddrFrom4(GatewayBytes), Port: dnsPort}
	socket, err := gonet.DialUDP(s, &local, nil, ipv4.ProtocolNumber)
	if err != nil {
		return nil, err
	}
	n := &nameRelay{nameserver: nameserver, dial: dial, use: use, ctx: ctx, socket: socket, slots: make(chan struct{}, maxNameQueries)}
	n.working.Go(n.serve)
	return n, nil
}

func (n *nameRelay) serve() {
	for {
		question := make([]byte, maxNameMessage)
		size, from, err := n.socket.ReadFrom(question)
		if err != nil {
			return
		}
		n.use.mark()
		select {
		case n.slots <- struct{}{}:
		default:
			continue // a resolver asks again
		}
		n.working.Go(func() {
			defer func() { <-n.slots }()
			_, _ = n.socket.WriteTo(n.ask(question[:size]), from)
		})
	}
}

// ask returns the name server's answer, or says that there is none.
func (n *nameRelay) ask(question []byte) []byte {
	answer, err := n.forward(question)
	if err == nil {
		return answer
	}
	return serverFailure(question)
}

func (n *nameRelay) forward(question []byte) ([]byte, error) {
	if n.nameserver == "" {
		return nil, errors.New("no name server")
	}
	ctx, cancel := context.WithTimeout(n.ctx, nameTimeout)
	defer cancel()
	server, err := n.dial(ctx, "udp", n.nameserver)
	if err != nil {
		return nil, err
	}
	defer server.Close()
	defer context.AfterFunc(ctx, func() { _ = server.SetDeadline(time.Unix(1, 0)) })()
	if _, err := server.Write(question); err != nil {
		return nil, err
	}
	answer := make([]byte, maxNameMessage)
	size, err := server.Read(answer)
	return answer[:max(size, 0)], err
}

// serverFailure is the question with the answer "server failure"; of what is no
// question nothing comes back.
func serverFailure(question []byte) []byte {
	if len(question) < nameHeaderBytes {
		return nil
	}
	answer := append([]byte{}, question...)
	answer[2] |= 0x80
	answer[3] = answer[3]&0xf0 | 2
	return answer
}

func (n *nameRelay) close() {
	_ = n.socket.Close()
	n.working.Wait()
}

// HostNameserver is the first one of the host's own, with its port, or empty.
func HostNameserver() string {
	file, err := os.Open("/etc/resolv.conf")
	if err != nil {
		return ""
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 2 && fields[0] == "nameserver" {
			return net.JoinHostPort(fields[1], "53")
		}
	}
	return ""
}
