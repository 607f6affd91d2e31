package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// builtinProvider is a trigger type that the engine itself serves. Its methods
// are called under the registry's mutex and must not block.
type builtinProvider interface {
	// bind starts a trigger or says why its configuration is refused.
	bind(b *binding) error
	// unbind ends a trigger; unknown ones are ignored.
	unbind(b *binding)
}

// triggerType is a kind of trigger with its provider.
type triggerType struct {
	id            string
	namespace     string
	description   string
	requestFormat json.RawMessage
	callFormat    json.RawMessage
	// owner is nil for types of the engine, which have a builtin.
	owner   *connection
	builtin builtinProvider
}

// binding is one trigger: a function bound to a trigger type.
type binding struct {
	id string
	// workerID is the id that the owner knows, if a hook has changed it.
	workerID   string
	typeID     string
	functionID string
	// targetNamespace is that of the function.
	targetNamespace string
	// typeNamespaces are where the provider may be, in order.
	typeNamespaces []string
	config         json.RawMessage
	metadata       json.RawMessage
	// owner is nil for triggers made by engine::register_trigger, which survive
	// their maker.
	owner *connection
	// deliveries counts firings that have not left yet.
	deliveries atomic.Int32

	// provider is nil while the trigger is parked (contracts/iii-bus.md §6.1).
	// Guarded by registry.mu.
	provider *triggerType
}

// addBinding registers a trigger, superseding one with the same id. An error
// is the refusal of a built-in type; without a provider it is parked.
func (r *registry) addBinding(b *binding) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.owner != nil && !b.owner.registered {
		return nil
	}
	if present := r.bindings[b.id]; present != nil {
		if b.owner != nil && b.owner.session != nil && present.owner != b.owner {
			return errors.New("the trigger id is taken")
		}
		r.detach(present)
		delete(r.bindings, b.id)
	}
	if err := r.attach(b, r.providerFor(b)); err != nil {
		return err
	}
	r.bindings[b.id] = b
	return nil
}

// removeBinding reports whether there was such a trigger. A nil owner may
// remove any, as there is no ownership check (§2.9).
func (r *registry) removeBinding(id string, owner *connection) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.bindings[id]
	if b == nil || owner != nil && b.owner != owner {
		return false
	}
	r.detach(b)
	delete(r.bindings, id)
	return true
}

// The functions below need mu.

// providerFor finds who may serve a trigger, nil if nobody does.
func (r *registry) providerFor(b *binding) *triggerType {
	for _, namespace := range b.typeNamespaces {
		if t := r.types[key{namespace, b.typeID}]; t != nil {
			return t
		}
	}
	return nil
}

// attach hands a trigger to a provider; nil parks it.
func (r *registry) attach(b *binding, t *triggerType) error {
	if t == nil {
		b.provider = nil
		return nil
	}
	if t.builtin != nil {
		if err := t.builtin.bind(b); err != nil {
			return err
		}
	} else {
		t.owner.push(b.message())
	}
	b.provider = t
	return nil
}

// detach takes a trigger from its provider, whose dead connection ignores it.
func (r *registry) detach(b *binding) {
	switch t := b.provider; {
	case t == nil:
	case t.builtin != nil:
		t.builtin.unbind(b)
	case t.owner.registered:
		t.owner.push(&protocol.UnregisterTrigger{ID: b.id, TriggerType: b.typeID})
	}
	b.provider = nil
}

func (r *registry) dropBindings(c *connection) {
	for id, b := range r.bindings {
		if b.owner == c {
			r.detach(b)
			delete(r.bindings, id)
		}
	}
}

// message is a trigger as its provider sees it; default namespaces are left
// out (§2.7).
func (b *binding) message() *protocol.RegisterTrigger {
	m := &protocol.RegisterTrigger{
		ID: b.id, TriggerType: b.typeID, FunctionID: b.functionID, Config: b.config, Metadata: b.metadata,
	}
	if b.targetNamespace != protocol.DefaultNamespace {
		m.Namespace = &b.targetNamespace
	}
	return m
}

// registerTrigger binds a function to a trigger type for this worker; only
// failures are answered (§2.8).
func (c *connection) registerTrigger(m *protocol.RegisterTrigger) {
	hooked, ok := c.hookTrigger(m)
	if !ok {
		return
	}
	if failed := c.addTrigger(m.ID, hooked); failed != nil {
		c.push(&protocol.TriggerRegistrationResult{
			ID: m.ID, TriggerType: m.TriggerType, FunctionID: m.FunctionID, Error: failed,
		})
	}
}

// addTrigger binds a trigger as its hook has left it; its worker knows it as
// workerID.
func (c *connection) addTrigger(workerID string, m *protocol.RegisterTrigger) *protocol.ErrorBody {
	b, failed := c.newBinding(m)
	if failed != nil {
		return failed
	}
	b.workerID = workerID
	if failed := c.session.mayBind(c.engine.registry, b); failed != nil {
		return failed
	}
	if err := c.engine.registry.addBinding(b); err != nil {
		return registrationFailed(err)
	}
	return nil
}

func registrationFailed(err error) *protocol.ErrorBody {
	return &protocol.ErrorBody{Code: protocol.CodeTriggerRegistrationFailed, Message: err.Error()}
}

func (c *connection) newBinding(m *protocol.RegisterTrigger) (*binding, *protocol.ErrorBody) {
	target, failed := namespaceOrDefault(m.Namespace)
	if failed != nil {
		return nil, failed
	}
	b := &binding{
		id: m.ID, typeID: m.TriggerType, functionID: c.session.storedID(m.FunctionID),
		targetNamespace: target, config: m.Config, metadata: m.Metadata, owner: c,
		typeNamespaces: []string{c.engine.registry.namespaceOf(c), protocol.DefaultNamespace},
	}
	if m.TriggerNamespace != nil {
		only, failed := namespaceOrDefault(m.TriggerNamespace)
		if failed != nil {
			return nil, failed
		}
		b.typeNamespaces = []string{only}
	}
	return b, nil
}

func (c *connection) unregisterTrigger(m *protocol.UnregisterTrigger) {
	var owner *connection
	if c.session != nil {
		// Restricted workers may remove only what is theirs.
		owner = c
	}
	c.engine.registry.removeBinding(c.engine.registry.bindingID(owner, m.ID), owner)
}

// bindingID is the id under which the engine has a worker's trigger.
func (r *registry) bindingID(owner *connection, workerID string) string {
	if owner == nil || owner.session.hooks.trigger == "" {
		return workerID
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	for id, b := range r.bindings {
		if b.owner == owner && b.workerID == workerID {
			return id
		}
	}
	return workerID
}

// decodeConfig reads a trigger's configuration into target.
func (b *binding) decodeConfig(target any) error {
	if err := json.Unmarshal(b.config, target); err != nil {
		return fmt.Errorf("invalid config of a %s trigger: %w", b.typeID, err)
	}
	return nil
}
