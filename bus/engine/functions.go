package engine

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// reservedPrefix belongs to the engine.
const reservedPrefix = "engine::"

// function is a registered function: a worker's, or the engine's own.
type function struct {
	id             string
	namespace      string
	description    string
	requestFormat  json.RawMessage
	responseFormat json.RawMessage
	metadata       json.RawMessage
	// owner is nil for functions of the engine.
	owner *connection
	// workerID is the id as the owner knows it, without a session's prefix.
	workerID string
	builtin  *builtin
}

// registerFunction publishes a function of this worker, or tells it why not.
func (c *connection) registerFunction(m *protocol.RegisterFunction) {
	if c.session.mayRegister(c.session.storedID(m.ID)) {
		hooked, ok := c.hookFunction(m)
		if ok {
			c.addFunction(m.ID, hooked)
		}
		return
	}
	c.refuseFunction(m.ID)
}

// addFunction stores a function under the id that its hook has left it with;
// its worker knows it as workerID.
func (c *connection) addFunction(workerID string, m *protocol.RegisterFunction) {
	fn := &function{
		id: c.session.storedID(m.ID), workerID: workerID, description: m.Description,
		requestFormat: m.RequestFormat, responseFormat: m.ResponseFormat, metadata: m.Metadata, owner: c,
	}
	if !c.session.mayRegister(fn.id) {
		c.refuseFunction(workerID)
		return
	}
	if owner, ok := c.engine.registry.addFunction(fn); !ok {
		c.engine.log.Info("Function id is taken", "worker", c.id, "function", fn.id)
		c.rejectFunction(workerID, owner)
	}
}

func (c *connection) refuseFunction(id string) {
	c.engine.log.Info("Function refused by policy", "worker", c.id, "function", id)
	c.rejectFunction(id, "")
}

// rejectFunction refuses a registration; owner is empty for ids that no worker
// may have (contracts/iii-bus.md §2.12).
func (c *connection) rejectFunction(id, owner string) {
	c.push(&protocol.RegistrationRejected{
		Code: protocol.CodeFunctionConflict, Namespace: c.engine.registry.namespaceOf(c),
		FunctionID: id, OwnerWorkerID: owner,
	})
}

func (r *registry) namespaceOf(c *connection) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return c.namespace
}

// addFunction stores a function in its owner's namespace. A live owner other
// than that keeps it (§4.4); its id is returned then, empty where the engine
// itself is in the way.
func (r *registry) addFunction(fn *function) (owner string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !fn.owner.registered {
		return "", true
	}
	fn.namespace = fn.owner.namespace
	at := key{fn.namespace, fn.id}
	present := r.functions[at]
	if reserved(fn.id) || present != nil && present.owner == nil {
		return "", false
	}
	if present != nil && present.owner != fn.owner {
		return present.owner.id, false
	}
	r.storeFunction(at, fn)
	return "", true
}

// reserved ids are the engine's in every namespace; the queue's functions come
// from a worker (§5.4).
func reserved(id string) bool {
	return strings.HasPrefix(id, reservedPrefix) && !strings.HasPrefix(id, "engine::queue::")
}

func (r *registry) storeFunction(at key, fn *function) {
	r.functions[at] = fn
	if r.byID[at.id] == nil {
		r.byID[at.id] = map[string]bool{}
	}
	r.byID[at.id][at.namespace] = true
}

func (r *registry) deleteFunction(at key) {
	delete(r.functions, at)
	delete(r.byID[at.id], at.namespace)
	if len(r.byID[at.id]) == 0 {
		delete(r.byID, at.id)
	}
}

// addBuiltin makes an engine function callable.
func (r *registry) addBuiltin(b *builtin) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.storeFunction(key{protocol.DefaultNamespace, b.id}, &function{
		id: b.id, namespace: protocol.DefaultNamespace, description: b.description, builtin: b,
	})
}

// removeFunction affects only the worker's own registration, which it names by
// the id it knows (§2.3).
func (r *registry) removeFunction(c *connection, workerID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := key{c.namespace, c.session.storedID(workerID)}
	if fn := r.functions[at]; fn != nil && fn.owner == c && fn.workerID == workerID {
		r.deleteFunction(at)
		return
	}
	if c.session == nil || c.session.hooks.function == "" {
		return
	}
	// A hook may have given it any other id.
	for at, fn := range r.functions {
		if fn.owner == c && fn.workerID == workerID {
			r.deleteFunction(at)
		}
	}
}

// dropFunctions needs mu.
func (r *registry) dropFunctions(c *connection) {
	for at, fn := range r.functions {
		if fn.owner == c {
			r.deleteFunction(at)
		}
	}
}

// function finds what a call names; the lookup is strict (§3.2). If it is
// missing, elsewhere says in which namespaces the id exists.
func (r *registry) function(namespace, id string) (fn *function, elsewhere []string) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if fn := r.functions[key{namespace, id}]; fn != nil {
		return fn, nil
	}
	for ns := range r.byID[id] {
		elsewhere = append(elsewhere, ns)
	}
	slices.Sort(elsewhere)
	return nil, elsewhere
}

// target is what a session decides on.
func (r *registry) target(namespace, id string) target {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.targetOf(namespace, id)
}

// targetOf needs mu.
func (r *registry) targetOf(namespace, id string) target {
	if fn := r.functions[key{namespace, id}]; fn != nil {
		return fn.target()
	}
	return target{namespace: namespace, id: id}
}

func (fn *function) target() target { return target{fn.namespace, fn.id, fn.metadata} }
