package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// fuzzEngine is an engine for all inputs of a fuzzing process: what one input
// breaks, a later one would notice.
func fuzzEngine(f *testing.F) *engine.Engine {
	f.Helper()
	e, err := engine.New(engine.Config{
		Listeners: []engine.Listener{{Name: "workers", Address: "127.0.0.1:0"}}, HTTPAddress: "127.0.0.1:0",
		Logger: slog.New(alarm{slog.DiscardHandler, panicking{f}}),
	})
	if err != nil {
		f.Fatal(err)
	}
	if err := e.Start(context.Background()); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			f.Error(err)
		}
	})
	return e
}

// panicking ends the process, as the test of the input may be over already.
type panicking struct{ testing.TB }

// Errorf implements testing.TB.
func (panicking) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// FuzzEngine_frames sends any frame between two that are known: a connection
// that still lives answers its ping, and another worker is never disturbed.
func FuzzEngine_frames(f *testing.F) {
	for _, frame := range badFrames {
		f.Add([]byte(frame), len(frame)%2 == 0)
	}
	for _, frame := range []string{
		`{"type":"invokefunction","invocation_id":"0e0a3d92-3c55-47b6-8a1f-2f7f9f0b6d10","function_id":"engine::functions::list","data":{"search":"s"}}`,
		`{"type":"invokefunction","function_id":"state::update","data":{"scope":"s","key":"k","ops":[{"type":"append","path":["a","b"],"value":1}]}}`,
		`{"type":"invokefunction","function_id":"iii::durable::publish","data":{"topic":"t","data":1}}`,
		`{"type":"invokefunction","function_id":"engine::register_trigger","data":{"trigger_type":"state","function_id":"f"}}`,
		`{"type":"registertrigger","id":"t","trigger_type":"http","function_id":"f","config":{"api_path":"/:a/b"}}`,
		`{"type":"registertrigger","id":"t","trigger_type":"cron","function_id":"f","config":{"expression":"* * * * * *"}}`,
		`{"type":"registertrigger","id":"t","trigger_type":"durable:subscriber","function_id":"f","config":{"topic":"t","queue_config":{"maxRetries":0}}}`,
		`{"type":"registertriggertype","id":"mailbox","description":""}`, "OTLP{}", `{"type":"registerfunction","id":"f","metadata":{"internal":true}}`,
	} {
		f.Add([]byte(frame), true)
	}
	e := fuzzEngine(f)
	f.Fuzz(func(t *testing.T, frame []byte, text bool) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		socket, _, err := websocket.Dial(ctx, e.URL("workers"), nil)
		if err != nil {
			t.Fatalf("the engine takes no worker: %v", err)
		}
		defer func() { _ = socket.CloseNow() }()
		socket.SetReadLimit(-1)
		kind := websocket.MessageBinary
		if text {
			kind = websocket.MessageText
		}
		for _, message := range []struct {
			kind websocket.MessageType
			data string
		}{
			{websocket.MessageText, `{"type":"invokefunction","function_id":"engine::workers::register","data":{},"action":{"type":"void"}}`},
			{kind, string(frame)}, {websocket.MessageText, `{"type":"ping"}`},
		} {
			if err := socket.Write(ctx, message.kind, []byte(message.data)); err != nil {
				t.Fatalf("sending: %v", err)
			}
		}
		awaitPong(ctx, t, socket, frame)
	})
}

// awaitPong reads up to the answer of a ping. Only a worker that took a name
// of another one, or that sent no text as text, may be put out.
func awaitPong(ctx context.Context, t *testing.T, socket *websocket.Conn, sent []byte) {
	t.Helper()
	for {
		_, frame, err := socket.Read(ctx)
		if err != nil && (!utf8.Valid(sent) || strings.Contains(string(sent), "name")) && ctx.Err() == nil {
			return
		}
		if err != nil {
			t.Fatalf("after %q: %v", sent, err)
		}
		msg, err := protocol.Decode(frame)
		if err != nil {
			t.Fatalf("after %q the engine sent %q: %v", sent, frame, err)
		}
		if msg.MessageType() == protocol.TypePong {
			return
		}
	}
}

// FuzzEngine_channelSocket asks for a channel's end with any id, key and
// direction, and writes any bytes into the end of one that exists.
func FuzzEngine_channelSocket(f *testing.F) {
	text := func(s string) []byte { return append([]byte{0x81, 0x80 | byte(len(s)), 0, 0, 0, 0}, s...) }
	for _, bytes := range [][]byte{
		nil, text("hello"), append(text("a"), text("b")...), {0x82, 0x80, 0, 0, 0, 0}, {0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8},
		{0x88, 0x80, 0, 0, 0, 0}, {0x89, 0x80, 0, 0, 0, 0}, {0x01, 0x81, 0, 0, 0, 0, 'a'}, {0x80, 0x81, 0, 0, 0, 0, 'b'},
		{0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {0x81, 0x01, 'a'}, {0xf1, 0x80, 0, 0, 0, 0}, {0x83, 0x80, 0, 0, 0, 0},
		{0x81, 0x81, 0, 0, 0, 0, 0xff},
	} {
		f.Add("absent", "key", "write", bytes)
		f.Add("", "", "", bytes)
	}
	f.Add("../..", "a&key=b", "read", []byte{})
	f.Add("%2e%2e", "\x00", "read ", []byte{})
	e := fuzzEngine(f)
	f.Fuzz(func(t *testing.T, id, key, direction string, bytes []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		strangerIsRefused(ctx, t, e, id, key, direction)
		pair := channelOf(ctx, t, e)
		reader, err := dialChannel(ctx, e, pair.Reader)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = reader.CloseNow() }()
		writeRaw(t, e, pair.Writer, bytes)
		for {
			// Whatever the writer did, its end is the reader's end.
			if _, _, err := reader.Read(ctx); err != nil {
				break
			}
		}
		if err := ctx.Err(); err != nil {
			t.Fatalf("%x leaves the reader waiting: %v", bytes, err)
		}
	})
}

// strangerIsRefused before anything is upgraded (contracts/iii-bus.md §8).
func strangerIsRefused(ctx context.Context, t *testing.T, e *engine.Engine, id, key, direction string) {
	t.Helper()
	address := "http" + strings.TrimPrefix(e.URL("workers"), "ws") + "/ws/channels/" + url.PathEscape(id) +
		"?" + url.Values{"key": {key}, "dir": {direction}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return
	}
	for name, value := range map[string]string{
		"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg==",
	} {
		request.Header.Set(name, value)
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		t.Fatalf("%s: %v", address, err)
	}
	_ = response.Body.Close()
	if response.StatusCode == http.StatusSwitchingProtocols || response.StatusCode >= 500 {
		t.Errorf("%s is answered with %d", address, response.StatusCode)
	}
}

func channelOf(ctx context.Context, t *testing.T, e *engine.Engine) protocol.ChannelPair {
	t.Helper()
	socket, _, err := websocket.Dial(ctx, e.URL("workers"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.CloseNow() }()
	request := `{"type":"invokefunction","invocation_id":"0e0a3d92-3c55-47b6-8a1f-2f7f9f0b6d10","function_id":"engine::channels::create","data":{}}`
	if err := socket.Write(ctx, websocket.MessageText, []byte(request)); err != nil {
		t.Fatal(err)
	}
	for {
		_, frame, err := socket.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		msg, err := protocol.Decode(frame)
		if err != nil {
			t.Fatal(err)
		}
		if answer, ok := msg.(*protocol.InvocationResult); ok {
			var pair protocol.ChannelPair
			if err := json.Unmarshal(answer.Result, &pair); err != nil {
				t.Fatal(err)
			}
			return pair
		}
	}
}

// writeRaw upgrades the writer's end, writes bytes as they are and hangs up.
func writeRaw(t *testing.T, e *engine.Engine, ref protocol.ChannelRef, bytes []byte) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(e.URL("workers"), "ws://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	head := fmt.Sprintf("GET /ws/channels/%s?key=%s&dir=write HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n", ref.ChannelID, ref.AccessKey)
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	// Until the engine has upgraded, hanging up would be giving the request up.
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, len("HTTP/1.1 101"))); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(bytes); err != nil && !errors.Is(err, net.ErrClosed) {
		// The engine may hang up on what it read first.
		t.Logf("writing: %v", err)
	}
}
