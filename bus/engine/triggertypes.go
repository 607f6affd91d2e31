package engine

import "github.com/sandbox-operator/sandbox-operator/bus/protocol"

// providerAnswer is what a provider said to a trigger; nil is a yes.
type providerAnswer = *protocol.ErrorBody

// registerTriggerType makes this worker the provider of a type.
func (c *connection) registerTriggerType(m *protocol.RegisterTriggerType) {
	if !c.session.mayProvide() {
		c.engine.log.Info("Trigger type refused by policy", "worker", c.id, "type", m.ID)
		return
	}
	m, ok := c.hookTriggerType(m)
	if !ok {
		return
	}
	if !c.engine.registry.addType(&triggerType{
		id: m.ID, description: m.Description, requestFormat: m.TriggerRequestFormat,
		callFormat: m.CallRequestFormat, owner: c,
	}) {
		c.engine.log.Warn("Trigger type belongs to the engine", "worker", c.id, "type", m.ID)
	}
}

// addType stores a type in its owner's namespace, replacing an earlier
// provider, and hands it every trigger that it should serve from now on
// (contracts/iii-bus.md §6.1). False if the type is the engine's.
func (r *registry) addType(t *triggerType) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !t.owner.registered {
		return true
	}
	t.namespace = t.owner.namespace
	at := key{t.namespace, t.id}
	if present := r.types[at]; present != nil && present.builtin != nil {
		return false
	}
	r.types[at] = t
	for _, b := range r.bindings {
		if b.typeID == t.id && r.providerFor(b) == t {
			r.rebind(b, t)
		}
	}
	return true
}

// addBuiltinType makes a type of the engine known.
func (r *registry) addBuiltinType(t *triggerType) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.namespace = protocol.DefaultNamespace
	r.types[key{t.namespace, t.id}] = t
}

// rebind moves a trigger to another provider; one that stays with the same
// worker is only replayed. Needs mu.
func (r *registry) rebind(b *binding, t *triggerType) {
	if b.provider == nil || t == nil || b.provider.owner != t.owner || t.builtin != nil {
		r.detach(b)
	}
	if err := r.attach(b, t); err != nil {
		r.log.Warn("Trigger parked", "trigger", b.id, "type", b.typeID, "error", err)
	}
}

// dropTypes removes the types of a lost worker; triggers of others fall back to
// another provider or are parked (§4.2). Needs mu.
func (r *registry) dropTypes(c *connection) {
	for at, t := range r.types {
		if t.owner == c && t.builtin == nil {
			delete(r.types, at)
		}
	}
	for _, b := range r.bindings {
		if b.provider != nil && b.provider.builtin == nil && b.provider.owner == c {
			r.rebind(b, r.providerFor(b))
		}
	}
}

// providerAnswered takes a provider's answer; only the worker that owns the
// type is heard (§2.8). A refused trigger is parked and its maker told.
func (r *registry) providerAnswered(c *connection, m *protocol.TriggerRegistrationResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.bindings[m.ID]
	if b == nil || b.provider == nil || b.provider.owner != c {
		return
	}
	if waiter := r.answers[m.ID]; waiter != nil {
		delete(r.answers, m.ID)
		waiter <- m.Error
	}
	if m.Error == nil {
		return
	}
	b.provider = nil
	if b.owner != nil {
		b.owner.push(&protocol.TriggerRegistrationResult{
			ID: firstOf(b.workerID, b.id), TriggerType: b.typeID, FunctionID: m.FunctionID, Error: m.Error,
		})
	}
}

// expectAnswer registers who waits for the provider's answer to a trigger. The
// channel must have room for one.
func (r *registry) expectAnswer(id string, waiter chan<- providerAnswer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[id] = waiter
}

// awaitsAnswer tells whether a trigger is with a provider that will answer; if
// not, nobody waits any more.
func (r *registry) awaitsAnswer(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.bindings[id]
	if b != nil && b.provider != nil && b.provider.builtin == nil {
		return true
	}
	delete(r.answers, id)
	return false
}

func (r *registry) forgetAnswer(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.answers, id)
}
