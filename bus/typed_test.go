package bus

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

type lookupRequest struct {
	City  string   `json:"city" jsonschema:"minLength=1"`
	Days  int      `json:"days,omitempty"`
	Parts []string `json:"parts,omitempty"`
}

type lookupResponse struct {
	Text string `json:"text"`
}

func lookupWeather(_ context.Context, r lookupRequest) (lookupResponse, error) {
	if r.City == "Nowhere" {
		return lookupResponse{}, errors.New("no such city")
	}
	return lookupResponse{Text: "rain in " + r.City}, nil
}

func TestTypedFunction_handler(t *testing.T) {
	invalid := func(message string) error {
		return &RemoteError{Code: protocol.CodeInvalidRequest, Message: message}
	}
	tests := map[string]struct {
		data, want string
		err        error
	}{
		"a request is decoded and the result encoded": {`{"city":"Bergen"}`, `{"text":"rain in Bergen"}`, nil},
		"unknown fields are ignored":                  {`{"city":"Oslo","_caller_worker_id":"w"}`, `{"text":"rain in Oslo"}`, nil},
		"null is a zero request":                      {`null`, `{"text":"rain in "}`, nil},
		"nothing is a zero request":                   {``, `{"text":"rain in "}`, nil},
		"the handler's error passes":                  {`{"city":"Nowhere"}`, ``, errors.New("no such city")},
		"a field of a wrong type is named":            {`{"city":7}`, ``, invalid(`field "city" is a number, want string`)},
		"a fraction is no whole number":               {`{"days":1.5}`, ``, invalid(`field "days" is a number 1.5, want whole number`)},
		"a list is no object":                         {`[]`, ``, invalid(`the payload is a array, want object`)},
	}
	function := TypedFunction("weather::lookup", "", lookupWeather)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := function.Handler(t.Context(), Invocation{Data: json.RawMessage(tc.data)})
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if (err == nil) != (tc.err == nil) || err != nil && err.Error() != tc.err.Error() {
				t.Errorf("error %v, want %v", err, tc.err)
			}
		})
	}
}

func TestTypedFunction_schemas(t *testing.T) {
	const head = `"$schema":"http://json-schema.org/draft-07/schema#"`
	tests := map[string]struct {
		schema json.RawMessage
		want   string
	}{
		"a struct lists its fields in one piece": {
			TypedFunction("f", "", lookupWeather).RequestFormat,
			`{` + head + `,"type":"object","required":["city"],"properties":{"city":{"type":"string","minLength":1},
			"days":{"type":"integer"},"parts":{"type":"array","items":{"type":"string"}}}}`,
		},
		"raw JSON is anything": {
			TypedFunction("f", "", func(context.Context, json.RawMessage) (any, error) { return nil, nil }).RequestFormat,
			`{` + head + `}`,
		},
		"any is anything": {
			TypedFunction("f", "", func(context.Context, struct{}) (any, error) { return nil, nil }).ResponseFormat,
			`{` + head + `}`,
		},
		"an empty struct is an object": {
			TypedFunction("f", "", func(context.Context, struct{}) (any, error) { return nil, nil }).RequestFormat,
			`{` + head + `,"type":"object"}`,
		},
		"a pointer is its element": {
			TypedFunction("f", "", func(context.Context, *lookupResponse) (any, error) { return nil, nil }).RequestFormat,
			`{` + head + `,"type":"object","required":["text"],"properties":{"text":{"type":"string"}}}`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(normalJSON(t, tc.want), normalJSON(t, string(tc.schema))); diff != "" {
				t.Errorf("schema (-want +got):\n%s", diff)
			}
		})
	}
}

// normalJSON makes texts comparable, and leaves out an empty list of
// properties, which says nothing.
func normalJSON(t *testing.T, text string) any {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	if object, ok := value.(map[string]any); ok {
		if properties, ok := object["properties"].(map[string]any); ok && len(properties) == 0 {
			delete(object, "properties")
		}
	}
	return value
}
