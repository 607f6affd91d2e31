package bus_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

const (
	parentText  = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	otherParent = "00-11111111111111111111111111111111-2222222222222222-00"
)

// inTrace is a context with a span and baggage.
func inTrace(t *testing.T) context.Context {
	t.Helper()
	traceID, err := trace.TraceIDFromHex("0af7651916cd43dd8448eb211c80319c")
	if err != nil {
		t.Fatal(err)
	}
	spanID, err := trace.SpanIDFromHex("b7ad6b7169203331")
	if err != nil {
		t.Fatal(err)
	}
	member, err := baggage.NewMember("tenant", "t-9")
	if err != nil {
		t.Fatal(err)
	}
	bag, err := baggage.New(member)
	if err != nil {
		t.Fatal(err)
	}
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: spanID, TraceFlags: trace.FlagsSampled})
	return baggage.ContextWithBaggage(trace.ContextWithSpanContext(t.Context(), span), bag)
}

// seen is what a handler finds of its caller's trace.
type seen struct {
	Traceparent, Baggage string
	TraceID              string
	Remote               bool
	Tenant               string
}

func look(ctx context.Context, inv bus.Invocation) (json.RawMessage, error) {
	span := trace.SpanContextFromContext(ctx)
	found := seen{Traceparent: inv.Traceparent, Baggage: inv.Baggage, Remote: span.IsRemote(), Tenant: baggage.FromContext(ctx).Member("tenant").Value()}
	if span.IsValid() {
		found.TraceID = span.TraceID().String()
	}
	return json.Marshal(found)
}

func TestClient_traceContext(t *testing.T) {
	url := startEngine(t)
	server := startWorker(t, bus.Options{URL: url, Name: "server"}).connected(t)
	if err := server.RegisterFunction(bus.Function{ID: "trace::look", Handler: look}); err != nil {
		t.Fatal(err)
	}
	// A handler's own calls belong to the trace of its caller.
	relay := func(ctx context.Context, _ bus.Invocation) (json.RawMessage, error) {
		return server.Call(ctx, bus.Call{FunctionID: "trace::look"})
	}
	if err := server.RegisterFunction(bus.Function{ID: "trace::relay", Handler: relay}); err != nil {
		t.Fatal(err)
	}
	if _, err := server.FunctionInfo(t.Context(), "trace::relay", ""); err != nil {
		t.Fatal(err)
	}
	caller := startWorker(t, bus.Options{URL: url, Name: "caller"}).connected(t)
	const traceID = "0af7651916cd43dd8448eb211c80319c"
	for name, tc := range map[string]struct {
		ctx  context.Context
		call bus.Call
		want seen
	}{
		"that of the context": {
			inTrace(t), bus.Call{FunctionID: "trace::look"}, seen{parentText, "tenant=t-9", traceID, true, "t-9"},
		},
		"through a handler": {
			inTrace(t), bus.Call{FunctionID: "trace::relay"}, seen{parentText, "tenant=t-9", traceID, true, "t-9"},
		},
		"what the call names wins": {
			inTrace(t), bus.Call{FunctionID: "trace::look", Traceparent: otherParent, Baggage: "tenant=other"},
			seen{otherParent, "tenant=other", "11111111111111111111111111111111", true, "other"},
		},
		"none is none": {t.Context(), bus.Call{FunctionID: "trace::look"}, seen{}},
		"nonsense is passed on but not believed": {
			t.Context(), bus.Call{FunctionID: "trace::look", Traceparent: "nonsense", Baggage: "=,="}, seen{Traceparent: "nonsense", Baggage: "=,="},
		},
	} {
		t.Run(name, func(t *testing.T) {
			answer, err := caller.Call(tc.ctx, tc.call)
			if err != nil {
				t.Fatal(err)
			}
			var got seen
			if err := json.Unmarshal(answer, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("the handler sees (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClient_voidAndEnqueueCarryTheTrace(t *testing.T) {
	client := startWorker(t, bus.Options{URL: startEngine(t), Name: "both"}).connected(t)
	got := make(chan string, 2)
	handler := func(_ context.Context, inv bus.Invocation) (json.RawMessage, error) {
		got <- inv.Traceparent + " " + inv.Baggage
		return nil, nil
	}
	if err := client.RegisterFunction(bus.Function{ID: "trace::note", Handler: handler}); err != nil {
		t.Fatal(err)
	}
	if err := client.Void(inTrace(t), bus.Call{FunctionID: "trace::note"}); err != nil {
		t.Fatal(err)
	}
	if receipt, err := client.Enqueue(inTrace(t), "mail", bus.Call{FunctionID: "trace::note"}); err != nil || receipt == "" {
		t.Fatalf("receipt %q, %v", receipt, err)
	}
	for range 2 {
		if text := take(t, got); text != parentText+" tenant=t-9" {
			t.Errorf("the handler got %q", text)
		}
	}
}

func TestClient_namespaces(t *testing.T) {
	url := startEngine(t)
	answering := func(where string) bus.Function {
		return bus.Function{ID: "shop::price", Handler: func(context.Context, bus.Invocation) (json.RawMessage, error) {
			return json.Marshal(where)
		}}
	}
	team := startWorker(t, bus.Options{URL: url, Name: "server", Namespace: "team"}).connected(t)
	// Names are unique in a namespace only.
	plain := startWorker(t, bus.Options{URL: url, Name: "server"}).connected(t)
	for w, f := range map[*worker]bus.Function{team: answering("team"), plain: answering("default")} {
		if err := w.RegisterFunction(f); err != nil {
			t.Fatal(err)
		}
	}
	solo := bus.Function{ID: "team::only", Handler: answering("team").Handler}
	if err := team.RegisterFunction(solo); err != nil {
		t.Fatal(err)
	}
	for w, namespace := range map[*worker]string{team: "team", plain: "default"} {
		if info, err := w.FunctionInfo(t.Context(), "shop::price", namespace); err != nil || info.Namespace != namespace {
			t.Fatalf("function %+v, %v", info, err)
		}
	}
	for name, tc := range map[string]struct {
		from *worker
		call bus.Call
		want string
		code string
	}{
		"none is default":                      {plain, bus.Call{FunctionID: "shop::price"}, `"default"`, ""},
		"the namespace that the call names":    {plain, bus.Call{FunctionID: "shop::price", Namespace: "team"}, `"team"`, ""},
		"none is default in a namespace too":   {team, bus.Call{FunctionID: "shop::price"}, `"default"`, ""},
		"back into default by name":            {team, bus.Call{FunctionID: "shop::price", Namespace: "default"}, `"default"`, ""},
		"no search in other namespaces":        {plain, bus.Call{FunctionID: "team::only"}, "", protocol.CodeFunctionNotFound},
		"no way from a namespace into default": {plain, bus.Call{FunctionID: "shop::price", Namespace: "absent"}, "", protocol.CodeFunctionNotFound},
		"blank is no namespace":                {plain, bus.Call{FunctionID: "shop::price", Namespace: " "}, "", protocol.CodeInvalidNamespace},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.from.Call(t.Context(), tc.call)
			if string(got) != tc.want || bus.RemoteCode(err) != tc.code {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}

func TestClient_token(t *testing.T) {
	e := runEngine(t, func(c *engine.Config) {
		c.Listeners = append(c.Listeners, engine.Listener{
			Name: "guests", Address: "127.0.0.1:0", Policy: &engine.Policy{Token: "let-me-in"},
		})
	})
	url := e.URL("guests")
	for name, options := range map[string]bus.Options{
		"in the query": {URL: url + "/?token=let-me-in", Name: "query"},
		"as a header":  {URL: url, Name: "header", Header: http.Header{"Authorization": {"Bearer let-me-in"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := startWorker(t, options).connected(t)
			if _, err := w.Call(t.Context(), bus.Call{FunctionID: protocol.FunctionFunctionsList}); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("a wrong one is refused and tried again", func(t *testing.T) {
		w := startWorker(t, bus.Options{URL: url + "/?token=wrong", Name: "wrong"})
		for range 2 {
			event := w.await(t, bus.WorkerRejected)
			if bus.RemoteCode(event.Err) != protocol.CodeAuthError {
				t.Errorf("event %+v", event)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if err := w.WaitConnected(ctx); err == nil {
			t.Error("connected")
		}
	})
}
