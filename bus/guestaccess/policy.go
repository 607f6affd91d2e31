package guestaccess

import (
	"regexp"
	"slices"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// Prefixes of function ids that guests are kept from.
const (
	sandboxPrefix = "sandbox::"
	enginePrefix  = "engine::"
	queuePrefix   = "engine::queue::"
)

// stores know no tenants: what one guest writes every other reads. They open
// only to guests whose busAllow names them.
var stores = []string{"state::", "stream::", "iii::", queuePrefix}

// guardedPrefixes have all functions of which any may be forbidden.
var guardedPrefixes = []string{sandboxPrefix, enginePrefix, "state::", "stream::", "iii::"}

// needed are the engine's functions that the clients of the bus are built on,
// and those that tell a guest what it may call.
var needed = []string{
	protocol.FunctionWorkersRegister, protocol.FunctionChannelsCreate,
	protocol.FunctionFunctionsList, protocol.FunctionFunctionsInfo,
}

var neededPrefixes = []string{"engine::log::", "engine::baggage::"}

// knownFunctions are forbidden also while nobody serves them, since a session
// keeps the list that it connected with: the 16 of the sandbox daemon
// (contracts/iii-sandbox.md §3–5), and the engine's (contracts/iii-bus.md §7).
var knownFunctions = []string{
	"sandbox::create", "sandbox::exec", "sandbox::run", "sandbox::list", "sandbox::stop", "sandbox::catalog::list",
	"sandbox::fs::ls", "sandbox::fs::stat", "sandbox::fs::read", "sandbox::fs::write", "sandbox::fs::mkdir",
	"sandbox::fs::rm", "sandbox::fs::mv", "sandbox::fs::chmod", "sandbox::fs::grep", "sandbox::fs::sed",

	protocol.FunctionWorkersList, protocol.FunctionWorkersInfo, protocol.FunctionTriggersList, protocol.FunctionTriggersInfo,
	protocol.FunctionRegisteredList, protocol.FunctionRegisteredInfo,
	protocol.FunctionRegisterTrigger, protocol.FunctionUnregisterTrigger,

	"state::set", "state::get", "state::delete", "state::update", "state::list", "state::list_groups",
	"stream::set", "stream::get", "stream::delete", "stream::update", "stream::list", "stream::list_groups",
	"stream::list_all", "stream::send",
	protocol.FunctionDurablePublish, "iii::queue::redrive", "iii::queue::redrive_message", "iii::queue::discard_message",
	"engine::queue::list_topics", "engine::queue::topic_stats", "engine::queue::dlq_topics", "engine::queue::dlq_messages",
	"engine::queue::enqueue",
}

// policy is what the engine holds a session to (contracts/iii-bus.md §9.2). The
// forbidden ids are exact, as the engine takes no patterns there.
type policy struct {
	AllowedFunctions             []string            `json:"allowed_functions"`
	ForbiddenFunctions           []string            `json:"forbidden_functions"`
	Namespaces                   map[string][]string `json:"namespaces"`
	AllowTriggerTypeRegistration bool                `json:"allow_trigger_type_registration"`
	AllowFunctionRegistration    bool                `json:"allow_function_registration"`
	Context                      sessionContext      `json:"context"`
}

// sessionContext is what the hooks learn of the session.
type sessionContext struct {
	Guest Guest `json:"guest"`
}

// newPolicy grants what busAllow lists; nil stands for everything. Present are
// the ids of the engine's catalog, own those of the operator for itself.
func newPolicy(g Guest, allow, present, own []string) policy {
	return policy{
		AllowedFunctions:   []string{},
		ForbiddenFunctions: forbidden(allow, present, own),
		// Its keys are also the bus namespaces that the guest may join.
		Namespaces:                map[string][]string{protocol.DefaultNamespace: grants(allow)},
		AllowFunctionRegistration: true,
		Context:                   sessionContext{g},
	}
}

// grants are busAllow in the engine's words.
func grants(allow []string) []string {
	if allow == nil {
		return []string{`match("*")`}
	}
	list := []string{}
	for _, pattern := range allow {
		switch {
		case strings.ContainsAny(pattern, `"\`):
			// The engine could read it as something else; no function has such an id.
		case strings.Contains(pattern, "*"):
			list = append(list, `match("`+pattern+`")`)
		default:
			list = append(list, pattern)
		}
	}
	return list
}

// forbidden lists the ids that a guest may not call, sorted.
func forbidden(allow, present, own []string) []string {
	list := slices.Concat(own, knownFunctions, present)
	list = slices.DeleteFunc(list, func(id string) bool {
		return !slices.Contains(own, id) && !isForbidden(id, allow)
	})
	slices.Sort(list)
	return slices.Compact(list)
}

func isForbidden(id string, allow []string) bool {
	if store := prefixOf(id, stores); store != "" {
		return !isNamed(id, store, allow)
	}
	switch {
	case strings.HasPrefix(id, sandboxPrefix):
		return true
	case strings.HasPrefix(id, enginePrefix):
		return !slices.Contains(needed, id) && prefixOf(id, neededPrefixes) == ""
	default:
		return false
	}
}

func prefixOf(id string, prefixes []string) string {
	i := slices.IndexFunc(prefixes, func(p string) bool { return strings.HasPrefix(id, p) })
	if i < 0 {
		return ""
	}
	return prefixes[i]
}

// isNamed says whether a pattern that begins with the store's own name covers an
// id; a pattern such as * does not mean the stores.
func isNamed(id, store string, allow []string) bool {
	return slices.ContainsFunc(allow, func(pattern string) bool {
		return strings.HasPrefix(pattern, store) && covers(pattern, id)
	})
}

// covers matches a whole id; each * of the pattern stands for any text.
func covers(pattern, id string) bool {
	expression := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`)
	matched, err := regexp.MatchString(`(?s)\A`+expression+`\z`, id)
	return err == nil && matched
}
