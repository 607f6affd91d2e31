package engine

import (
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// handle acts on one message of a worker.
func (c *connection) handle(msg protocol.Message) {
	switch m := msg.(type) {
	case *protocol.Ping:
		c.push(&protocol.Pong{})
	case *protocol.InvokeFunction:
		c.invoke(m)
	case *protocol.InvocationResult:
		c.resolve(m)
	case *protocol.Reattach:
		c.reattach(m)
	case *protocol.TriggerRegistrationResult:
		c.engine.registry.providerAnswered(c, m)
	case *protocol.RegisterFunction, *protocol.UnregisterFunction, *protocol.RegisterTriggerType,
		*protocol.RegisterTrigger, *protocol.UnregisterTrigger:
		c.registration(msg)
	}
}

// registration handles a message that depends on the worker's namespace, or
// keeps it until that is known (contracts/iii-bus.md §3.2).
func (c *connection) registration(msg protocol.Message) {
	c.phase.Lock()
	defer c.phase.Unlock()
	if !c.settled {
		c.queued = append(c.queued, msg)
		return
	}
	c.apply(msg)
}

// settle ends the pending phase: the namespace is what the registry has by now.
func (c *connection) settle() {
	c.phase.Lock()
	defer c.phase.Unlock()
	if c.settled {
		return
	}
	c.settled = true
	c.grace.Stop()
	queued := c.queued
	c.queued = nil
	for _, msg := range queued {
		c.apply(msg)
	}
}

func (c *connection) apply(msg protocol.Message) {
	switch m := msg.(type) {
	case *protocol.RegisterFunction:
		c.registerFunction(m)
	case *protocol.UnregisterFunction:
		c.engine.registry.removeFunction(c, m.ID)
	case *protocol.RegisterTriggerType:
		c.registerTriggerType(m)
	case *protocol.RegisterTrigger:
		c.registerTrigger(m)
	case *protocol.UnregisterTrigger:
		c.unregisterTrigger(m)
	case *protocol.InvokeFunction:
		c.execute(m)
	}
}

// invoke takes a call of a worker. A call without a usable id cannot be
// answered and is dropped, as an undecodable frame is.
func (c *connection) invoke(m *protocol.InvokeFunction) {
	if m.InvocationID != "" && uuid.Validate(m.InvocationID) != nil {
		c.engine.log.Warn("Frame dropped", "worker", c.id, "error", "invocation_id is no UUID")
		return
	}
	if c.deferred(m) {
		return
	}
	c.execute(m)
}

// deferred keeps a call of a function that the same worker has yet to get
// registered. Clients before namespaces send their metadata after their first
// calls and would miss their own functions (§4.1).
func (c *connection) deferred(m *protocol.InvokeFunction) bool {
	c.phase.Lock()
	defer c.phase.Unlock()
	if c.settled || reserved(m.FunctionID) || !slices.ContainsFunc(c.queued, func(q protocol.Message) bool {
		r, ok := q.(*protocol.RegisterFunction)
		return ok && c.session.storedID(r.ID) == m.FunctionID
	}) {
		return false
	}
	c.queued = append(c.queued, m)
	return true
}

func (c *connection) execute(m *protocol.InvokeFunction) {
	k := &call{
		id: m.InvocationID, functionID: m.FunctionID, data: m.Data, metadata: m.Metadata,
		traceparent: m.Traceparent, baggage: m.Baggage, caller: c,
	}
	if k.id != "" && !isAction(m, protocol.ActionVoid) {
		k.reply = func(o outcome) { c.answer(k, o) }
	}
	namespace, err := namespaceOrDefault(m.Namespace)
	if err != nil {
		k.finish(outcome{err: err})
		return
	}
	k.namespace = namespace
	if c.session != nil {
		if err := c.session.mayCall(c.engine.registry.target(k.namespace, k.functionID)); err != nil {
			k.finish(outcome{err: err})
			return
		}
	}
	if w, ok := c.wrapped(k, m.Action); ok {
		c.engine.dispatch(c.ctx, w)
		return
	}
	if isAction(m, protocol.ActionEnqueue) {
		c.engine.enqueue(c.ctx, k, m.Action.Queue)
		return
	}
	k.data = withCaller(k.data, c.id)
	c.engine.dispatch(c.ctx, k)
}

// answer sends the caller its result. It never waits: an executor must not be
// held up by a caller that does not read.
func (c *connection) answer(k *call, o outcome) {
	c.push(&protocol.InvocationResult{
		InvocationID: k.id, FunctionID: k.functionID, Result: o.result, Error: o.err,
		Traceparent: firstOf(o.traceparent, k.traceparent), Baggage: firstOf(o.baggage, k.baggage),
	})
}

func isAction(m *protocol.InvokeFunction, kind string) bool {
	return m.Action != nil && m.Action.Type == kind
}

// namespaceOrDefault tells an absent namespace from a blank one (§3.2).
func namespaceOrDefault(namespace *string) (string, *protocol.ErrorBody) {
	if namespace == nil {
		return protocol.DefaultNamespace, nil
	}
	if strings.TrimSpace(*namespace) == "" {
		return "", &protocol.ErrorBody{Code: protocol.CodeInvalidNamespace, Message: "namespace must not be blank"}
	}
	return *namespace, nil
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
