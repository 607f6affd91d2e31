package engine

import (
	"crypto/subtle"
	"log/slog"
	"maps"
	"slices"
	"sync"
)

// key identifies functions, trigger types and worker names: they are unique
// in a namespace (contracts/iii-bus.md §3.2).
type key struct{ namespace, id string }

// registry is what workers have registered. One mutex guards it all, so that
// a worker's disappearance is seen at once everywhere. Under the mutex only
// memory is touched: frames are pushed to outboxes, whose order then is that
// of the changes.
type registry struct {
	log *slog.Logger

	mu        sync.RWMutex
	workers   map[string]*connection
	names     map[key]*connection
	functions map[key]*function
	// byID has the namespaces of a function id, for functionNotFound.
	byID     map[string]map[string]bool
	types    map[key]*triggerType
	bindings map[string]*binding
	// answers has who waits for a provider's answer to a binding.
	answers map[string]chan<- providerAnswer
}

func newRegistry(log *slog.Logger) *registry {
	return &registry{
		log:       log,
		workers:   map[string]*connection{},
		names:     map[key]*connection{},
		functions: map[key]*function{},
		byID:      map[string]map[string]bool{},
		types:     map[key]*triggerType{},
		bindings:  map[string]*binding{},
		answers:   map[string]chan<- providerAnswer{},
	}
}

func (r *registry) addWorker(c *connection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.registered = true
	r.workers[c.id] = c
}

// worker returns the live worker of an id, or nil.
func (r *registry) worker(id string) *connection {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.workers[id]
}

func (r *registry) allWorkers() []*connection {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Collect(maps.Values(r.workers))
}

// removeWorker takes back all that a worker registered, and its name. False if
// that was done already. What the worker still tries to register afterwards is
// refused.
func (r *registry) removeWorker(c *connection) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !c.registered {
		return false
	}
	c.registered = false
	delete(r.workers, c.id)
	if name := (key{c.namespace, c.metadata.name()}); r.names[name] == c {
		delete(r.names, name)
	}
	r.dropFunctions(c)
	r.dropBindings(c)
	r.dropTypes(c)
	return true
}

func sameSecret(a, b string) bool {
	return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}
