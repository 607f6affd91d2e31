package bus

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// serveOnce answers the next call and returns what it carried.
func serveOnce(p *peer, reply string) <-chan *protocol.InvokeFunction {
	got := make(chan *protocol.InvokeFunction, 1)
	go func() {
		call, ok := (<-p.frames).(*protocol.InvokeFunction)
		if !ok {
			p.t.Error("another frame than a call")
			return
		}
		got <- call
		p.respond(call, reply)
	}()
	return got
}

func TestClient_FunctionInfo(t *testing.T) {
	r, p, _ := startAdmitted(t, nil)
	call := serveOnce(p, `{"function_id":"a::f","namespace":"default","worker_name":"tester","description":null,
		"request_schema":{"type":"object"},"registered_triggers":[{"id":"t1","trigger_type":"http","config":{}}],"new":1}`)
	got, err := r.FunctionInfo(t.Context(), "a::f", "")
	if err != nil {
		t.Fatal(err)
	}
	want := FunctionInfo{
		FunctionID: "a::f", Namespace: "default", WorkerName: "tester",
		RequestSchema:      json.RawMessage(`{"type":"object"}`),
		RegisteredTriggers: []RegisteredTrigger{{ID: "t1", TriggerType: "http", FunctionID: "a::f", Config: json.RawMessage("{}")}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("info (-want +got):\n%s", diff)
	}
	if sent := receive(t, call); sent.FunctionID != protocol.FunctionFunctionsInfo || string(sent.Data) != `{"function_id":"a::f"}` {
		t.Errorf("called %s with %s", sent.FunctionID, sent.Data)
	}
}

func TestClient_FunctionInfo_notFound(t *testing.T) {
	r, p, _ := startAdmitted(t, nil)
	go func() {
		if call, ok := (<-p.frames).(*protocol.InvokeFunction); ok {
			p.send(failure(call, protocol.CodeNotFound, "no such function"))
		}
	}()
	if _, err := r.FunctionInfo(t.Context(), "a::f", "shop"); !IsNotFound(err) {
		t.Errorf("FunctionInfo: %v, want not found", err)
	}
}

func TestClient_RegisteredTriggers(t *testing.T) {
	r, p, _ := startAdmitted(t, nil)
	serveOnce(p, `{"registered_triggers":[{"id":"t1","trigger_type":"cron","function_id":"a::f","worker_name":"w","config":{"x":1},"config_summary":"x"}]}`)
	got, err := r.RegisteredTriggers(t.Context(), "a::f")
	want := []RegisteredTrigger{{
		ID: "t1", TriggerType: "cron", FunctionID: "a::f", WorkerName: "w", Config: json.RawMessage(`{"x":1}`), ConfigSummary: "x",
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("triggers (-want +got):\n%s%v", diff, err)
	}
}

func TestClient_CreateChannel(t *testing.T) {
	r, p, _ := startAdmitted(t, nil)
	serveOnce(p, `{"writer":{"channel_id":"c","access_key":"k","direction":"write"},"reader":{"channel_id":"c","access_key":"k","direction":"read"}}`)
	got, err := r.CreateChannel(t.Context(), 3)
	want := protocol.ChannelPair{
		Writer: protocol.ChannelRef{ChannelID: "c", AccessKey: "k", Direction: "write"},
		Reader: protocol.ChannelRef{ChannelID: "c", AccessKey: "k", Direction: "read"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("pair (-want +got):\n%s%v", diff, err)
	}
	serveOnce(p, `{}`)
	if _, err := r.CreateChannel(t.Context(), 0); err == nil {
		t.Error("an answer without references is accepted")
	}
}
