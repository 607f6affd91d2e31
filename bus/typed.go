package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/invopop/jsonschema"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// TypedFunction makes a Function from a handler of Go values and publishes their
// schemas. Fields are required unless tagged omitempty, as a statement to
// callers only: input is decoded leniently, unknown fields are ignored, an
// absent payload is a zero Req, and what does not decode is answered with
// invalid_request (contracts/iii-bus.md §5.6). Req and Res must not contain
// themselves.
func TypedFunction[Req, Res any](id, description string, h func(context.Context, Req) (Res, error)) Function {
	return Function{
		ID:             id,
		Description:    description,
		RequestFormat:  schemaOf(reflect.TypeFor[Req]()),
		ResponseFormat: schemaOf(reflect.TypeFor[Res]()),
		Handler: func(ctx context.Context, inv Invocation) (json.RawMessage, error) {
			var request Req
			if err := decodeRequest(inv.Data, &request); err != nil {
				return nil, err
			}
			response, err := h(ctx, request)
			if err != nil {
				return nil, err
			}
			data, err := json.Marshal(response)
			if err != nil {
				return nil, fmt.Errorf("encoding the result of %s: %w", id, err)
			}
			return data, nil
		},
	}
}

func decodeRequest(data json.RawMessage, request any) error {
	if len(data) == 0 {
		return nil
	}
	err := json.Unmarshal(data, request)
	if err == nil {
		return nil
	}
	message := "the payload does not decode: " + err.Error()
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		message = fmt.Sprintf("field %q is a %s, want %s", mismatch.Field, mismatch.Value, jsonName(mismatch.Type))
		if mismatch.Field == "" {
			message = fmt.Sprintf("the payload is a %s, want %s", mismatch.Value, jsonName(mismatch.Type))
		}
	}
	return &RemoteError{Code: protocol.CodeInvalidRequest, Message: message}
}

// jsonName is what a caller in any language calls a Go type.
func jsonName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.Slice, reflect.Array:
		return "array"
	case reflect.Bool:
		return "bool"
	case reflect.String:
		return "string"
	case reflect.Pointer:
		return jsonName(t.Elem())
	case reflect.Float32, reflect.Float64:
		return "number"
	default:
		return "whole number"
	}
}

// schemaOf writes a draft-07 schema in one piece, as the other clients of the
// bus do. Further properties are allowed, because the engine adds one.
func schemaOf(t reflect.Type) json.RawMessage {
	reflector := jsonschema.Reflector{
		Anonymous:                 true,
		DoNotReference:            true,
		ExpandedStruct:            true,
		AllowAdditionalProperties: true,
	}
	schema := reflector.ReflectFromType(t)
	schema.Version = "http://json-schema.org/draft-07/schema#"
	data, err := json.Marshal(schema)
	if err != nil {
		// Tags are part of the program.
		panic(fmt.Sprintf("schema of %s: %v", t, err))
	}
	return data
}
