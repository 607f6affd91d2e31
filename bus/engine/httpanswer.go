package engine

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// streamGrace is how long a function that returned nothing has to take its
// response channel. SDK helpers return at once and connect a moment later.
const streamGrace = 2 * time.Second

// answer calls the function and writes what it returns or streams
// (contracts/iii-bus.md §6.5). Whichever comes first decides the form, except
// that a function which returns nothing may still be about to stream.
func (x *exchange) answer(ctx context.Context, payload json.RawMessage) {
	outcomes := make(chan outcome, 1)
	b := x.route.binding
	k := &call{
		id: uuid.NewString(), functionID: b.functionID, namespace: b.targetNamespace, data: payload, metadata: b.metadata,
		traceparent: x.request.Header.Get("traceparent"), baggage: x.request.Header.Get("baggage"),
		reply: func(o outcome) { outcomes <- o },
	}
	defer k.forget()
	deadline := time.NewTimer(x.engine.config.HTTPTimeout)
	defer deadline.Stop()
	x.engine.dispatch(ctx, k)
	select {
	case o := <-outcomes:
		x.returned(ctx, o, deadline.C)
	case first, open := <-x.response.items:
		x.stream(ctx, first, open)
	case <-deadline.C:
		x.timeout()
	case <-ctx.Done():
		x.interrupted()
	}
}

// returned handles a function that ended before it streamed anything.
func (x *exchange) returned(ctx context.Context, o outcome, deadline <-chan time.Time) {
	if o.err != nil {
		writeHTTPError(x.writer, http.StatusInternalServerError, o.err.Code, o.err.Message)
		return
	}
	if hasValue(o.result) || !x.writerComes(ctx) {
		writeReturned(x.writer, o.result)
		return
	}
	select {
	case first, open := <-x.response.items:
		x.stream(ctx, first, open)
	case <-deadline:
		x.timeout()
	case <-ctx.Done():
		x.interrupted()
	}
}

func hasValue(result json.RawMessage) bool { return result != nil && string(result) != "null" }

func (x *exchange) writerComes(ctx context.Context) bool {
	grace := time.NewTimer(streamGrace)
	defer grace.Stop()
	select {
	case <-x.response.taken:
		return true
	case <-grace.C:
	case <-ctx.Done():
	}
	return false
}

// stream passes the channel's frames on until the writer ends: text frames
// before the first bytes set status and headers, bytes are the body.
func (x *exchange) stream(ctx context.Context, next item, open bool) {
	out := &streamedAnswer{exchange: x, status: http.StatusOK}
	for open {
		if err := out.accept(next); err != nil {
			x.aborted = true
			return
		}
		select {
		case next, open = <-x.response.items:
		case <-ctx.Done():
			x.aborted = true
			return
		}
	}
	out.start()
}

// streamedAnswer is an answer that arrives frame by frame.
type streamedAnswer struct {
	*exchange
	status  int
	started bool
}

func (s *streamedAnswer) accept(frame item) error {
	if frame.kind == websocket.MessageText {
		if !s.started {
			s.control(frame.data)
		}
		return nil
	}
	s.start()
	if _, err := s.writer.Write(frame.data); err != nil {
		return err
	}
	return http.NewResponseController(s.writer).Flush()
}

// start sends status and headers, once.
func (s *streamedAnswer) start() {
	if !s.started {
		s.writer.WriteHeader(s.status)
		s.started = true
	}
}

// control applies one text frame of a streamed answer; unknown ones are
// ignored.
func (s *streamedAnswer) control(frame []byte) {
	var c struct {
		Type       string          `json:"type"`
		StatusCode int             `json:"status_code"`
		Headers    json.RawMessage `json:"headers"`
	}
	if json.Unmarshal(frame, &c) != nil {
		return
	}
	switch c.Type {
	case "set_status":
		s.status = validStatus(c.StatusCode)
	case "set_headers":
		setHeaders(s.writer.Header(), c.Headers)
	}
}

func (x *exchange) timeout() {
	writeHTTPError(x.writer, http.StatusGatewayTimeout, "TIMEOUT", "the function did not answer in time")
}

// interrupted answers when the client or the engine goes away; only in the
// second case does anybody read it.
func (x *exchange) interrupted() {
	writeHTTPError(x.writer, http.StatusServiceUnavailable, protocol.CodeInvocationStopped, "Invocation stopped")
}

func (x *exchange) skip() {
	writeJSON(x.writer, http.StatusUnprocessableEntity, map[string]any{
		"error": protocol.ErrorBody{Code: "CONDITION_NOT_MET", Message: "the condition was not met"}, "skipped": true,
	})
}
