package engine

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
)

// Policy restricts a listener. Its lists hold function ids in which * stands
// for any characters. Without AuthFunctionID every worker gets the same
// session: it may call what ForbiddenFunctions does not name and, if
// ExposeFunctions or Expose has entries, only those. The shared stores
// (state::*, queues) know no tenants and are open only where exposed by name.
type Policy struct {
	// Token is what workers must present, as "Authorization: Bearer …" or as
	// the query parameter "token". Empty asks for none.
	Token string
	// ForbiddenFunctions may never be called, registered or bound to triggers.
	ForbiddenFunctions []string
	// ExposeFunctions may be called; they are those of namespace default.
	ExposeFunctions []string
	// Expose has what ExposeFunctions cannot say (contracts/iii-bus.md §9.3).
	Expose []Exposure
	// AllowFunctionRegistration lets workers publish functions.
	AllowFunctionRegistration bool
	// AllowTriggerRegistration lets workers bind triggers to functions that
	// they may call.
	AllowTriggerRegistration bool
	// AllowTriggerTypeRegistration lets workers provide trigger types.
	AllowTriggerTypeRegistration bool
	// AuthFunctionID is a function in default that decides on each worker
	// (contracts/iii-bus.md §9.2). Its answer replaces the Allow fields; what it
	// does not grant and ExposeFunctions and Expose do not name is denied.
	AuthFunctionID string
	// OnFunctionRegistrationFunctionID, OnTriggerRegistrationFunctionID and
	// OnTriggerTypeRegistrationFunctionID are functions in default that may change
	// or drop each registration (§9.4).
	OnFunctionRegistrationFunctionID    string
	OnTriggerRegistrationFunctionID     string
	OnTriggerTypeRegistrationFunctionID string
}

func (p *Policy) validate() error {
	if p == nil {
		return nil
	}
	for _, pattern := range append(append([]string{}, p.ForbiddenFunctions...), p.ExposeFunctions...) {
		if strings.TrimSpace(pattern) == "" {
			return errors.New("a function pattern must not be blank")
		}
	}
	for _, e := range p.Expose {
		if err := e.validate(); err != nil {
			return err
		}
	}
	return nil
}

// exposures are both lists as one.
func (p *Policy) exposures() []Exposure {
	all := slices.Clone(p.Expose)
	for _, pattern := range p.ExposeFunctions {
		all = append(all, Exposure{Match: pattern})
	}
	return all
}

// authError is a refusal that the peer is told about.
type authError struct{ message string }

func (e *authError) Error() string { return e.message }

// authenticate decides on a connection; a nil session is a trusted one. The
// handshake's token never appears in an error.
func (e *Engine) authenticate(r *http.Request, p *Policy) (*session, error) {
	if p == nil {
		return nil, nil
	}
	if p.Token != "" && !sameSecret(p.Token, presentedToken(r)) {
		return nil, &authError{"token rejected"}
	}
	s := &session{
		forbidden: p.ForbiddenFunctions, exposed: p.exposures(), context: json.RawMessage("{}"),
		open:              len(p.ExposeFunctions) == 0 && len(p.Expose) == 0 && p.AuthFunctionID == "",
		registerFunctions: p.AllowFunctionRegistration, registerTriggers: p.AllowTriggerRegistration,
		registerTypes: p.AllowTriggerTypeRegistration,
		hooks: hooks{
			function: p.OnFunctionRegistrationFunctionID, trigger: p.OnTriggerRegistrationFunctionID,
			triggerType: p.OnTriggerTypeRegistrationFunctionID,
		},
	}
	if p.AuthFunctionID == "" {
		return s, nil
	}
	return s, e.askAuthFunction(r, p.AuthFunctionID, s)
}

func presentedToken(r *http.Request) string {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return strings.TrimSpace(token)
	}
	return r.URL.Query().Get("token")
}

// grants is the answer of an auth function (§9.2).
type grants struct {
	AllowedFunctions             []string            `json:"allowed_functions"`
	ForbiddenFunctions           []string            `json:"forbidden_functions"`
	Namespaces                   map[string][]string `json:"namespaces"`
	AllowedTriggerTypes          *[]string           `json:"allowed_trigger_types"`
	AllowTriggerTypeRegistration bool                `json:"allow_trigger_type_registration"`
	AllowFunctionRegistration    *bool               `json:"allow_function_registration"`
	FunctionRegistrationPrefix   string              `json:"function_registration_prefix"`
	Context                      json.RawMessage     `json:"context"`
}

// askAuthFunction narrows a session to what the auth function grants.
func (e *Engine) askAuthFunction(r *http.Request, functionID string, s *session) error {
	ctx, cancel := context.WithTimeout(e.ctx, handshakeTimeout)
	defer cancel()
	o := e.invoke(ctx, functionID, mustJSON(authRequest(r)))
	if o.err != nil {
		return &authError{o.err.Message}
	}
	if !hasValue(o.result) {
		return &authError{"the auth function gave no value"}
	}
	var g grants
	if err := json.Unmarshal(o.result, &g); err != nil {
		return &authError{"the auth function gave an unusable value"}
	}
	s.apply(g)
	return nil
}

func authRequest(r *http.Request) map[string]any {
	headers := map[string]string{}
	for name, values := range r.Header {
		headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return map[string]any{"headers": headers, "query_params": map[string][]string(r.URL.Query()), "ip_address": host}
}
