package protocol

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzDecode_likeTheStandardLibrary compares the decoder of calls and answers with encoding/json: both
// accept the same frames and read the same from them. What was read is written
// and read again without a change.
func FuzzDecode_likeTheStandardLibrary(f *testing.F) {
	for frame := range examples() {
		f.Add([]byte(frame))
	}
	for _, frame := range []string{
		` { "type" : "invokefunction" , "function_id" : "a\"b\\" , "data" : [ { "x" : "]}\\\"" } ] } `,
		`{"type":"invokefunction","function_id":"\u0061","data":1.5e3,"namespace":null,"action":{"type":"void","x":[]}}`,
		`{"type":"invocationresult","invocation_id":"i","function_id":"f","result":"\\","error":null}`,
		`{"type":"invocationresult","type":"invokefunction","function_id":"f","function_id":"g"}`,
		`{"type":"invokefunction","function_id":7}`, `{"type":null}`, `[]`, `{`, `nul`, `{"type":"nope"}`, "\xff",
	} {
		f.Add([]byte(frame))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		got, err := Decode(bytes.Clone(frame))
		hot, isHot := got.(hotMessage)
		if err != nil || !isHot {
			return
		}
		want := constructors[hot.MessageType()]()
		if err := decodeExactly(frame, want); err != nil {
			t.Fatalf("encoding/json refuses %q: %v", frame, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q (-want +got):\n%s", frame, diff)
		}
		encoded, err := Encode(got)
		if err != nil {
			t.Fatalf("encoding what %q says: %v", frame, err)
		}
		again, err := Decode(encoded)
		if err != nil {
			t.Fatalf("decoding %q: %v", encoded, err)
		}
		if diff := cmp.Diff(got, again); diff != "" {
			t.Fatalf("written and read again (-want +got):\n%s", diff)
		}
	})
}

// decodeExactly is encoding/json without its matching of names in another case,
// which peers do not have either: such names are taken out first.
func decodeExactly(frame []byte, msg Message) error {
	known := map[string]bool{}
	for _, name := range []string{
		"type", "invocation_id", "function_id", "data", "traceparent", "baggage", "action", "metadata", "namespace", "result", "error",
	} {
		known[name] = true
	}
	exact := []byte{'{'}
	err := eachField(frame, func(name, value []byte) error {
		if !known[string(name)] {
			return nil
		}
		if len(exact) > 1 {
			exact = append(exact, ',')
		}
		exact = append(append(append(exact, mustMarshal(string(name))...), ':'), value...)
		return nil
	})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(append(exact, '}'), msg); err != nil {
		return err
	}
	return normalize(msg)
}

func TestEncode_refusesWhatLooksWholeOnlyTogether(t *testing.T) {
	for name, msg := range map[string]Message{
		"data that closes the frame": &InvokeFunction{FunctionID: "f", Data: json.RawMessage(`1},{"a":1`)},
		"data with another field":    &InvokeFunction{FunctionID: "f", Data: json.RawMessage(`1,"action":{"type":"void"}`)},
		"a result with a field":      &InvocationResult{InvocationID: "i", FunctionID: "f", Result: json.RawMessage(`1,"x":2`)},
		"metadata that is no JSON":   &InvokeFunction{FunctionID: "f", Metadata: json.RawMessage(`x`)},
		"empty data":                 &InvokeFunction{FunctionID: "f", Data: json.RawMessage{}},
	} {
		t.Run(name, func(t *testing.T) {
			if frame, err := Encode(msg); err == nil {
				t.Errorf("encoded as %s", frame)
			}
		})
	}
}

func TestDecode_keepsPayloadsApart(t *testing.T) {
	msg, err := Decode([]byte(`{"type":"invokefunction","function_id":"f","data":{"a":1},"metadata":{"b":2}}`))
	if err != nil {
		t.Fatal(err)
	}
	call := msg.(*InvokeFunction)
	_ = append(call.Data, `overwritten`...)
	if string(call.Metadata) != `{"b":2}` {
		t.Errorf("metadata is %s", call.Metadata)
	}
}

func BenchmarkDecode(b *testing.B) {
	frame := []byte(`{"type":"invokefunction","invocation_id":"0e0a3d92-3c55-47b6-8a1f-2f7f9f0b6d10","function_id":"a::f","data":{"n":1}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(frame); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	msg := &InvokeFunction{InvocationID: "0e0a3d92-3c55-47b6-8a1f-2f7f9f0b6d10", FunctionID: "a::f", Data: json.RawMessage(`{"n":1}`)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Encode(msg); err != nil {
			b.Fatal(err)
		}
	}
}
