package namespaces_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
)

// networkModes are the two ways a guest gets a network; without a device the
// first is the second.
var networkModes = map[string]func(*namespaces.Backend){
	"by device":    func(*namespaces.Backend) {},
	"by listeners": namespaces.UseNoDevice,
}

func online(ports ...int) func(*daemon.BootSpec) {
	return func(spec *daemon.BootSpec) { spec.Network, spec.HostPorts = true, ports }
}

func portOf(listener net.Listener) int { return listener.Addr().(*net.TCPAddr).Port }

func TestNetwork_declared_ports_only(t *testing.T) {
	for name, mode := range networkModes {
		t.Run(name, func(t *testing.T) {
			open, closed := listenOnLoopback(t, "welcome"), listenOnLoopback(t, "secret")
			machine := boot(t, newBackend(t, mode), online(portOf(open)))
			if got := fetch(t, machine, "100.96.0.1", portOf(open)); string(got.Stdout) != "welcome" {
				t.Errorf("the declared port gave %q %s", got.Stdout, got.Stderr)
			}
			refused := map[string]int{"100.96.0.1": portOf(closed), "127.0.0.1": portOf(closed), "localhost": portOf(open), "10.0.0.1": 80, "169.254.169.254": 80}
			for address, port := range refused {
				if got := fetch(t, machine, address, port); got.ExitCode != 1 {
					t.Errorf("%s: exit code %d: %s", address, got.ExitCode, got.Stdout)
				}
			}
		})
	}
}

func TestNetwork_carries_both_ways_and_ends(t *testing.T) {
	for name, mode := range networkModes {
		t.Run(name, func(t *testing.T) {
			echo := echoServer(t)
			machine := boot(t, newBackend(t, mode), online(portOf(echo)))
			got := output(t, machine, fmt.Sprintf(`node -e "
const socket = require('net').connect(%d, '100.96.0.1'); let size = 0;
socket.on('data', d => size += d.length).on('end', () => console.log(size));
socket.end(Buffer.alloc(8 << 20))"`, portOf(echo)))
			if got != "8388608\n" {
				t.Errorf("came back: %q", got)
			}
		})
	}
}

func TestNetwork_dead_port_fails(t *testing.T) {
	for name, mode := range networkModes {
		t.Run(name, func(t *testing.T) {
			listener := listenOnLoopback(t, "")
			port := portOf(listener)
			_ = listener.Close()
			machine := boot(t, newBackend(t, mode), online(port))
			if got := fetch(t, machine, "100.96.0.1", port); got.ExitCode != 1 {
				t.Errorf("exit code %d: %s", got.ExitCode, got.Stderr)
			}
		})
	}
}

func TestNetwork_use_is_remembered(t *testing.T) {
	for name, mode := range networkModes {
		t.Run(name, func(t *testing.T) {
			server := listenOnLoopback(t, "payload")
			machine := boot(t, newBackend(t, mode), online(portOf(server)))
			use := machine.(daemon.NetworkUser)
			output(t, machine, "true")
			if got := use.LastNetworkUse(); !got.IsZero() {
				t.Errorf("before any use it is %v", got)
			}
			before := time.Now()
			fetch(t, machine, "100.96.0.1", portOf(server))
			if got := use.LastNetworkUse(); got.Before(before) || got.After(time.Now()) {
				t.Errorf("after a use at %v it is %v", before, got)
			}
		})
	}
	if got := newMachine(t).(daemon.NetworkUser).LastNetworkUse(); !got.IsZero() {
		t.Errorf("without a network it is %v", got)
	}
}

func echoServer(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	return listener
}

func TestNetwork_outbound(t *testing.T) {
	device, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	_ = device.Close()
	if says := newBackend(t).Network(); strings.Contains(says, "internet is unavailable") != (err != nil) {
		t.Fatalf("it says %q, and opening the device gives %v", says, err)
	}
	if err != nil {
		return // such a user has declared ports only, of which other tests are
	}
	server, names := listenOnLoopback(t, "from afar"), nameServer(t)
	var dialed atomic.Value
	backend := newBackend(t, func(b *namespaces.Backend) {
		namespaces.UseDialer(b, func(ctx context.Context, network, address string) (net.Conn, error) {
			if network == "udp" {
				return (&net.Dialer{}).DialContext(ctx, network, address)
			}
			dialed.Store(address)
			return (&net.Dialer{}).DialContext(ctx, network, server.Addr().String())
		}, names)
	})
	machine := boot(t, backend, online())
	if got := fetch(t, machine, "far.example", 8080); string(got.Stdout) != "from afar" {
		t.Errorf("got %q %s", got.Stdout, got.Stderr)
	}
	if diff := cmp.Diff("9.9.9.9:8080", dialed.Load()); diff != "" {
		t.Error(diff)
	}
}

// nameServer answers every question with the address 9.9.9.9, and questions for
// anything but an address with nothing.
func nameServer(t *testing.T) string {
	t.Helper()
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	go func() {
		for {
			question := make([]byte, 4096)
			n, from, err := socket.ReadFrom(question)
			if err != nil {
				return
			}
			_, _ = socket.WriteTo(answer(question[:n]), from)
		}
	}()
	return socket.LocalAddr().String()
}

func answer(question []byte) []byte {
	end := 12
	for question[end] != 0 {
		end += int(question[end]) + 1
	}
	isAddress := question[end+2] == 1
	reply := append([]byte{}, question[:end+5]...)
	reply[2], reply[3] = 0x81, 0x80
	copy(reply[6:12], []byte{0, 0, 0, 0, 0, 0})
	if isAddress {
		reply[7] = 1
		reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 9, 9, 9, 9)
	}
	return reply
}
