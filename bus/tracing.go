package bus

import (
	"context"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// The names under which the bus carries W3C trace context
// (contracts/iii-bus.md §5.8). It has no place for tracestate.
const (
	traceparentKey = "traceparent"
	baggageKey     = "baggage"
)

var (
	traceContext = propagation.TraceContext{}
	traceBaggage = propagation.Baggage{}
)

// traced fills the trace context that the call does not name itself from ctx.
func (call Call) traced(ctx context.Context) Call {
	if call.Traceparent == "" && trace.SpanContextFromContext(ctx).IsValid() {
		carrier := propagation.MapCarrier{}
		traceContext.Inject(ctx, carrier)
		call.Traceparent = carrier[traceparentKey]
	}
	if call.Baggage == "" && baggage.FromContext(ctx).Len() > 0 {
		carrier := propagation.MapCarrier{}
		traceBaggage.Inject(ctx, carrier)
		call.Baggage = carrier[baggageKey]
	}
	return call
}

// withTrace makes the caller's span and the members of its baggage those of ctx,
// as remote ones, so that what the handler calls and records belongs to the same trace. What
// does not parse is left out.
func withTrace(ctx context.Context, traceparent, members string) context.Context {
	if traceparent != "" {
		ctx = traceContext.Extract(ctx, propagation.MapCarrier{traceparentKey: traceparent})
	}
	if members != "" {
		ctx = traceBaggage.Extract(ctx, propagation.MapCarrier{baggageKey: members})
	}
	return ctx
}
