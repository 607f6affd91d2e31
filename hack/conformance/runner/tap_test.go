package main

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/engine"
)

// tappedWorker serves test::echo through a tap, and returns the tap and a caller on the
// engine itself.
func tappedWorker(t *testing.T) (*tap, *bus.Client) {
	t.Helper()
	e, err := engine.New(engine.Config{Listeners: []engine.Listener{{Name: "bus", Address: "127.0.0.1:0"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	between, err := startTap(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = between.stop() })
	between.lead(e.URL("bus"))
	worker := connectClient(t, between.URL, "worker")
	err = worker.RegisterFunction(bus.Function{ID: "test::echo", Handler: func(_ context.Context, inv bus.Invocation) (json.RawMessage, error) {
		return inv.Data, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	caller := connectClient(t, e.URL("bus"), "caller")
	for {
		if _, err := caller.FunctionInfo(t.Context(), "test::echo", ""); err == nil {
			return between, caller
		}
		waitFor(5 * time.Millisecond)
	}
}

func connectClient(t *testing.T, url, name string) *bus.Client {
	t.Helper()
	client, err := bus.New(bus.Options{URL: url, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s ended with %v", name, err)
		}
	})
	if err := client.WaitConnected(t.Context()); err != nil {
		t.Fatal(err)
	}
	return client
}

func echoed(t *testing.T, caller *bus.Client) string {
	t.Helper()
	answer, err := caller.Call(t.Context(), bus.Call{FunctionID: "test::echo", Data: json.RawMessage(`{"n":1}`)})
	if err != nil {
		return "error: " + err.Error()
	}
	var object m
	if err := json.Unmarshal(answer, &object); err != nil {
		t.Fatal(err)
	}
	delete(object, "_caller_worker_id")
	text, _ := json.Marshal(object)
	return string(text)
}

func TestTap(t *testing.T) {
	gate := make(chan struct{})
	close(gate)
	for name, tc := range map[string]struct {
		rule *rule
		want []string
	}{
		"no rule":               {nil, []string{`{"n":1}`}},
		"an answer":             {&rule{function: "test::echo", answer: m{"a": 2}}, []string{`{"a":2}`}},
		"an answer, once":       {&rule{function: "test::echo", times: 1, answer: m{"a": 2}}, []string{`{"a":2}`, `{"n":1}`}},
		"by the id's beginning": {&rule{function: "test::*", answer: m{"a": 2}}, []string{`{"a":2}`}},
		"of another function":   {&rule{function: "test::ech", answer: m{"a": 2}}, []string{`{"n":1}`}},
		"of other data":         {&rule{function: "test::echo", having: `"n":2`, answer: m{"a": 2}}, []string{`{"n":1}`}},
		"of this data":          {&rule{function: "test::echo", having: `"n":1`, answer: m{"a": 2}}, []string{`{"a":2}`}},
		"a changed answer":      {&rule{function: "test::echo", alter: func(reply m) { reply["n"] = 7 }}, []string{`{"n":7}`}},
		"a held call":           {&rule{function: "test::echo", hold: gate}, []string{`{"n":1}`}},
	} {
		t.Run(name, func(t *testing.T) {
			between, caller := tappedWorker(t)
			if tc.rule != nil {
				defer between.script(tc.rule)()
			}
			var got []string
			for range tc.want {
				got = append(got, echoed(t, caller))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTap_faultAndNotes(t *testing.T) {
	between, caller := tappedWorker(t)
	remove := between.script(&rule{function: "test::echo", fault: daemonFault("S300", "no luck")})
	if got := echoed(t, caller); !strings.Contains(got, `handler error: {`) || !strings.Contains(got, `"code":"S300"`) {
		t.Errorf("the fault came as %q", got)
	}
	remove()
	if got := echoed(t, caller); got != `{"n":1}` {
		t.Errorf("without the rule the answer is %s", got)
	}
	noted := slices.DeleteFunc(names(between.since(0)), func(id string) bool { return id != "test::echo" })
	if diff := cmp.Diff([]string{"test::echo", "test::echo"}, noted); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if functions, _ := between.registered(); !slices.Contains(functions, "test::echo") {
		t.Errorf("registered functions are %v", functions)
	}
}

// TestTap_channels sends bulk data, which has connections of its own, through the
// tap.
func TestTap_channels(t *testing.T) {
	between, caller := tappedWorker(t)
	through := connectClient(t, between.URL, "uploader")
	channel, err := through.CreateChannel(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	sent := strings.Repeat("x", 3<<20)
	go func() {
		writer, err := through.OpenWriter(t.Context(), channel.Writer)
		if err == nil {
			_, _ = writer.Write([]byte(sent))
			_ = writer.Close()
		}
	}()
	reader, err := caller.OpenReader(t.Context(), channel.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if _, err := io.Copy(&got, reader); err != nil || got.Len() != len(sent) {
		t.Errorf("%d of %d bytes came, error %v", got.Len(), len(sent), err)
	}
}
