package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/sandbox-operator/sandbox-operator/bus"
)

// function makes a bus function of a typed one: it decodes, calls, logs one
// line and turns an error into the text of contracts/iii-sandbox.md §2.1. The
// handler's context is the daemon's own, so that what was begun is finished
// when the caller is gone.
func function[Req, Res any](d *Daemon, id, description string, serve func(context.Context, Req) (Res, error)) bus.Function {
	request := schemaOf[Req]()
	return bus.Function{
		ID: id, Description: description,
		RequestFormat: encodeSchema(request), ResponseFormat: encodeSchema(schemaOf[Res]()),
		Handler: func(_ context.Context, inv bus.Invocation) (json.RawMessage, error) {
			began := time.Now()
			var req Req
			if err := decode(inv.Data, request.Required, &req); err != nil {
				d.logCall(id, began, &fault{code: "undecodable"})
				return nil, undecodable(err)
			}
			res, err := serve(d.life, req)
			d.logCall(id, began, err)
			if err != nil {
				return nil, asRemote(err)
			}
			return json.Marshal(res)
		},
	}
}

// decode reads a request. It must be an object with every required field (§1);
// unknown fields, such as the caller's id that the engine adds, are ignored.
func decode(data json.RawMessage, required []string, req any) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil || fields == nil {
		return errors.New("invalid type: the request must be an object")
	}
	for _, name := range required {
		value, given := fields[name]
		if !given || bytes.Equal(value, []byte("null")) {
			return fmt.Errorf("missing field `%s`", name)
		}
	}
	if err := json.Unmarshal(data, req); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

func asRemote(err error) error {
	var refused *fault
	if !errors.As(err, &refused) {
		refused = newFault(codeBoot, "VM boot failed: %v", err)
	}
	return refused.remote()
}

// logCall writes the line of §7, without the sandbox id, which is a capability.
func (d *Daemon) logCall(id string, began time.Time, err error) {
	fields := []any{"function_id", id, "success", err == nil, "duration_ms", time.Since(began).Milliseconds()}
	var refused *fault
	if errors.As(err, &refused) {
		info := codeInfos[refused.code]
		fields = append(fields, "error_code", refused.code, "error_type", info.kind, "retryable", info.retryable)
	}
	d.logger.Info("Served call", fields...)
}

func schemaOf[T any]() *jsonschema.Schema {
	reflector := jsonschema.Reflector{
		Anonymous: true, DoNotReference: true, ExpandedStruct: true, AllowAdditionalProperties: true,
	}
	schema := reflector.Reflect(new(T))
	schema.Version = "http://json-schema.org/draft-07/schema#"
	return schema
}

func encodeSchema(schema *jsonschema.Schema) json.RawMessage {
	text, err := json.Marshal(schema)
	if err != nil {
		// The schemas are those of this package's own types.
		panic(fmt.Sprintf("encoding a schema: %v", err))
	}
	return text
}
