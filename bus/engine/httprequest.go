package engine

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// channelChunk is the size of frames that carry a request's body
// (contracts/iii-bus.md §1.3).
const channelChunk = 64 << 10

// exchange is one HTTP request on its way to a function and back.
type exchange struct {
	engine   *Engine
	route    *route
	params   map[string]string
	writer   http.ResponseWriter
	request  *http.Request
	body     *channel
	response *channel
	// aborted is set when a started answer cannot be finished.
	aborted bool
}

// httpHandler serves http triggers.
func (e *Engine) httpHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route, params := e.routes.match(r.Method, r.URL.Path)
		if route == nil {
			writeHTTPError(w, http.StatusNotFound, protocol.CodeNotFound, "no route for "+r.Method+" "+r.URL.Path)
			return
		}
		x := &exchange{engine: e, route: route, params: params, writer: w, request: r}
		x.serve()
		if x.aborted {
			// The client must not take a part for the whole.
			panic(http.ErrAbortHandler)
		}
	})
}

// serve does middleware, condition, call and answer, in that order. The
// channels and whatever feeds them end with the request.
func (x *exchange) serve() {
	ctx, cancel := context.WithCancel(x.request.Context())
	defer cancel()
	defer context.AfterFunc(x.engine.ctx, cancel)()
	if !x.passMiddleware(ctx) {
		return
	}
	body, raw, err := x.readBody()
	if err != nil {
		x.rejectBody(err)
		return
	}
	x.converse(ctx, cancel, body, raw)
}

// converse opens the channels, and calls the function if the condition holds.
func (x *exchange) converse(ctx context.Context, cancel func(), body json.RawMessage, raw io.Reader) {
	x.body, x.response = x.engine.channels.create(0), x.engine.channels.create(0)
	defer x.engine.channels.remove(x.body)
	defer x.engine.channels.remove(x.response)
	payload := x.payload(body)
	if !x.engine.conditionHolds(ctx, x.route.binding, x.route.config.ConditionFunctionID, payload) {
		x.skip()
		return
	}
	x.engine.channels.take(x.body, protocol.DirectionWrite)
	x.engine.channels.take(x.response, protocol.DirectionRead)
	defer x.engine.channels.endReader(x.response)
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		x.feed(ctx, raw)
	}()
	x.answer(ctx, payload)
	cancel()
	x.stopFeeding(fed)
}

// stopFeeding cuts a body short that still arrives: nobody reads it any more.
func (x *exchange) stopFeeding(fed <-chan struct{}) {
	select {
	case <-fed:
	default:
		_ = http.NewResponseController(x.writer).SetReadDeadline(time.Now())
		<-fed
	}
}

// readBody parses a JSON body; any other is left to request_body (§6.5).
func (x *exchange) readBody() (parsed json.RawMessage, raw io.Reader, err error) {
	limited := http.MaxBytesReader(x.writer, x.request.Body, MaxMessageBytes)
	if !strings.Contains(strings.ToLower(x.request.Header.Get("Content-Type")), "application/json") {
		return json.RawMessage("null"), x.request.Body, nil
	}
	text, err := io.ReadAll(limited)
	if err != nil {
		return nil, nil, err
	}
	if len(strings.TrimSpace(string(text))) == 0 {
		return json.RawMessage("null"), strings.NewReader(""), nil
	}
	if !utf8.Valid(text) || !json.Valid(text) {
		return nil, nil, errors.New("the body is no valid JSON")
	}
	return text, strings.NewReader(string(text)), nil
}

func (x *exchange) rejectBody(err error) {
	status := http.StatusBadRequest
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		status = http.StatusRequestEntityTooLarge
	}
	writeHTTPError(x.writer, status, "INVALID_BODY", err.Error())
}

// feed writes the raw body into its channel.
func (x *exchange) feed(ctx context.Context, raw io.Reader) {
	defer x.engine.channels.endWriter(x.body)
	for {
		chunk := make([]byte, channelChunk)
		n, err := io.ReadFull(raw, chunk)
		if n > 0 && !x.body.put(ctx, item{kind: websocket.MessageBinary, data: chunk[:n]}) || err != nil {
			return
		}
	}
}

// payload is what the function gets.
func (x *exchange) payload(body json.RawMessage) json.RawMessage {
	path, method := x.route.config.APIPath, x.route.config.HTTPMethod
	return mustJSON(map[string]any{
		"path": path, "method": method, "path_params": x.params, "query_params": flatten(x.request.URL.Query()),
		"headers": x.headers(), "body": body,
		"trigger":      map[string]string{"type": "http", "path": path, "method": method},
		"request_body": x.body.ref(protocol.DirectionRead), "response": x.response.ref(protocol.DirectionWrite),
	})
}

// headers have names in lower case, as SDK users expect.
func (x *exchange) headers() map[string]string {
	headers := map[string]string{"host": x.request.Host}
	for name, values := range x.request.Header {
		headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	return headers
}

func flatten(values map[string][]string) map[string]string {
	flat := map[string]string{}
	for name, all := range values {
		flat[name] = all[len(all)-1]
	}
	return flat
}

// middlewareAnswer is what a middleware function returns (§6.5).
type middlewareAnswer struct {
	Action   string          `json:"action"`
	Response json.RawMessage `json:"response"`
}

// passMiddleware asks the functions in order; false when one of them, or its
// failure, has answered the request.
func (x *exchange) passMiddleware(ctx context.Context) bool {
	input := mustJSON(map[string]any{
		"phase": "preHandler", "context": struct{}{},
		"request": map[string]any{
			"path_params": x.params, "query_params": flatten(x.request.URL.Query()),
			"headers": x.headers(), "method": x.request.Method,
		},
	})
	for _, id := range x.route.config.MiddlewareFunctionIDs {
		if !x.askMiddleware(ctx, id, input) {
			return false
		}
	}
	return true
}

func (x *exchange) askMiddleware(ctx context.Context, id string, input json.RawMessage) bool {
	ctx, cancel := context.WithTimeout(ctx, x.engine.config.HTTPTimeout)
	defer cancel()
	o := x.engine.invoke(ctx, id, input)
	switch {
	case ctx.Err() != nil:
		writeHTTPError(x.writer, http.StatusGatewayTimeout, "MIDDLEWARE_TIMEOUT", "middleware "+id+" did not answer")
		return false
	case o.err != nil:
		writeHTTPError(x.writer, http.StatusInternalServerError, o.err.Code, o.err.Message)
		return false
	}
	var answer middlewareAnswer
	if json.Unmarshal(o.result, &answer) != nil || answer.Action != "respond" {
		return true
	}
	writeReturned(x.writer, answer.Response)
	return false
}
