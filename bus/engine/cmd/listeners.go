package main

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
)

// listenerOptions is one port as the real engine's configuration writes it
// (contracts/iii-bus.md §1.1), with a name for the start-up lines.
type listenerOptions struct {
	Name string `json:"name"`
	Host string `json:"host"`
	Port uint16 `json:"port"`
	// MiddlewareFunctionID sees every call of this port (§9.4).
	MiddlewareFunctionID string       `json:"middleware_function_id"`
	HandshakeTimeoutMS   uint32       `json:"handshake_timeout_ms"`
	RBAC                 *rbacOptions `json:"rbac"`
}

// rbacOptions are §9.2's, and the token that this engine can ask for itself.
type rbacOptions struct {
	Token                               string            `json:"token"`
	AuthFunctionID                      string            `json:"auth_function_id"`
	ExposeFunctions                     []engine.Exposure `json:"expose_functions"`
	ForbiddenFunctions                  []string          `json:"forbidden_functions"`
	OnFunctionRegistrationFunctionID    string            `json:"on_function_registration_function_id"`
	OnTriggerRegistrationFunctionID     string            `json:"on_trigger_registration_function_id"`
	OnTriggerTypeRegistrationFunctionID string            `json:"on_trigger_type_registration_function_id"`
	AllowFunctionRegistration           *bool             `json:"allow_function_registration"`
	AllowTriggerRegistration            *bool             `json:"allow_trigger_registration"`
	AllowTriggerTypeRegistration        bool              `json:"allow_trigger_type_registration"`
}

func (l listenerOptions) listener(index int) engine.Listener {
	name, host := l.Name, l.Host
	if name == "" {
		name = fmt.Sprintf("listener-%d", index+1)
	}
	if host == "" {
		// Nothing of a developer's engine is open to the network unasked.
		host = "127.0.0.1"
	}
	return engine.Listener{
		Name: name, Address: net.JoinHostPort(host, strconv.Itoa(int(l.Port))),
		MiddlewareFunctionID: l.MiddlewareFunctionID, Policy: l.RBAC.policy(),
		HandshakeTimeout: time.Duration(l.HandshakeTimeoutMS) * time.Millisecond,
	}
}

func (r *rbacOptions) policy() *engine.Policy {
	if r == nil {
		return nil
	}
	return &engine.Policy{
		Token: r.Token, AuthFunctionID: r.AuthFunctionID, Expose: r.ExposeFunctions, ForbiddenFunctions: r.ForbiddenFunctions,
		OnFunctionRegistrationFunctionID:    r.OnFunctionRegistrationFunctionID,
		OnTriggerRegistrationFunctionID:     r.OnTriggerRegistrationFunctionID,
		OnTriggerTypeRegistrationFunctionID: r.OnTriggerTypeRegistrationFunctionID,
		AllowFunctionRegistration:           r.AllowFunctionRegistration == nil || *r.AllowFunctionRegistration,
		AllowTriggerRegistration:            r.AllowTriggerRegistration == nil || *r.AllowTriggerRegistration,
		AllowTriggerTypeRegistration:        r.AllowTriggerTypeRegistration,
	}
}

// duration is written as Go writes them: 30s, 250ms.
type duration time.Duration

// String implements flag.Value.
func (d *duration) String() string { return time.Duration(*d).String() }

// Set implements flag.Value.
func (d *duration) Set(text string) error {
	value, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	if value <= 0 {
		return fmt.Errorf("%s is not positive", text)
	}
	*d = duration(value)
	return nil
}

// UnmarshalJSON reads the text form.
func (d *duration) UnmarshalJSON(text []byte) error {
	var written string
	if err := json.Unmarshal(text, &written); err != nil {
		return err
	}
	return d.Set(written)
}
