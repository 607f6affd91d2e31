package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func text(s string) *string { return &s }

// examples has every type of message, with every field set.
func examples() map[string]Message {
	failure := &ErrorBody{Code: "invocation_failed", Message: "no such city", Stacktrace: "at x"}
	content := json.RawMessage(`{"a":[1,"<&>"]}`)
	return map[string]Message{
		`{"type":"workerregistered","worker_id":"w1","reattach_token":"t1"}`: &WorkerRegistered{WorkerID: "w1", ReattachToken: "t1"},
		`{"type":"registerfunction","id":"a::f","description":"d","request_format":{"a":[1,"<&>"]},"response_format":{"a":[1,"<&>"]},"metadata":{"a":[1,"<&>"]},"invocation":{"a":[1,"<&>"]}}`: &RegisterFunction{
			ID: "a::f", Description: "d", RequestFormat: content, ResponseFormat: content, Metadata: content, Invocation: content,
		},
		`{"type":"unregisterfunction","id":"a::f"}`: &UnregisterFunction{ID: "a::f"},
		`{"type":"invokefunction","invocation_id":"i1","function_id":"a::f","data":{"a":[1,"<&>"]},"traceparent":"00","baggage":"k=v","action":{"type":"enqueue","queue":"mail"},"metadata":{"a":[1,"<&>"]},"namespace":"shop"}`: &InvokeFunction{
			InvocationID: "i1", FunctionID: "a::f", Data: content, Traceparent: "00", Baggage: "k=v",
			Action: &Action{Type: ActionEnqueue, Queue: "mail"}, Metadata: content, Namespace: text("shop"),
		},
		`{"type":"invocationresult","invocation_id":"i1","function_id":"a::f","result":{"a":[1,"<&>"]},"error":{"code":"invocation_failed","message":"no such city","stacktrace":"at x"},"traceparent":"00","baggage":"k=v"}`: &InvocationResult{
			InvocationID: "i1", FunctionID: "a::f", Result: content, Error: failure, Traceparent: "00", Baggage: "k=v",
		},
		`{"type":"registertriggertype","id":"mail","description":"","trigger_request_format":{"a":[1,"<&>"]},"call_request_format":{"a":[1,"<&>"]},"namespace":"shop"}`: &RegisterTriggerType{
			ID: "mail", TriggerRequestFormat: content, CallRequestFormat: content, Namespace: text("shop"),
		},
		`{"type":"registertrigger","id":"t1","trigger_type":"cron","function_id":"a::f","config":{"a":[1,"<&>"]},"metadata":{"a":[1,"<&>"]},"namespace":"shop","trigger_namespace":"x"}`: &RegisterTrigger{
			ID: "t1", TriggerType: "cron", FunctionID: "a::f", Config: content, Metadata: content, Namespace: text("shop"), TriggerNamespace: text("x"),
		},
		`{"type":"triggerregistrationresult","id":"t1","trigger_type":"cron","function_id":"a::f","error":{"code":"invocation_failed","message":"no such city","stacktrace":"at x"}}`: &TriggerRegistrationResult{
			ID: "t1", TriggerType: "cron", FunctionID: "a::f", Error: failure,
		},
		`{"type":"unregistertrigger","id":"t1","trigger_type":"cron"}`:              &UnregisterTrigger{ID: "t1", TriggerType: "cron"},
		`{"type":"registerservice","id":"s1"}`:                                      &RegisterService{ID: "s1"},
		`{"type":"reattach","previous_worker_id":"w1","reattach_token":"t1"}`:       &Reattach{PreviousWorkerID: "w1", ReattachToken: "t1"},
		`{"type":"error","error":{"code":"AUTH_ERROR","message":"token rejected"}}`: &Error{Error: ErrorBody{Code: CodeAuthError, Message: "token rejected"}},
		`{"type":"ping"}`: &Ping{},
		`{"type":"pong"}`: &Pong{},
		`{"type":"registrationrejected","code":"FUNCTION_NAMESPACE_CONFLICT","namespace":"default","worker_name":"n","function_id":"a::f","owner_worker_id":"w2"}`: &RegistrationRejected{
			Code: CodeFunctionConflict, Namespace: "default", WorkerName: "n", FunctionID: "a::f", OwnerWorkerID: "w2",
		},
	}
}

func TestCoding_everyMessage(t *testing.T) {
	seen := map[Type]bool{}
	for frame, msg := range examples() {
		seen[msg.MessageType()] = true
		t.Run(string(msg.MessageType()), func(t *testing.T) {
			encoded, err := Encode(msg)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(frame, string(encoded)); diff != "" {
				t.Errorf("encoded (-want +got):\n%s", diff)
			}
			decoded, err := Decode([]byte(frame))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(msg, decoded); diff != "" {
				t.Errorf("decoded (-want +got):\n%s", diff)
			}
		})
	}
	for kind := range constructors {
		if !seen[kind] {
			t.Errorf("no example of %s", kind)
		}
	}
}

func TestDecode_lenient(t *testing.T) {
	null := json.RawMessage("null")
	tests := map[string]struct {
		frame string
		want  Message
	}{
		"unknown fields are ignored":    {`{"type":"ping","new":{"x":1}}`, &Ping{}},
		"blanks around do no harm":      {" \n{\"type\" : \"pong\"}\t", &Pong{}},
		"nulls count as absent in call": {`{"type":"invokefunction","invocation_id":null,"function_id":"f","data":{},"action":null,"metadata":null,"namespace":null,"traceparent":null}`, &InvokeFunction{FunctionID: "f", Data: json.RawMessage("{}")}},
		"nulls count as absent in a registration": {
			`{"type":"registerfunction","id":"f","description":null,"request_format":null,"response_format":null,"metadata":null,"invocation":null}`,
			&RegisterFunction{ID: "f"},
		},
		"a null result is none":              {`{"type":"invocationresult","invocation_id":"i","function_id":"f","result":null,"error":null}`, &InvocationResult{InvocationID: "i", FunctionID: "f"}},
		"missing data is null":               {`{"type":"invokefunction","function_id":"f"}`, &InvokeFunction{FunctionID: "f", Data: null}},
		"missing config is null":             {`{"type":"registertrigger","id":"t","trigger_type":"x","function_id":"f"}`, &RegisterTrigger{ID: "t", TriggerType: "x", FunctionID: "f", Config: null}},
		"a blank namespace is no absent one": {`{"type":"invokefunction","function_id":"f","data":1,"namespace":" "}`, &InvokeFunction{FunctionID: "f", Data: json.RawMessage("1"), Namespace: text(" ")}},
		"an empty owner means the engine":    {`{"type":"registrationrejected","code":"X","namespace":"n","owner_worker_id":""}`, &RegistrationRejected{Code: "X", Namespace: "n"}},
		"a description may be empty":         {`{"type":"registertriggertype","id":"x","description":""}`, &RegisterTriggerType{ID: "x"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Decode([]byte(tc.frame))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("decoded (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecode_refuses(t *testing.T) {
	tests := map[string]struct{ frame, reason string }{
		"nothing":                       {"", "end of JSON"},
		"a cut frame":                   {`{"type":"ping"`, "end of JSON"},
		"a list":                        {`[]`, "array"},
		"null":                          {`null`, "unknown type"},
		"no type":                       {`{}`, "unknown type"},
		"a type the engine lacks":       {`{"type":"unregistertriggertype","id":"x"}`, "unknown type"},
		"a type in capitals":            {`{"type":"Ping"}`, "unknown type"},
		"two frames in one":             {`{"type":"ping"}{"type":"ping"}`, "after top-level"},
		"bytes that are no text":        {"{\"type\":\"invokefunction\",\"function_id\":\"f\",\"data\":\"\xff\"}", "UTF-8"},
		"a field of a wrong type":       {`{"type":"invokefunction","function_id":7}`, "function_id"},
		"a call without a function":     {`{"type":"invokefunction","data":{}}`, "function_id is missing"},
		"an answer without an id":       {`{"type":"invocationresult","result":1}`, "invocation_id is missing"},
		"a registration without an id":  {`{"type":"registerfunction","description":"d"}`, "id is missing"},
		"a trigger without a type":      {`{"type":"registertrigger","id":"t","function_id":"f"}`, "trigger_type is missing"},
		"a trigger without a function":  {`{"type":"registertrigger","id":"t","trigger_type":"x"}`, "function_id is missing"},
		"a welcome without an id":       {`{"type":"workerregistered"}`, "worker_id is missing"},
		"a reattach without an id":      {`{"type":"reattach","reattach_token":"t"}`, "previous_worker_id is missing"},
		"a rejection without a code":    {`{"type":"registrationrejected"}`, "code is missing"},
		"an unregister without an id":   {`{"type":"unregistertrigger"}`, "id is missing"},
		"a trigger type without an id":  {`{"type":"registertriggertype","description":""}`, "id is missing"},
		"a type without a description":  {`{"type":"registertriggertype","id":"x"}`, "description is missing"},
		"a type with null for it":       {`{"type":"registertriggertype","id":"x","description":null}`, "description is missing"},
		"a result without a trigger id": {`{"type":"triggerregistrationresult"}`, "id is missing"},
		"a nameless unregister":         {`{"type":"unregisterfunction"}`, "id is missing"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			msg, err := Decode([]byte(tc.frame))
			var refused *DecodeError
			if !errors.As(err, &refused) || msg != nil {
				t.Fatalf("decoded %#v, %v; want a *DecodeError", msg, err)
			}
			if !strings.Contains(err.Error(), tc.reason) {
				t.Errorf("error %q does not say %q", err, tc.reason)
			}
		})
	}
}

func TestEncode_refuses(t *testing.T) {
	for name, data := range map[string]string{"no JSON": "{", "empty JSON": "", "bytes that are no text": "\"\xff\""} {
		frame, err := Encode(&InvokeFunction{FunctionID: "f", Data: json.RawMessage(data)})
		if err == nil {
			t.Errorf("data that is %s is encoded as %s", name, frame)
		}
	}
}

func TestEncode_absentDataIsNull(t *testing.T) {
	got, err := Encode(&InvokeFunction{FunctionID: "f"})
	if diff := cmp.Diff(`{"type":"invokefunction","function_id":"f","data":null}`, string(got)); diff != "" || err != nil {
		t.Errorf("encoded (-want +got):\n%s%v", diff, err)
	}
}

// FuzzDecode: whatever decodes can be encoded, and decodes to the same again.
func FuzzDecode(f *testing.F) {
	for frame := range examples() {
		f.Add([]byte(frame))
	}
	for _, frame := range []string{"", "null", "[]", `{"type":"ping","type":"pong"}`, `{"type":"invokefunction","function_id":"f","data":"\ud800"}`, `{"TYPE":"ping"}`} {
		f.Add([]byte(frame))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		msg, err := Decode(frame)
		if err != nil {
			return
		}
		encoded, err := Encode(msg)
		if err != nil {
			t.Fatalf("decoded %q but cannot encode it: %v", frame, err)
		}
		again, err := Decode(encoded)
		if err != nil {
			t.Fatalf("encoded %q as %q, which does not decode: %v", frame, encoded, err)
		}
		twice, err := Encode(again)
		if err != nil || !bytes.Equal(twice, encoded) {
			t.Fatalf("encoding is not stable: %q, then %q, %v", encoded, twice, err)
		}
	})
}
