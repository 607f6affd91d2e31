package engine

import (
	"context"
	"encoding/json"
	"strings"
	"unicode"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// maxLabelRunes cuts names and descriptions of workers (contracts/iii-bus.md
// §3.1).
const maxLabelRunes = 280

// workerMetadata is what a worker says about itself with
// engine::workers::register (§3.1).
type workerMetadata struct {
	Runtime     string          `json:"runtime"`
	Version     *string         `json:"version"`
	Name        *string         `json:"name"`
	Description *string         `json:"description"`
	OS          *string         `json:"os"`
	PID         *uint32         `json:"pid"`
	Telemetry   json.RawMessage `json:"telemetry"`
	Isolation   *string         `json:"isolation"`
	Namespace   *string         `json:"namespace"`
}

func (m workerMetadata) name() string {
	if m.Name == nil {
		return ""
	}
	return *m.Name
}

// label is what listings call a worker. Needs registry.mu.
func (c *connection) label() string {
	return firstOf(c.metadata.name(), c.id)
}

// registerMetadata is engine::workers::register: it names the worker, claims
// the name, and ends the pending phase.
func (e *Engine) registerMetadata(_ context.Context, k *call) (any, *protocol.ErrorBody) {
	metadata, failed := decode[workerMetadata](k.data)
	if failed != nil {
		return nil, failed
	}
	namespace, failed := namespaceOrDefault(metadata.Namespace)
	if failed != nil {
		return nil, failed
	}
	if k.caller == nil {
		return map[string]bool{"success": false}, nil
	}
	if failed := k.caller.session.mayJoin(namespace); failed != nil {
		return nil, failed
	}
	cleanMetadata(&metadata)
	return map[string]bool{"success": k.caller.identify(namespace, metadata)}, nil
}

func cleanMetadata(m *workerMetadata) {
	m.Runtime = firstOf(m.Runtime, "unknown")
	m.Name = cleanLabel(m.Name)
	m.Description = cleanLabel(m.Description)
}

// cleanLabel removes what could disturb a terminal or a listing; empty becomes
// none.
func cleanLabel(label *string) *string {
	if label == nil {
		return nil
	}
	clean := strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, *label))
	if runes := []rune(clean); len(runes) > maxLabelRunes {
		clean = string(runes[:maxLabelRunes])
	}
	if clean == "" {
		return nil
	}
	return &clean
}

// identify gives the worker its name and namespace, or ends a connection whose
// name another live worker has (§3.1).
func (c *connection) identify(namespace string, metadata workerMetadata) bool {
	owner, ok := c.engine.registry.claim(c, namespace, metadata)
	if !ok {
		c.engine.log.Info("Worker name is taken", "worker", c.id, "name", metadata.name())
		c.push(&protocol.RegistrationRejected{
			Code: protocol.CodeWorkerConflict, Namespace: namespace,
			WorkerName: metadata.name(), OwnerWorkerID: owner,
		})
		c.outbox.finish()
		c.engine.retire(c)
		return false
	}
	c.settle()
	c.engine.workersChanged(workerMetadataUpdated, c.id)
	return true
}

// claim stores a worker's metadata. The first call decides the namespace; a
// later one does not move the connection (§3.2).
func (r *registry) claim(c *connection, namespace string, metadata workerMetadata) (owner string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !c.registered {
		return "", true
	}
	if c.identified {
		namespace = c.namespace
	}
	wanted := key{namespace, metadata.name()}
	if holder := r.names[wanted]; wanted.id != "" && holder != nil && holder != c {
		return holder.id, false
	}
	if held := (key{c.namespace, c.metadata.name()}); r.names[held] == c {
		delete(r.names, held)
	}
	c.identified, c.namespace, c.metadata = true, namespace, metadata
	if wanted.id != "" {
		r.names[wanted] = c
	}
	return "", true
}
