package bus

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// channelServer serves one end of a channel "c1" with key "k/1".
func channelServer(t *testing.T, serve func(*websocket.Conn)) *Client {
	t.Helper()
	checkLeaks(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ws/channels/c1" || r.URL.Query().Get("key") != "k/1" {
			http.NotFound(w, r)
			return
		}
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = conn.CloseNow() }()
		serve(conn)
	}))
	t.Cleanup(server.Close)
	client, err := New(Options{URL: "ws" + strings.TrimPrefix(server.URL, "http"), timers: testTimers})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func end(direction string) protocol.ChannelRef {
	return protocol.ChannelRef{ChannelID: "c1", AccessKey: "k/1", Direction: direction}
}

// script is a server that sends frames, texts with a leading "t:", and then
// closes.
func script(t *testing.T, frames ...string) func(*websocket.Conn) {
	return func(conn *websocket.Conn) {
		for _, frame := range frames {
			kind := websocket.MessageBinary
			if text, ok := strings.CutPrefix(frame, "t:"); ok {
				kind, frame = websocket.MessageText, text
			}
			if err := conn.Write(context.Background(), kind, []byte(frame)); err != nil {
				t.Errorf("serving a channel: %v", err)
			}
		}
		_ = conn.Close(websocket.StatusGoingAway, "")
	}
}

func TestChannelReader_Read(t *testing.T) {
	tests := map[string]struct {
		frames []string
		want   string
		err    error
	}{
		"frames are one stream":                    {[]string{"ab", "", "cd"}, "abcd", nil},
		"an empty channel is empty":                {nil, "", nil},
		"messages are skipped":                     {[]string{"ab", `t:{"type":"progress"}`, "t:plain", "cd"}, "abcd", nil},
		"a reported error follows what came":       {[]string{"ab", `t:{"error":"disk full"}`}, "ab", &ChannelError{Message: "disk full"}},
		"a reported error may be an object":        {[]string{`t:{"error":{"code":1}}`}, "", &ChannelError{Message: `{"code":1}`}},
		"an error of null is none":                 {[]string{`t:{"error":null}`, "ab"}, "ab", nil},
		"a stream may be larger than one read":     {[]string{strings.Repeat("x", 200_000)}, strings.Repeat("x", 200_000), nil},
		"nothing is read after the reported error": {[]string{`t:{"error":"e"}`, "ab"}, "", &ChannelError{Message: "e"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			client := channelServer(t, script(t, tc.frames...))
			reader, err := client.OpenReader(t.Context(), end(protocol.DirectionRead))
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			got, err := io.ReadAll(reader)
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("data (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.err, err); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChannelReader_Next(t *testing.T) {
	client := channelServer(t, script(t, `t:{"type":"set_status"}`, "abcd", "ef"))
	reader, err := client.OpenReader(t.Context(), end(protocol.DirectionRead))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var got []ChannelFrame
	for {
		frame, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, frame)
	}
	want := []ChannelFrame{
		{Text: true, Data: []byte(`{"type":"set_status"}`)}, {Data: []byte("abcd")}, {Data: []byte("ef")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
}

func TestChannelReader_nextTakesWhatReadLeft(t *testing.T) {
	client := channelServer(t, script(t, "abcd"))
	reader, err := client.OpenReader(t.Context(), end(protocol.DirectionRead))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if n, err := reader.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Fatalf("read %d, %v", n, err)
	}
	frame, err := reader.Next()
	if err != nil || string(frame.Data) != "bcd" {
		t.Errorf("next %q, %v", frame.Data, err)
	}
}

func TestChannelReader_broken(t *testing.T) {
	client := channelServer(t, func(conn *websocket.Conn) {
		if err := conn.Write(context.Background(), websocket.MessageBinary, []byte("ab")); err != nil {
			t.Error(err)
		}
		_ = conn.CloseNow()
	})
	reader, err := client.OpenReader(t.Context(), end(protocol.DirectionRead))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	got, err := io.ReadAll(reader)
	if string(got) != "ab" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("read %q, %v; want ab and an unexpected end", got, err)
	}
}

func TestChannelReader_endsWithItsContext(t *testing.T) {
	client := channelServer(t, func(conn *websocket.Conn) {
		// Until the reader goes.
		_, _, _ = conn.Read(context.Background())
	})
	ctx, cancel := context.WithCancel(t.Context())
	reader, err := client.OpenReader(ctx, end(protocol.DirectionRead))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	done := make(chan error, 1)
	go func() {
		_, err := reader.Read(make([]byte, 1))
		done <- err
	}()
	cancel()
	if err := receive(t, done); !errors.Is(err, context.Canceled) {
		t.Errorf("read: %v, want canceled", err)
	}
}

func TestChannelWriter(t *testing.T) {
	type frame struct {
		Kind websocket.MessageType
		Size int
	}
	frames := make(chan frame, 16)
	data := new(bytes.Buffer)
	finished := make(chan error, 1)
	client := channelServer(t, func(conn *websocket.Conn) {
		conn.SetReadLimit(-1)
		for {
			kind, got, err := conn.Read(context.Background())
			if err != nil {
				finished <- err
				return
			}
			frames <- frame{kind, len(got)}
			data.Write(got)
		}
	})
	writer, err := client.OpenWriter(t.Context(), end(protocol.DirectionWrite))
	if err != nil {
		t.Fatal(err)
	}
	payload := bytes.Repeat([]byte("0123456789"), 15_000)
	if n, err := writer.Write(payload); n != len(payload) || err != nil {
		t.Fatalf("wrote %d, %v", n, err)
	}
	if err := writer.CloseWithError("disk full"); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, finished); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("the channel ended with %v", err)
	}
	close(frames)
	var got []frame
	for f := range frames {
		got = append(got, f)
	}
	const message = `{"error":"disk full"}`
	want := []frame{
		{websocket.MessageBinary, 65536}, {websocket.MessageBinary, 65536},
		{websocket.MessageBinary, 150_000 - 2*65536}, {websocket.MessageText, len(message)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
	if data.String() != string(payload)+message {
		t.Error("the data did not arrive whole")
	}
	if _, err := writer.Write([]byte("x")); err == nil {
		t.Error("a closed writer takes data")
	}
}

func TestClient_opensOnlyRealChannels(t *testing.T) {
	client := channelServer(t, script(t))
	wrong := protocol.ChannelRef{ChannelID: "c1", AccessKey: "s3cret", Direction: protocol.DirectionRead}
	if _, err := client.OpenReader(t.Context(), wrong); !errors.Is(err, ErrNoChannel) {
		t.Errorf("wrong key: %v, want ErrNoChannel", err)
	}
	if _, err := client.OpenReader(t.Context(), end(protocol.DirectionWrite)); err == nil {
		t.Error("a reader opens the writing end")
	}
	if _, err := client.OpenWriter(t.Context(), end(protocol.DirectionRead)); err == nil {
		t.Error("a writer opens the reading end")
	}
}
