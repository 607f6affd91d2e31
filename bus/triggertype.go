package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// TriggerType makes this worker the provider of a trigger type: it learns of
// every binding and fires it with Void (contracts/iii-bus.md §6.1).
type TriggerType struct {
	ID, Description string
	// RequestFormat is the JSON Schema of a binding's config, CallFormat that of
	// what a firing delivers; nil when unknown.
	RequestFormat, CallFormat json.RawMessage
	// Register takes a binding on; its error refuses it. Its context ends with the
	// connection or after 10 s.
	Register func(ctx context.Context, b Binding) error
	// Unregister gives a binding up that Register took: because the engine says
	// so, because the same id comes again, or because the connection is lost, after
	// which the engine replays the bindings that remain. It may be nil.
	//
	// Both are called in order, from one goroutine of Run.
	Unregister func(b Binding)
}

// Binding is a function that waits for a trigger of our type.
type Binding struct {
	ID, FunctionID string
	// Config is JSON null when there is none, Metadata nil.
	Config, Metadata json.RawMessage
	// Namespace is that of the target function; empty means default.
	Namespace string
}

type boundTrigger struct {
	session *session
	kind    TriggerType
	binding Binding
}

// RegisterTriggerType adds a trigger type, or replaces the one of the same id:
// at once when connected, and again on every new connection. There is no way
// back but the end of the connection (§2.15).
func (c *Client) RegisterTriggerType(t TriggerType) error {
	if t.ID == "" || t.Register == nil {
		return errors.New("registering a trigger type: ID or Register is empty")
	}
	frame, err := encode(&protocol.RegisterTriggerType{
		ID:                   t.ID,
		Description:          t.Description,
		TriggerRequestFormat: t.RequestFormat,
		CallRequestFormat:    t.CallFormat,
	})
	if err != nil {
		return actError("registering trigger type", t.ID, err)
	}
	put(c.registry, c.registry.types, t.ID, t, frame)
	return nil
}

// bind hands a new binding to its provider and answers the engine (§2.8).
func (s *session) bind(m *protocol.RegisterTrigger) {
	c := s.client
	kind, known := lookup(c.registry, c.registry.types, m.TriggerType)
	if !known {
		s.answerBinding(m, &protocol.ErrorBody{
			Code:    protocol.CodeTriggerTypeNotFound,
			Message: "trigger type " + m.TriggerType + " is not provided by this worker",
		})
		return
	}
	c.bindings.push(func() { s.takeOn(kind, m) })
}

// takeOn runs on the bindings queue.
func (s *session) takeOn(kind TriggerType, m *protocol.RegisterTrigger) {
	if s.ctx.Err() != nil {
		return
	}
	c := s.client
	c.giveUp(m.ID)
	binding := Binding{ID: m.ID, FunctionID: m.FunctionID, Config: m.Config, Metadata: m.Metadata}
	if m.Namespace != nil {
		binding.Namespace = *m.Namespace
	}
	if err := c.callRegister(s.ctx, kind, binding); err != nil {
		s.answerBinding(m, bindingFailure(err))
		return
	}
	c.bound[m.ID] = boundTrigger{session: s, kind: kind, binding: binding}
	s.answerBinding(m, nil)
}

func (c *Client) callRegister(ctx context.Context, kind TriggerType, binding Binding) (err error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.timers.binding)
	defer cancel()
	defer func() {
		if value := recover(); value != nil {
			logPanic(c.log, kind.ID, value)
			err = fmt.Errorf("the provider of %s panicked", kind.ID)
		}
	}()
	return kind.Register(ctx, binding)
}

func bindingFailure(err error) *protocol.ErrorBody {
	var remote *RemoteError
	if errors.As(err, &remote) && remote.Code != "" {
		return &protocol.ErrorBody{Code: remote.Code, Message: remote.Message}
	}
	return &protocol.ErrorBody{Code: protocol.CodeTriggerRegistrationFailed, Message: err.Error()}
}

func (s *session) answerBinding(m *protocol.RegisterTrigger, failure *protocol.ErrorBody) {
	s.post(&protocol.TriggerRegistrationResult{
		ID:          m.ID,
		TriggerType: m.TriggerType,
		FunctionID:  m.FunctionID,
		Error:       failure,
	})
}

func (s *session) unbind(m *protocol.UnregisterTrigger) {
	s.client.bindings.push(func() { s.client.giveUp(m.ID) })
}

// releaseBindings gives up whatever the lost connection had bound.
func (s *session) releaseBindings() {
	c := s.client
	c.bindings.push(func() {
		for id, bound := range c.bound {
			if bound.session == s {
				c.giveUp(id)
			}
		}
	})
}

// giveUp runs on the bindings queue.
func (c *Client) giveUp(id string) {
	bound, ok := c.bound[id]
	if !ok {
		return
	}
	delete(c.bound, id)
	if bound.kind.Unregister == nil {
		return
	}
	defer func() {
		if value := recover(); value != nil {
			logPanic(c.log, bound.kind.ID, value)
		}
	}()
	bound.kind.Unregister(bound.binding)
}
