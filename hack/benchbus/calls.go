package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
	"github.com/sandbox-operator/sandbox-operator/hack/figures"
)

// payload is what each call carries: about what a small request has.
var payload = json.RawMessage(`{"order":"b1946ac9-2492-4d23-8f2b","quantity":3,"note":"two of them wrapped as a present"}`)

// caller makes the calls that are measured.
type caller struct{ client *bus.Client }

func (c *caller) connect(ctx context.Context, url string) (func() error, error) {
	end, client, err := connect(ctx, url, "caller", func(*bus.Client) error { return nil })
	if err != nil {
		return nil, err
	}
	c.client = client
	waiting, cancel := context.WithTimeout(ctx, ending)
	defer cancel()
	if err := errors.Join(c.awaitFunction(waiting, echoFunction), c.awaitFunction(waiting, nearFunction)); err != nil {
		return nil, errors.Join(err, end())
	}
	return end, nil
}

func (c *caller) awaitFunction(ctx context.Context, id string) error {
	for {
		if _, err := c.client.FunctionInfo(ctx, id, ""); !bus.IsNotFound(err) {
			return err
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// pause waits a moment between two questions.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(10 * time.Millisecond):
		return nil
	}
}

// call makes one call to the executor's process, callNear one to this one.
func (c *caller) call(ctx context.Context) error     { return c.echo(ctx, echoFunction) }
func (c *caller) callNear(ctx context.Context) error { return c.echo(ctx, nearFunction) }

// echo makes one call. Its answer is the payload with the caller's id in it.
func (c *caller) echo(ctx context.Context, id string) error {
	got, err := c.client.Call(ctx, bus.Call{FunctionID: id, Data: payload})
	if err != nil {
		return err
	}
	if len(got) < len(payload) {
		return fmt.Errorf("the answer has %d bytes", len(got))
	}
	return nil
}

// bare is the floor: one socket, the frame of a call, one round trip at a time.
type bare struct {
	socket *websocket.Conn
	frame  []byte
}

func dialBare(ctx context.Context, url string) (*bare, error) {
	socket, _, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		return nil, err
	}
	frame, err := protocol.Encode(&protocol.InvokeFunction{InvocationID: uuid.NewString(), FunctionID: echoFunction, Data: payload})
	return &bare{socket, frame}, err
}

func (b *bare) roundTrip(ctx context.Context) error {
	if err := b.socket.Write(ctx, websocket.MessageText, b.frame); err != nil {
		return err
	}
	_, got, err := b.socket.Read(ctx)
	if err == nil && len(got) != len(b.frame) {
		return fmt.Errorf("the echo has %d bytes", len(got))
	}
	return err
}

// measureCalls measures latency at 1, 16 and 256 in flight, throughput and
// allocations.
func measureCalls(ctx context.Context, s sizes, m figures.Metrics) (err error) {
	p, err := startParts(ctx)
	if err != nil {
		return err
	}
	defer closing(&err, p.end)
	if err := measureRatio(ctx, p, s, m, ""); err != nil {
		return err
	}
	for _, inFlight := range []int{16, 256} {
		if _, err := drive(ctx, inFlight, s.roundCalls*4, p.caller.call); err != nil {
			return err
		}
		l, err := drive(ctx, inFlight, s.loadCalls, p.caller.call)
		if err != nil {
			return err
		}
		latencies(m, fmt.Sprintf("bus.%d", inFlight), l)
		m["bus.calls_per_s"] = max(m["bus.calls_per_s"], l.perSecond())
	}
	return measureAllocations(ctx, p, s, m, "")
}

// measureRatio alternates between bare echoes and calls, so that whatever else
// the machine does meets both. A ratio is the median of the rounds' ratios: a
// disturbance of some rounds does not move it.
//
// The floor is an echo between two processes, so bus.p50_ratio is of a call
// between two: both clients in this one, the engine in the other. With a third
// process for the executor the operating system wakes one more for every call,
// which bus.apart.p50_ratio tells.
func measureRatio(ctx context.Context, p *parts, s sizes, m figures.Metrics, suffix string) error {
	floor, err := dialBare(ctx, p.engine.greeting.Echo)
	if err != nil {
		return err
	}
	defer func() { _ = floor.socket.CloseNow() }()
	contenders := []struct {
		name  string
		do    func(context.Context) error
		total load
		// medians of the rounds
		medians []time.Duration
	}{
		{name: "floor.1", do: floor.roundTrip}, {name: "bus.1", do: p.caller.callNear}, {name: "bus.apart.1", do: p.caller.call},
	}
	for round := range s.rounds + 1 {
		for i := range contenders {
			c := &contenders[i]
			l, err := drive(ctx, 1, s.roundCalls, c.do)
			if err != nil {
				return err
			}
			if round > 0 { // the first one warms up
				c.total.add(l)
				c.medians = append(c.medians, l.percentile(0.5))
			}
		}
	}
	for _, c := range contenders {
		latencies(m, c.name+suffix, c.total)
	}
	m["bus.p50_ratio"+suffix] = medianRatio(contenders[1].medians, contenders[0].medians)
	m["bus.apart.p50_ratio"+suffix] = medianRatio(contenders[2].medians, contenders[0].medians)
	return nil
}

// measureOneProcessor is measureRatio with Go's scheduler held to one processor
// in every process. A bare echo is quick where idle processors spin for work,
// which ends before the longer way of a call comes back: then the machine has to
// wake a processor for each hop. Without the spinning both pay for that.
func measureOneProcessor(ctx context.Context, s sizes, m figures.Metrics) (err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p, err := startParts(ctx, "GOMAXPROCS=1")
	if err != nil {
		return err
	}
	defer closing(&err, p.end)
	return measureRatio(ctx, p, s, m, ".one_processor")
}

func medianRatio(of, floor []time.Duration) float64 {
	ratios := make([]float64, len(of))
	for i := range of {
		ratios[i] = float64(of[i]) / float64(floor[i])
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}

// measureAllocations counts what all three processes allocate for a call.
func measureAllocations(ctx context.Context, p *parts, s sizes, m figures.Metrics, suffix string) error {
	before, err := p.mallocs()
	if err != nil {
		return err
	}
	calls := s.roundCalls * 8
	if _, err := drive(ctx, 1, calls, p.caller.call); err != nil {
		return err
	}
	after, err := p.mallocs()
	if err != nil {
		return err
	}
	for i, who := range []string{"caller", "engine", "executor"} {
		m["bus.allocs_per_call_"+who+suffix] = float64(after[i]-before[i]) / float64(calls)
	}
	return nil
}
