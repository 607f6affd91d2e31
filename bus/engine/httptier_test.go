package engine_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// TestEngine_httpFollowsTheTriggerOfAHealthCheck is 404, 200, 404 around a
// registration (contracts/iii-bus.md §14.2).
func TestEngine_httpFollowsTheTriggerOfAHealthCheck(t *testing.T) {
	e := startEngine(t, withHTTP)
	p := connect(t, e, "p")
	status := func() int {
		code, _, _ := exchangeHTTP(t, "GET", e.HTTPURL()+"/health", "", "")
		return code
	}
	for range 2 {
		if got := status(); got != 404 {
			t.Errorf("before: %d", got)
		}
		p.register("health")
		p.serve("health", answers(`{"status_code":200,"body":{"ok":true}}`))
		p.route("t1", "health", map[string]any{"api_path": "health", "http_method": "GET"})
		if got := status(); got != 200 {
			t.Errorf("registered: %d", got)
		}
		p.send(&protocol.UnregisterFunction{ID: "health"})
		p.send(&protocol.UnregisterTrigger{ID: "t1", TriggerType: "http"})
		eventually(t, "the route to be gone", func() bool { return status() == 404 })
	}
}

// TestEngine_httpRawBodies sends bodies that the engine does not parse: the
// function reads them from its channel, byte for byte.
func TestEngine_httpRawBodies(t *testing.T) {
	e := startEngine(t, withHTTP)
	p := connect(t, e, "p")
	p.register("f::x")
	p.route("t1", "f::x", map[string]any{"api_path": "/x", "http_method": "POST"})
	form := &bytes.Buffer{}
	writer := multipart.NewWriter(form)
	file, err := writer.CreateFormFile("file", "book.pdf")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(bytes.Repeat([]byte{0, 1, 2, 0xff}, 1<<18)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ contentType, body string }{
		"a form":                 {"application/x-www-form-urlencoded", url.Values{"name": {"John Doe"}, "age": {"30"}}.Encode()},
		"a form with a file":     {writer.FormDataContentType(), form.String()},
		"XML":                    {"application/xml", `<?xml version="1.0"?><a>b</a>`},
		"bytes that are no text": {"application/octet-stream", "\x00\xff\xfe"},
		"nothing":                {"text/plain", ""},
	} {
		t.Run(name, func(t *testing.T) {
			failed := make(chan error, 1)
			p.serve("f::x", func(m *protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody) {
				var request struct {
					Body    any
					Headers map[string]string
				}
				if err := json.Unmarshal(m.Data, &request); err != nil || request.Body != nil || request.Headers["content-type"] != tc.contentType {
					t.Errorf("request %+v, %v", request, err)
				}
				go func() { failed <- streamBack(t.Context(), e, m.Data) }()
				return nil, nil
			})
			status, body, _ := exchangeHTTP(t, "POST", e.HTTPURL()+"/x", tc.contentType, tc.body)
			if err := <-failed; err != nil {
				t.Fatal(err)
			}
			if status != 206 || body != tc.body {
				t.Errorf("got %d, %d bytes of %d", status, len(body), len(tc.body))
			}
		})
	}
}

// TestEngine_httpRawJSON gets a JSON body parsed and, from its channel, as sent.
func TestEngine_httpRawJSON(t *testing.T) {
	e := startEngine(t, withHTTP)
	p := connect(t, e, "p")
	p.register("f::x")
	p.route("t1", "f::x", map[string]any{"api_path": "/x", "http_method": "POST"})
	failed := make(chan error, 1)
	p.serve("f::x", func(m *protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody) {
		var request struct{ Body map[string]int }
		if err := json.Unmarshal(m.Data, &request); err != nil || !cmp.Equal(request.Body, map[string]int{"a": 1, "z": 2}) {
			t.Errorf("body %v, %v", request.Body, err)
		}
		go func() { failed <- streamBack(t.Context(), e, m.Data) }()
		return nil, nil
	})
	sent := `{"z":2, "a":1}`
	_, body, _ := exchangeHTTP(t, "POST", e.HTTPURL()+"/x", "application/json", sent)
	if err := <-failed; err != nil || body != sent {
		t.Errorf("got %q, %v", body, err)
	}
}

// TestEngine_httpServerSentEvents sees each event before the next one is sent.
func TestEngine_httpServerSentEvents(t *testing.T) {
	e := startEngine(t, withHTTP)
	p := connect(t, e, "p")
	p.register("f::x")
	p.route("t1", "f::x", map[string]any{"api_path": "/sse"})
	steps, failed := make(chan string), make(chan error, 1)
	p.serve("f::x", func(m *protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody) {
		go func() { failed <- sendEvents(t.Context(), e, m.Data, steps) }()
		return nil, nil
	})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.HTTPURL()+"/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		steps <- "id: 1\ndata: first\n\n"
	}()
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	<-sent
	lines := bufio.NewScanner(response.Body)
	for _, want := range []string{"first", "second", "third"} {
		for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
		}
		if got := strings.TrimPrefix(lines.Text(), "data: "); got != want {
			t.Fatalf("got event %q, want %q", got, want)
		}
		if next := map[string]string{"first": "second", "second": "third"}[want]; next != "" {
			steps <- "data: " + next + "\n\n"
		}
	}
	close(steps)
	if err := <-failed; err != nil {
		t.Error(err)
	}
	if got := response.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("content type %q", got)
	}
	if _, err := io.ReadAll(response.Body); err != nil {
		t.Errorf("the end: %v", err)
	}
}

func sendEvents(ctx context.Context, e *engine.Engine, payload json.RawMessage, steps <-chan string) error {
	var ends struct{ Response protocol.ChannelRef }
	if err := json.Unmarshal(payload, &ends); err != nil {
		return err
	}
	out, err := dialChannel(ctx, e, ends.Response)
	if err != nil {
		return err
	}
	head := `{"type":"set_headers","headers":{"content-type":"text/event-stream","connection":"keep-alive"}}`
	if err := out.Write(ctx, websocket.MessageText, []byte(head)); err != nil {
		return err
	}
	for event := range steps {
		if err := out.Write(ctx, websocket.MessageBinary, []byte(event)); err != nil {
			return err
		}
	}
	return out.Close(websocket.StatusNormalClosure, "")
}

// TestEngine_httpMiddleware has the cases of §14.2.
func TestEngine_httpMiddleware(t *testing.T) {
	e := startEngine(t, withHTTP)
	p := connect(t, e, "p")
	var order []string
	var seen map[string]any
	note := func(name, answer string) handler {
		return func(m *protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody) {
			order = append(order, name)
			if name != "handler" {
				seen = nil
				parse(t, m.Data, &seen)
			}
			return json.RawMessage(answer), nil
		}
	}
	for name, answer := range map[string]string{
		"first": `{"action":"continue"}`, "second": `{"action":"continue"}`, "handler": `{"body":"reached"}`,
		"block": `{"action":"respond","response":{"status_code":403,"body":"no","headers":{"x-why":"rules"}}}`,
	} {
		p.register("mw::" + name)
		p.serve("mw::"+name, note(name, answer))
	}
	for name, tc := range map[string]struct {
		middleware []string
		wantStatus int
		wantOrder  []string
	}{
		"none":                    {nil, 200, []string{"handler"}},
		"one that continues":      {[]string{"mw::first"}, 200, []string{"first", "handler"}},
		"several, in order":       {[]string{"mw::second", "mw::first"}, 200, []string{"second", "first", "handler"}},
		"one that answers":        {[]string{"mw::block", "mw::first"}, 403, []string{"block"}},
		"one that does not exist": {[]string{"mw::absent"}, 500, nil},
	} {
		t.Run(name, func(t *testing.T) {
			order, seen = nil, nil
			p.route("t1", "mw::handler", map[string]any{"api_path": "/m/:id", "middleware_function_ids": tc.middleware})
			status, _, header := exchangeHTTP(t, "GET", e.HTTPURL()+"/m/42?q=hello", "", "")
			if diff := cmp.Diff(tc.wantOrder, order); status != tc.wantStatus || diff != "" {
				t.Errorf("status %d, order (-want +got):\n%s", status, diff)
			}
			if status == 403 && header.Get("X-Why") != "rules" {
				t.Errorf("headers %v", header)
			}
			if len(tc.wantOrder) > 1 && !sawRequest(seen) {
				t.Errorf("middleware saw %v", seen)
			}
		})
	}
}

func sawRequest(seen map[string]any) bool {
	request, _ := seen["request"].(map[string]any)
	return seen["phase"] == "preHandler" && request["method"] == "GET" && request["headers"] != nil &&
		cmp.Equal(request["path_params"], map[string]any{"id": "42"}) && cmp.Equal(request["query_params"], map[string]any{"q": "hello"})
}
