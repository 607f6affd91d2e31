package engine_test

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

func (p *peer) channel(bufferSize int) protocol.ChannelPair {
	p.t.Helper()
	var pair protocol.ChannelPair
	parse(p.t, p.call(protocol.FunctionChannelsCreate, map[string]int{"buffer_size": bufferSize}).Result, &pair)
	return pair
}

func mustDialChannel(t *testing.T, e *engine.Engine, ref protocol.ChannelRef) *websocket.Conn {
	t.Helper()
	socket, err := dialChannel(bounded(t), e, ref)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.CloseNow() })
	return socket
}

// bounded keeps a read from waiting for a channel's whole life.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// TestEngine_channelKeepsOrder sends texts and bytes before any reader comes
// and survives its creator.
func TestEngine_channelKeepsOrder(t *testing.T) {
	e := startEngine(t)
	creator := connect(t, e, "creator")
	pair := creator.channel(16)
	_ = creator.socket.CloseNow()
	writer := mustDialChannel(t, e, pair.Writer)
	const frames = 10
	for i := range frames {
		kind := websocket.MessageText
		if i%2 == 1 {
			kind = websocket.MessageBinary
		}
		if err := writer.Write(bounded(t), kind, []byte(strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Fatal(err)
	}
	reader := mustDialChannel(t, e, pair.Reader)
	for i := range frames {
		kind, data, err := reader.Read(bounded(t))
		if err != nil {
			t.Fatal(err)
		}
		if string(data) != strconv.Itoa(i) || (kind == websocket.MessageBinary) != (i%2 == 1) {
			t.Errorf("frame %d is %v %q", i, kind, data)
		}
	}
	if _, _, err := reader.Read(bounded(t)); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("after the last frame: %v", err)
	}
}

func TestEngine_channelRefusals(t *testing.T) {
	e := startEngine(t)
	pair := connect(t, e, "creator").channel(0)
	base := strings.Replace(e.URL("workers"), "ws://", "http://", 1) + "/ws/channels/"
	for name, path := range map[string]string{
		"a wrong key":     pair.Reader.ChannelID + "?key=wrong&dir=read",
		"no key":          pair.Reader.ChannelID + "?dir=read",
		"a wrong channel": "absent?key=" + pair.Reader.AccessKey + "&dir=read",
		"no direction":    pair.Reader.ChannelID + "?key=" + pair.Reader.AccessKey,
	} {
		t.Run(name, func(t *testing.T) {
			if status, _, _ := exchangeHTTP(t, "GET", base+path, "", ""); status != http.StatusNotFound {
				t.Errorf("status %d", status)
			}
		})
	}
	mustDialChannel(t, e, pair.Reader)
	second := mustDialChannel(t, e, pair.Reader)
	if _, _, err := second.Read(bounded(t)); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("a second reader: %v", err)
	}
}

// TestEngine_channelHoldsTheWriterBack fills a channel nobody reads: the writer
// must come to a halt, and go on when a reader comes.
func TestEngine_channelHoldsTheWriterBack(t *testing.T) {
	e := startEngine(t)
	pair := connect(t, e, "creator").channel(1)
	writer := mustDialChannel(t, e, pair.Writer)
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	const chunks = 32
	written := make(chan int, chunks)
	go func() {
		defer close(written)
		for i := range chunks {
			if writer.Write(bounded(t), websocket.MessageBinary, chunk) != nil {
				return
			}
			written <- i
		}
		_ = writer.Close(websocket.StatusNormalClosure, "")
	}()
	for halted := false; !halted; {
		select {
		case i := <-written:
			if i == chunks-1 {
				t.Fatal("the writer was never held back")
			}
		case <-time.After(time.Second):
			halted = true
		}
	}
	reader := mustDialChannel(t, e, pair.Reader)
	got := 0
	for {
		_, data, err := reader.Read(bounded(t))
		if err != nil {
			break
		}
		got += len(data)
	}
	if got != chunks*len(chunk) {
		t.Errorf("got %d bytes of %d", got, chunks*len(chunk))
	}
}

// TestEngine_channelFrames passes frames of all sizes through a buffer that holds
// many, so that each must lie in memory of its own until it is read.
func TestEngine_channelFrames(t *testing.T) {
	e := startEngine(t)
	const room = 64 << 10
	sizes := []int{0, 1, room / 4, room/4 + 1, room - 1, room, room + 1, room + 2, 3 * room}
	frame := func(i int) []byte {
		return bytes.Repeat([]byte{byte(i), byte(i >> 4), 1}, sizes[i%len(sizes)])[:sizes[i%len(sizes)]]
	}
	const frames = 90
	for name, early := range map[string]bool{"read at once": true, "read afterwards": false} {
		t.Run(name, func(t *testing.T) {
			pair := connect(t, e, "frames of "+name).channel(frames)
			writer := mustDialChannel(t, e, pair.Writer)
			sent := make(chan error, 1)
			send := func() {
				for i := range frames {
					if err := writer.Write(bounded(t), websocket.MessageBinary, frame(i)); err != nil {
						sent <- err
						return
					}
				}
				sent <- writer.Close(websocket.StatusNormalClosure, "")
			}
			if early {
				go send()
			} else {
				send()
			}
			reader := mustDialChannel(t, e, pair.Reader)
			reader.SetReadLimit(-1)
			for i := range frames {
				if _, data, err := reader.Read(bounded(t)); err != nil || !bytes.Equal(data, frame(i)) {
					t.Fatalf("frame %d came as %d bytes of %d, %v", i, len(data), len(frame(i)), err)
				}
			}
			if _, _, err := reader.Read(bounded(t)); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
				t.Errorf("after the last frame: %v", err)
			}
			if err := <-sent; err != nil {
				t.Errorf("sending: %v", err)
			}
		})
	}
}

func TestEngine_lostReaderEndsTheWriter(t *testing.T) {
	e := startEngine(t)
	pair := connect(t, e, "creator").channel(0)
	writer, reader := mustDialChannel(t, e, pair.Writer), mustDialChannel(t, e, pair.Reader)
	if err := writer.Write(bounded(t), websocket.MessageText, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := reader.Read(bounded(t)); err != nil {
		t.Fatal(err)
	}
	_ = reader.CloseNow()
	if _, _, err := writer.Read(bounded(t)); err == nil {
		t.Error("the writer goes on")
	}
}
