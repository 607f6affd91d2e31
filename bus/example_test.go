package bus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/engine"
)

// exampleBus runs an engine and a connected worker until the returned function
// is called.
func exampleBus() (*bus.Client, func()) {
	e, err := engine.New(engine.Config{Listeners: []engine.Listener{{Name: "workers", Address: "127.0.0.1:0"}}})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := e.Start(ctx); err != nil {
		panic(err)
	}
	client, err := bus.New(bus.Options{URL: e.URL("workers"), Name: "example"})
	if err != nil {
		panic(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	if err := client.WaitConnected(ctx); err != nil {
		panic(err)
	}
	return client, func() {
		cancel()
		if err := errors.Join(<-ended, e.Close(context.Background())); err != nil {
			panic(err)
		}
	}
}

// A typed function is published with the JSON schemas of its Go types, and
// called by any worker.
func Example() {
	client, end := exampleBus()
	defer end()
	type order struct {
		Item     string `json:"item"`
		Quantity int    `json:"quantity"`
	}
	type price struct {
		Cents int `json:"cents"`
	}
	err := client.RegisterFunction(bus.TypedFunction("shop::price", "Price of an order",
		func(_ context.Context, o order) (price, error) { return price{Cents: 250 * o.Quantity}, nil }))
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := client.Call(context.Background(), bus.Call{
		FunctionID: "shop::price", Data: json.RawMessage(`{"item":"cup","quantity":3}`),
	})
	fmt.Println(string(answer), err)
	// Output: {"cents":750} <nil>
}

// The type of an error says what the caller may do; a remote one has the code
// that the function chose.
func ExampleRemoteError() {
	client, end := exampleBus()
	defer end()
	err := client.RegisterFunction(bus.Function{ID: "shop::reserve", Handler: func(context.Context, bus.Invocation) (json.RawMessage, error) {
		return nil, &bus.RemoteError{Code: "SOLD_OUT", Message: "no cups left"}
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.Call(context.Background(), bus.Call{FunctionID: "shop::reserve"})
	var remote *bus.RemoteError
	if errors.As(err, &remote) {
		fmt.Println(remote.Code, remote.Message)
	}
	_, err = client.Call(context.Background(), bus.Call{FunctionID: "shop::refund"})
	fmt.Println(bus.IsNotFound(err))
	// Output:
	// SOLD_OUT no cups left
	// true
}

// A trigger binds a function to events; here to the messages of a topic.
func ExampleClient_RegisterTrigger() {
	client, end := exampleBus()
	defer end()
	ctx := context.Background()
	delivered := make(chan string, 1)
	err := errors.Join(
		client.RegisterFunction(bus.Function{ID: "shop::restock", Handler: func(_ context.Context, inv bus.Invocation) (json.RawMessage, error) {
			delivered <- string(inv.Data)
			return nil, nil
		}}),
		client.RegisterTrigger(bus.Trigger{
			ID: "restock-on-sale", Type: "subscribe", FunctionID: "shop::restock", Config: json.RawMessage(`{"topic":"sales"}`),
		}),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	// The engine acknowledges nothing; its list tells.
	bound, err := client.RegisteredTriggers(ctx, "shop::restock")
	fmt.Println(len(bound), err)
	if err := client.Void(ctx, bus.Call{FunctionID: "publish", Data: json.RawMessage(`{"topic":"sales","data":{"item":"cup"}}`)}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-delivered)
	// Output:
	// 1 <nil>
	// {"item":"cup"}
}

// A provider of a trigger type is told of each binding and fires it with Void.
func ExampleClient_RegisterTriggerType() {
	client, end := exampleBus()
	defer end()
	bindings := make(chan bus.Binding, 1)
	received := make(chan string, 1)
	err := errors.Join(
		client.RegisterTriggerType(bus.TriggerType{
			ID: "mailbox", Description: "Fires when mail arrives",
			Register: func(_ context.Context, b bus.Binding) error {
				bindings <- b
				return nil
			},
		}),
		client.RegisterFunction(bus.Function{ID: "inbox::handle", Handler: func(_ context.Context, inv bus.Invocation) (json.RawMessage, error) {
			var mail struct{ Subject string }
			err := json.Unmarshal(inv.Data, &mail)
			received <- mail.Subject
			return nil, err
		}}),
		client.RegisterTrigger(bus.Trigger{ID: "inbox", Type: "mailbox", FunctionID: "inbox::handle", Config: json.RawMessage(`{"box":"in"}`)}),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	b := <-bindings
	fmt.Println(b.FunctionID, string(b.Config))
	err = client.Void(context.Background(), bus.Call{FunctionID: b.FunctionID, Data: json.RawMessage(`{"subject":"hello"}`)})
	fmt.Println(<-received, err)
	// Output:
	// inbox::handle {"box":"in"}
	// hello <nil>
}

// A channel carries what is too large for one message, in frames of 64 KiB and
// with back-pressure.
func ExampleClient_CreateChannel() {
	client, end := exampleBus()
	defer end()
	ctx := context.Background()
	pair, err := client.CreateChannel(ctx, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	sent := make(chan error, 1)
	go func() {
		writer, err := client.OpenWriter(ctx, pair.Writer)
		if err == nil {
			_, err = writer.Write(make([]byte, 1<<20))
			err = errors.Join(err, writer.Close())
		}
		sent <- err
	}()
	reader, err := client.OpenReader(ctx, pair.Reader)
	if err != nil {
		fmt.Println(err)
		return
	}
	got, err := io.ReadAll(reader)
	fmt.Println(len(got), err, <-sent)
	// Output: 1048576 <nil> <nil>
}

// Subscribers learn of connections and refusals; reconcilers wake up on them.
func ExampleClient_Subscribe() {
	client, end := exampleBus()
	events := make(chan bus.Event, 1)
	client.Subscribe(func(e bus.Event) {
		if e.Kind == bus.Disconnected {
			events <- e
		}
	})
	end()
	fmt.Println((<-events).Kind)
	// Output: Disconnected
}
