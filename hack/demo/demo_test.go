package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/engine"
)

func TestMedian(t *testing.T) {
	for sentence, tc := range map[string]struct {
		values []float64
		want   float64
	}{
		"of nothing is zero":                   {nil, 0},
		"of an odd number is the middle":       {[]float64{9, 1, 2}, 2},
		"of an even number is between the two": {[]float64{4, 1, 2, 9}, 3},
		"has one decimal":                      {[]float64{1.2345}, 1.2},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := median(tc.values); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestShown(t *testing.T) {
	got := shown([]string{"apply", "-f", "/some/dir/file.yaml", "-o", "jsonpath={.status}"}, "/some/dir")
	if want := "apply -f file.yaml -o 'jsonpath={.status}'"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDemo_same(t *testing.T) {
	for sentence, tc := range map[string]struct {
		got, want string
		fails     bool
	}{
		"order of keys does not matter": {`{"b":1,"a":2}`, `{"a":2,"b":1}`, false},
		"another value is a deviation":  {`{"a":1}`, `{"a":2}`, true},
		"a further key is a deviation":  {`{"a":1,"b":1}`, `{"a":1}`, true},
		"no JSON is a deviation":        {`nothing`, `{}`, true},
	} {
		t.Run(sentence, func(t *testing.T) {
			d := &demo{report: newReport()}
			err := d.same("it", json.RawMessage(tc.got), tc.want)
			if (err != nil) != tc.fails || (d.report.Checks == 1) == tc.fails {
				t.Errorf("error %v with %d checks; fails: %v", err, d.report.Checks, tc.fails)
			}
		})
	}
}

// The first deviation ends the demo and is named by its step.
func TestDemo_play(t *testing.T) {
	var printed bytes.Buffer
	d := &demo{out: &printer{w: &printed}, report: newReport()}
	reached := false
	err := d.play(t.Context(), []step{
		{"works", func(context.Context) error { return nil }},
		{"breaks", func(context.Context) error { return errors.New("what was wrong") }},
		{"comes after", func(context.Context) error { reached = true; return nil }},
	})
	if err == nil || err.Error() != `step 2, "breaks": what was wrong` {
		t.Errorf("got %v", err)
	}
	if reached || d.report.Steps != 1 {
		t.Errorf("steps after the failure ran, or are counted: %d", d.report.Steps)
	}
}

// The published SDK talks to the embedded engine, through the demo's own client.
func TestBusClient(t *testing.T) {
	e, err := engine.New(engine.Config{Listeners: []engine.Listener{{Name: "workers", Address: "127.0.0.1:0"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	serve(t, e.URL("workers"))
	dir, err := installClient(t.Context(), func(text string) { t.Log(text) })
	if err != nil {
		t.Fatal(err)
	}
	client, err := startClient(dir, e.URL("workers"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.close(); err != nil {
			t.Error(err)
		}
	})

	value, ms, err := client.call(t.Context(), "test::double", map[string]any{"n": 21}, callTimeout)
	if err != nil || string(value) != "42" || ms <= 0 {
		t.Errorf("got %s after %v ms: %v", value, ms, err)
	}
	if _, _, err := client.call(t.Context(), "test::refuse", nil, callTimeout); err == nil || !strings.Contains(err.Error(), "not today") {
		t.Errorf("got %v, want the function's own error", err)
	}
	d := &demo{client: client}
	ids, err := d.busFunctions(t.Context(), "test::")
	if err != nil || len(ids) != 2 {
		t.Errorf("the bus lists %v: %v", ids, err)
	}
}

// serve publishes the functions of the test and waits until the bus knows them.
func serve(t *testing.T, url string) {
	t.Helper()
	worker, err := bus.New(bus.Options{URL: url, Name: "served"})
	if err != nil {
		t.Fatal(err)
	}
	for id, handler := range map[string]bus.Handler{
		"test::double": func(_ context.Context, inv bus.Invocation) (json.RawMessage, error) {
			var request struct{ N int }
			if err := json.Unmarshal(inv.Data, &request); err != nil {
				return nil, err
			}
			return json.Marshal(2 * request.N)
		},
		"test::refuse": func(context.Context, bus.Invocation) (json.RawMessage, error) {
			return nil, errors.New("not today")
		},
	} {
		if err := worker.RegisterFunction(bus.Function{ID: id, Handler: handler}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	d := &demo{report: newReport()}
	for _, id := range []string{"test::double", "test::refuse"} {
		if err := d.eventually(t.Context(), func(ctx context.Context) error {
			_, err := worker.FunctionInfo(ctx, id, "")
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}
