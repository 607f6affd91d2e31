package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
)

// Listeners of the engine under test; the suites know them by these names.
const (
	openListener    = "bus"
	rbacListener    = "rbac"
	guardedListener = "guarded"

	authFunction = "conformance::auth"
)

// engineConfig has an open port, one with RBAC and registration hooks, and one
// with RBAC and a middleware (contracts/iii-bus.md §9). The functions they name
// are served by the suites.
func engineConfig() engine.Config {
	return engine.Config{
		HTTPAddress: "127.0.0.1:0",
		Listeners: []engine.Listener{
			{Name: openListener, Address: "127.0.0.1:0"},
			{Name: rbacListener, Address: "127.0.0.1:0", Policy: &engine.Policy{
				AuthFunctionID:                      authFunction,
				OnFunctionRegistrationFunctionID:    "conformance::on-function",
				OnTriggerRegistrationFunctionID:     "conformance::on-trigger",
				OnTriggerTypeRegistrationFunctionID: "conformance::on-type",
				Expose: []engine.Exposure{
					{Match: "exposed::*"},
					{Metadata: map[string]any{"audience": `match("guest*")`}},
				},
			}},
			{Name: guardedListener, Address: "127.0.0.1:0", MiddlewareFunctionID: "conformance::middleware",
				Policy: &engine.Policy{AuthFunctionID: authFunction}},
		},
	}
}

// startEngine starts an engine on free loopback ports and returns, as JSON, the
// URLs that a suite finds it by.
func startEngine(ctx context.Context) (*engine.Engine, string, error) {
	e, err := engine.New(engineConfig())
	if err != nil {
		return nil, "", err
	}
	if err := e.Start(ctx); err != nil {
		return nil, "", fmt.Errorf("starting the engine: %w", err)
	}
	urls := map[string]string{"http": e.HTTPURL()}
	for _, name := range []string{openListener, rbacListener, guardedListener} {
		urls[name] = e.URL(name)
	}
	text, err := json.Marshal(urls)
	return e, string(text), err
}
