package engine_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
)

// rawSocket is a WebSocket that a test writes byte by byte and never reads.
type rawSocket struct{ conn net.Conn }

func silentWorker(t *testing.T, e *engine.Engine) rawSocket {
	t.Helper()
	conn := rawDial(t, e)
	head := "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrade: %v, %v", response, err)
	}
	return rawSocket{conn}
}

func rawDial(t *testing.T, e *engine.Engine) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(e.URL("workers"), "ws://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (s rawSocket) write(t *testing.T, frame string) {
	t.Helper()
	if err := s.tryWrite(frame); err != nil {
		t.Fatal(err)
	}
}

// tryWrite sends one text frame, masked with zeros.
func (s rawSocket) tryWrite(frame string) error {
	var out bytes.Buffer
	out.Write([]byte{0x81, 0x80 | 127})
	_ = binary.Write(&out, binary.BigEndian, uint64(len(frame)))
	out.Write(make([]byte, 4))
	out.WriteString(frame)
	_, err := s.conn.Write(out.Bytes())
	return err
}

func TestEngine_brokenSockets(t *testing.T) {
	for name, act := range map[string]func(*testing.T, *engine.Engine){
		"a connection that says nothing": func(t *testing.T, e *engine.Engine) {
			conn := rawDial(t, e)
			waitForEnd(t, conn)
		},
		"half a request": func(t *testing.T, e *engine.Engine) {
			conn := rawDial(t, e)
			if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost:"); err != nil {
				t.Fatal(err)
			}
			waitForEnd(t, conn)
		},
		"a worker that is cut off": func(t *testing.T, e *engine.Engine) {
			worker := silentWorker(t, e)
			worker.write(t, `{"type":"registerfunction","id":"cut::f"}`)
			reset(t, worker.conn)
		},
		"half a frame": func(t *testing.T, e *engine.Engine) {
			worker := silentWorker(t, e)
			if _, err := worker.conn.Write([]byte{0x81, 0xff, 0, 0, 0}); err != nil {
				t.Fatal(err)
			}
			reset(t, worker.conn)
		},
		"a frame that claims to be huge": func(t *testing.T, e *engine.Engine) {
			worker := silentWorker(t, e)
			claim := append([]byte{0x81, 0xff}, binary.BigEndian.AppendUint64(nil, 1<<62)...)
			if _, err := worker.conn.Write(append(claim, make([]byte, 4<<10)...)); err != nil {
				t.Fatal(err)
			}
			reset(t, worker.conn)
		},
		"an unknown kind of frame": func(t *testing.T, e *engine.Engine) {
			worker := silentWorker(t, e)
			if _, err := worker.conn.Write([]byte{0x8b, 0x80, 0, 0, 0, 0}); err != nil {
				t.Fatal(err)
			}
			waitForEnd(t, worker.conn)
		},
		"a frame without a mask": func(t *testing.T, e *engine.Engine) {
			worker := silentWorker(t, e)
			if _, err := worker.conn.Write([]byte{0x81, 0x02, '{', '}'}); err != nil {
				t.Fatal(err)
			}
			waitForEnd(t, worker.conn)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBystanders(t, func(c *engine.Config) { c.Listeners[0].HandshakeTimeout = 100 * time.Millisecond })
			act(t, b.engine)
			b.nothingLeft(t)
		})
	}
}

// waitForEnd reads until the engine hangs up.
func waitForEnd(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Error("the engine does not hang up")
	}
}

// reset ends a connection as a crashed machine's kernel does.
func reset(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}
