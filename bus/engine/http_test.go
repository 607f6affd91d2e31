package engine_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// exchangeHTTP sends one request and returns status, body and headers.
func exchangeHTTP(t *testing.T, method, url, contentType, body string) (int, string, http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text), response.Header
}

// route binds an HTTP trigger and waits until it is served.
func (p *peer) route(id, functionID string, config map[string]any) {
	p.t.Helper()
	p.bind(id, "http", functionID, config)
	eventually(p.t, id+" to be routed", func() bool {
		return codeOf(p.call(protocol.FunctionRegisteredInfo, map[string]string{"id": id})) == ""
	})
}

func answers(result string) handler {
	return func(*protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody) {
		return json.RawMessage(result), nil
	}
}

func TestEngine_httpReturnForms(t *testing.T) {
	e := startEngine(t, withHTTP)
	p := connect(t, e, "p")
	p.register("f::x")
	p.route("t1", "f::x", map[string]any{"api_path": "/x"})
	for name, tc := range map[string]struct {
		result      string
		wantStatus  int
		wantBody    string
		wantContent string
	}{
		"defaults are 200 and an empty object":  {`{}`, 200, `{}`, "application/json"},
		"a body is JSON":                        {`{"status_code":201,"body":{"a":1}}`, 201, `{"a":1}`, "application/json"},
		"a string is JSON too":                  {`{"body":"text"}`, 200, `"text"`, "application/json"},
		"a string with a content type goes raw": {`{"headers":{"Content-Type":"text/plain"},"body":"text"}`, 200, `text`, "text/plain"},
		"headers may be a list":                 {`{"headers":["content-type: text/html"],"body":"<p>"}`, 200, `<p>`, "text/html"},
		"an impossible status is an error":      {`{"status_code":99}`, 500, `{}`, "application/json"},
		"what is no object counts as nothing":   {`[1]`, 200, `{}`, "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			p.serve("f::x", answers(tc.result))
			status, body, header := exchangeHTTP(t, "GET", e.HTTPURL()+"/x", "", "")
			if status != tc.wantStatus || body != tc.wantBody || header.Get("Content-Type") != tc.wantContent {
				t.Errorf("got %d %q %q", status, body, header.Get("Content-Type"))
			}
		})
	}
}

func TestEngine_httpPayload(t *testing.T) {
	e := startEngine(t, withHTTP)
	p := connect(t, e, "p")
	p.register("f::x")
	got := map[string]any{}
	p.serve("f::x", func(m *protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody) {
		if err := json.Unmarshal(m.Data, &got); err != nil {
			t.Error(err)
		}
		return raw(map[string]int{}), nil
	})
	p.route("t1", "f::x", map[string]any{"api_path": "/orders/:id", "http_method": "post"})
	exchangeHTTP(t, "POST", e.HTTPURL()+"/orders/7?dry=1", "application/json; charset=utf-8", `{"qty":2}`)
	for _, end := range []string{"request_body", "response", "headers"} {
		if _, ok := got[end].(map[string]any); !ok {
			t.Errorf("%s is %v", end, got[end])
		}
		delete(got, end)
	}
	want := map[string]any{
		"path": "/orders/:id", "method": "POST", "path_params": map[string]any{"id": "7"}, "query_params": map[string]any{"dry": "1"},
		"body": map[string]any{"qty": 2.0}, "trigger": map[string]any{"type": "http", "path": "/orders/:id", "method": "POST"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("payload (-want +got):\n%s", diff)
	}
}

func TestEngine_httpErrors(t *testing.T) {
	e := startEngine(t, withHTTP, func(c *engine.Config) { c.HTTPTimeout = 300 * time.Millisecond })
	p := connect(t, e, "p")
	for _, f := range []string{"f::fail", "f::hang", "f::no", "f::ok", "f::stop"} {
		p.register(f)
	}
	p.serve("f::fail", func(*protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody) {
		return nil, &protocol.ErrorBody{Code: "S211", Message: "gone"}
	})
	p.serve("f::no", answers("false"))
	p.serve("f::ok", answers(`{"body":"ok"}`))
	p.serve("f::stop", answers(`{"action":"respond","response":{"status_code":401,"body":{"who":"you"}}}`))
	p.route("t1", "f::fail", map[string]any{"api_path": "/fail", "http_method": "POST"})
	p.route("t2", "f::hang", map[string]any{"api_path": "/hang", "http_method": "POST"})
	p.route("t3", "f::ok", map[string]any{"api_path": "/skip", "http_method": "POST", "condition_function_id": "f::no"})
	p.route("t4", "f::ok", map[string]any{"api_path": "/stop", "http_method": "POST", "middleware_function_ids": []string{"f::ok", "f::stop"}})
	p.route("t5", "f::ok", map[string]any{"api_path": "/late", "http_method": "POST", "middleware_function_ids": []string{"f::hang"}})
	p.route("t6", "f::ok", map[string]any{"api_path": "/good", "http_method": "POST", "middleware_function_ids": []string{"f::ok"}})
	for name, tc := range map[string]struct {
		path, body string
		wantStatus int
		wantBody   string
	}{
		"no route":                       {"/absent", "{}", 404, `"code":"NOT_FOUND"`},
		"a failing handler":              {"/fail", "{}", 500, `"code":"S211"`},
		"a handler that is too late":     {"/hang", "{}", 504, `"code":"TIMEOUT"`},
		"a condition that does not hold": {"/skip", "{}", 422, `"code":"CONDITION_NOT_MET"`},
		"middleware that answers":        {"/stop", "{}", 401, `{"who":"you"}`},
		"middleware that is too late":    {"/late", "{}", 504, `"code":"MIDDLEWARE_TIMEOUT"`},
		"middleware that continues":      {"/good", "{}", 200, `"ok"`},
		"a body that is no JSON":         {"/good", "{", 400, `"code":"INVALID_BODY"`},
	} {
		t.Run(name, func(t *testing.T) {
			status, body, _ := exchangeHTTP(t, "POST", e.HTTPURL()+tc.path, "application/json", tc.body)
			if status != tc.wantStatus || !strings.Contains(body, tc.wantBody) {
				t.Errorf("got %d %s", status, body)
			}
		})
	}
}

func TestEngine_httpRouteFollowsItsTrigger(t *testing.T) {
	e := startEngine(t, withHTTP)
	p, rival := connect(t, e, "p"), connect(t, e, "rival")
	p.register("f::x")
	p.serve("f::x", answers("{}"))
	status := func() int {
		code, _, _ := exchangeHTTP(t, "GET", e.HTTPURL()+"/a/1", "", "")
		return code
	}
	if got := status(); got != 404 {
		t.Errorf("before: %d", got)
	}
	p.route("t1", "f::x", map[string]any{"api_path": "/a/:id"})
	if got := status(); got != 200 {
		t.Errorf("bound: %d", got)
	}
	rival.bind("t2", "http", "f::y", map[string]any{"api_path": "/a/:other"})
	if got := next[*protocol.TriggerRegistrationResult](rival); !strings.Contains(got.Error.Message, "conflicts with already-registered route") {
		t.Errorf("rival got %+v", got.Error)
	}
	p.send(&protocol.UnregisterTrigger{ID: "t1", TriggerType: "http"})
	eventually(t, "the route to be gone", func() bool { return status() == 404 })
}

// TestEngine_httpStreams answers through the response channel after the
// handler returned nothing, and reads the raw body from the request channel.
func TestEngine_httpStreams(t *testing.T) {
	e := startEngine(t, withHTTP)
	p := connect(t, e, "p")
	p.register("f::x")
	p.route("t1", "f::x", map[string]any{"api_path": "/x", "http_method": "POST"})
	failed := make(chan error, 1)
	p.serve("f::x", func(m *protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody) {
		go func() { failed <- streamBack(t.Context(), e, m.Data) }()
		return nil, nil
	})
	sent := strings.Repeat("0123456789abcdef", 1<<16)
	status, body, header := exchangeHTTP(t, "POST", e.HTTPURL()+"/x", "application/octet-stream", sent)
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if status != 206 || header.Get("X-Kind") != "copy" || body != sent {
		t.Errorf("got %d, %d bytes, %v", status, len(body), header)
	}
}

// streamBack copies the request's body into its response.
func streamBack(ctx context.Context, e *engine.Engine, payload json.RawMessage) error {
	var ends struct {
		Body     protocol.ChannelRef `json:"request_body"`
		Response protocol.ChannelRef `json:"response"`
	}
	if err := json.Unmarshal(payload, &ends); err != nil {
		return err
	}
	in, err := dialChannel(ctx, e, ends.Body)
	if err != nil {
		return err
	}
	defer func() { _ = in.CloseNow() }()
	out, err := dialChannel(ctx, e, ends.Response)
	if err != nil {
		return err
	}
	for _, control := range []string{`{"type":"set_status","status_code":206}`, `{"type":"set_headers","headers":{"x-kind":"copy"}}`} {
		if err := out.Write(ctx, websocket.MessageText, []byte(control)); err != nil {
			return err
		}
	}
	for {
		kind, data, err := in.Read(ctx)
		if err != nil {
			return out.Close(websocket.StatusNormalClosure, "")
		}
		if err := out.Write(ctx, kind, data); err != nil {
			return err
		}
	}
}

func dialChannel(ctx context.Context, e *engine.Engine, ref protocol.ChannelRef) (*websocket.Conn, error) {
	url := e.URL("workers") + "/ws/channels/" + ref.ChannelID + "?key=" + ref.AccessKey + "&dir=" + ref.Direction
	socket, _, err := websocket.Dial(ctx, url, nil)
	if err == nil {
		socket.SetReadLimit(-1)
	}
	return socket, err
}
