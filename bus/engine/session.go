package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// session is what a restricted connection may do. It does not change during
// the connection. All methods take a nil receiver for a trusted connection,
// which may do everything.
type session struct {
	// forbidden are patterns, allowed are exact ids.
	forbidden []string
	exposed   []Exposure
	allowed   []string
	// namespaces maps a namespace to the patterns granted in it; when it has
	// entries, the session may join only these.
	namespaces map[string][]string
	// open allows every call that forbidden does not name, except to the shared
	// stores.
	open              bool
	registerFunctions bool
	registerTriggers  bool
	registerTypes     bool
	// triggerTypes are those that triggers may use; nil means all.
	triggerTypes *[]string
	prefix       string
	hooks        hooks
	// context is what the auth function wants hooks and middleware to know.
	context json.RawMessage
}

// target is a function that somebody wants to reach, with its metadata if it
// exists.
type target struct {
	namespace, id string
	metadata      json.RawMessage
}

// sharedStores know no tenants, so that a session needs them exposed by name.
var sharedStores = []string{"state::*", "iii::durable::*", "iii::queue::*", "engine::queue::*"}

// storeTypes are the trigger types that read a shared store, each with the
// function that reads the same.
var storeTypes = map[string]string{"state": "state::get", "durable:subscriber": protocol.FunctionDurablePublish}

// infrastructure is what every client needs (contracts/iii-bus.md §9.3).
var infrastructure = []string{
	protocol.FunctionChannelsCreate, protocol.FunctionWorkersRegister, "engine::log::*",
	"engine::baggage::get", "engine::baggage::set", "engine::baggage::get_all",
}

func (s *session) apply(g grants) {
	s.allowed = g.AllowedFunctions
	s.forbidden = append(slices.Clone(s.forbidden), g.ForbiddenFunctions...)
	s.namespaces = map[string][]string{}
	for namespace, patterns := range g.Namespaces {
		// Without a grant it is still a namespace that the session may join, and the
		// others are not.
		s.namespaces[namespace] = nil
		for _, p := range patterns {
			s.namespaces[namespace] = append(s.namespaces[namespace], barePattern(p))
		}
	}
	s.registerFunctions = g.AllowFunctionRegistration == nil || *g.AllowFunctionRegistration
	s.registerTriggers = true
	s.registerTypes = g.AllowTriggerTypeRegistration
	s.triggerTypes = g.AllowedTriggerTypes
	s.prefix = g.FunctionRegistrationPrefix
	if g.Context != nil {
		s.context = g.Context
	}
}

// mayCall is nil for a permitted call; the order is that of §9.3.
func (s *session) mayCall(t target) *protocol.ErrorBody {
	if s.permits(t) {
		return nil
	}
	return forbidden("function %s is not allowed here; the listener's expose_functions or forbidden_functions decide", t.id)
}

func (s *session) permits(t target) bool {
	switch {
	case s == nil, t.id == protocol.FunctionWorkersRegister:
		// Even a listener that forbids engine::* must let workers say who they
		// are, or their registrations wait out the grace.
		return true
	case matchesAny(s.forbidden, t.id):
		return false
	case s.open && !matchesAny(sharedStores, t.id), matchesAny(s.namespaces[t.namespace], t.id):
		return true
	case t.namespace == protocol.DefaultNamespace && (slices.Contains(s.allowed, t.id) || matchesAny(infrastructure, t.id)):
		return true
	}
	return slices.ContainsFunc(s.exposed, func(e Exposure) bool { return e.covers(t) })
}

// mayRegister decides on publishing a function; a forbidden id may not be
// taken either, or its callers would reach a stranger.
func (s *session) mayRegister(id string) bool {
	return s == nil || s.registerFunctions && !matchesAny(s.forbidden, id)
}

func (s *session) mayProvide() bool { return s == nil || s.registerTypes }

// mayJoin decides on the namespace that a worker declares.
func (s *session) mayJoin(namespace string) *protocol.ErrorBody {
	if s == nil || len(s.namespaces) == 0 {
		return nil
	}
	if _, ok := s.namespaces[namespace]; ok {
		return nil
	}
	return forbidden("namespace %s is not allowed here", namespace)
}

// mayBind decides on a trigger. All functions that it would make the engine
// call count, or a trigger would be a way around mayCall.
func (s *session) mayBind(r *registry, b *binding) *protocol.ErrorBody {
	if s == nil {
		return nil
	}
	if !s.registerTriggers || s.triggerTypes != nil && !slices.Contains(*s.triggerTypes, b.typeID) {
		return forbidden("triggers of type %s are not allowed here", b.typeID)
	}
	if reader := storeTypes[b.typeID]; reader != "" {
		if failed := s.mayCall(target{namespace: protocol.DefaultNamespace, id: reader}); failed != nil {
			return failed
		}
	}
	owns := s.prefix != "" && strings.HasPrefix(b.functionID, s.prefix+"::")
	if !owns {
		if failed := s.mayCall(r.target(b.targetNamespace, b.functionID)); failed != nil {
			return failed
		}
	}
	return s.mayCallHelpers(r, b)
}

func (s *session) mayCallHelpers(r *registry, b *binding) *protocol.ErrorBody {
	var config struct {
		conditional
		MiddlewareFunctionIDs []string `json:"middleware_function_ids"`
	}
	if b.decodeConfig(&config) != nil {
		return forbidden("the config of a trigger must be an object here")
	}
	helpers := config.MiddlewareFunctionIDs
	if config.ConditionFunctionID != "" {
		helpers = append(helpers, config.ConditionFunctionID)
	}
	for _, id := range helpers {
		if failed := s.mayCall(r.target(protocol.DefaultNamespace, id)); failed != nil {
			return failed
		}
	}
	return nil
}

// storedID is a function id with the session's registration prefix.
func (s *session) storedID(id string) string {
	if s == nil || s.prefix == "" {
		return id
	}
	return s.prefix + "::" + id
}

func forbidden(format string, args ...any) *protocol.ErrorBody {
	return &protocol.ErrorBody{Code: protocol.CodeForbidden, Message: fmt.Sprintf(format, args...)}
}
