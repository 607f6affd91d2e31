package shim

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/sandbox-operator/sandbox-operator/bus"
)

// Schemas are draft-07 (contracts/code-runner.md §3.1).
var (
	//go:embed schemas/run.request.json
	runRequestSchema []byte
	//go:embed schemas/run.response.json
	runResponseSchema []byte
	//go:embed schemas/register_function.request.json
	registerRequestSchema []byte
	//go:embed schemas/register_function.response.json
	registerResponseSchema []byte
	//go:embed schemas/teardown.request.json
	teardownRequestSchema []byte
	//go:embed schemas/teardown.response.json
	teardownResponseSchema []byte
)

// reservedNames are the functions of the original worker (§6): nobody may
// register them, also while not all are answered here.
var reservedNames = []string{
	"run", "register_function", "teardown", "list_runtimes", "inject-guidance", "ui-content", "on-config-change",
}

func (s *Shim) functions() []bus.Function {
	return []bus.Function{
		{
			ID: s.WorkerName + "::run",
			Description: "Run a Node or Python program in an isolated microVM and return what it prints. " +
				"Nothing persists unless keep is true; the returned runtime_id is a secret that runs code in the same files again.",
			RequestFormat: runRequestSchema, ResponseFormat: runResponseSchema,
			Handler: answer(s, decodeRun, s.run),
		},
		{
			ID: s.WorkerName + "::teardown",
			Description: "Destroy a kept runtime (runtime_id), or every function that was registered " +
				"under an id prefix (namespace).",
			RequestFormat: teardownRequestSchema, ResponseFormat: teardownResponseSchema,
			Handler: answer(s, decodeTeardown, s.teardown),
		},
		{
			ID: s.WorkerName + "::register_function",
			Description: "Publish a bus function whose source defines handler(payload). It runs in a microVM shared " +
				"by the functions of its id prefix and language, and stays until teardown.",
			RequestFormat: registerRequestSchema, ResponseFormat: registerResponseSchema,
			Handler: answer(s, decodeRegister, s.registerFunction),
		},
	}
}

// errClosed: another process answers in a moment.
var errClosed = &callError{code: codeEngine, message: "this worker is shutting down; try again"}

// answer puts decoding, encoding and errors around a function.
func answer[Req, Res any](s *Shim, decode func(*fields) Req, act func(context.Context, Req) (Res, error)) bus.Handler {
	return func(ctx context.Context, inv bus.Invocation) (json.RawMessage, error) {
		if s.closed.Load() {
			return nil, s.wireError(errClosed)
		}
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
