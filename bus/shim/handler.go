package shim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/sandbox-operator/sandbox-operator/bus"
)

// errClosed: another process answers in a moment.
var errClosed = &callError{code: codeEngine, message: "this worker is shutting down; try again"}

// answer puts decoding, encoding and errors around a function.
func answer[Req, Res any](s *Shim, decode func(*fields) Req, act func(context.Context, Req) (Res, error)) bus.Handler {
	return func(ctx context.Context, inv bus.Invocation) (json.RawMessage, error) {
		if s.closed.Load() {
			return nil, s.wireError(errClosed)
		}
		ctx = withCaller(ctx, inv.CallerWorkerID())
		f := decodeFields(inv.Data)
		request := decode(f)
		if f.err != nil {
			return nil, s.wireError(f.err)
		}
		response, err := act(ctx, request)
		if err != nil {
			// The text may hold an id that the caller sent; the code never does.
			s.Logger.Debug("Call failed", "function", inv.FunctionID, "request", request, "code", codeOf(err))
			return nil, s.wireError(err)
		}
		data, err := encode(response)
		if err != nil {
			return nil, s.wireError(err)
		}
		return data, nil
	}
}

// encode is json.Marshal without HTML escapes, which would blow streams up
// (contracts/code-runner.md §22).
func encode(value any) (json.RawMessage, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("encoding the response: %w", err)
	}
	return bytes.TrimRight(buffer.Bytes(), "\n"), nil
}
