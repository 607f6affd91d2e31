package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEncodeCall(t *testing.T) {
	request := CallRequest{
		Language: Python, SourceDigest: "d", TimeoutMs: 5, Context: CallContext{FunctionID: "a::b", Metadata: json.RawMessage(`{"m":1}`)},
		Bus: Bus{WorkerName: "w"},
	}
	for _, payload := range []string{"", "null", "0", `"<&>\u2028"`, "{\n  \"n\": 9007199254740993\n}", `"` + strings.Repeat("x", 300_000) + `"`} {
		request.Payload = nil
		if payload != "" {
			request.Payload = json.RawMessage(payload)
		}
		line, err := EncodeCall(request)
		if err != nil {
			t.Fatal(err)
		}
		var got CallRequest
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%.80s: %v", line, err)
		}
		if diff := cmp.Diff(request, got); diff != "" {
			t.Errorf("%.20s: %s", payload, diff)
		}
	}
	request.Context.Metadata = json.RawMessage("{")
	if _, err := EncodeCall(request); err == nil {
		t.Error("metadata that is no JSON is encoded")
	}
}

var largeCall = CallRequest{
	Language: Node, SourceDigest: strings.Repeat("a", 64), TimeoutMs: 30_000,
	Payload: json.RawMessage(`{"text":"` + strings.Repeat("x", 256<<10) + `"}`),
}

// BenchmarkEncodeCall compares it with encoding the payload anew.
func BenchmarkEncodeCall(b *testing.B) {
	for name, encode := range map[string]func(CallRequest) ([]byte, error){
		"spliced": EncodeCall, "anew": func(request CallRequest) ([]byte, error) { return Marshal(request) },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(largeCall.Payload)))
			for b.Loop() {
				if _, err := encode(largeCall); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
