package engine

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// Policy restricts a listener. Its lists hold function ids in which * stands
// for any characters. Without AuthFunctionID every worker gets the same
// session: it may call what ForbiddenFunctions does not name and, if
// ExposeFunctions has entries, only those.
type Policy struct {
	// Token is what workers must present, as "Authorization: Bearer …" or as
	// the query parameter "token". Empty asks for none.
	Token string
	// ForbiddenFunctions may never be called, registered or bound to triggers.
	ForbiddenFunctions []string
	// ExposeFunctions may be called.
	ExposeFunctions []string
	// AllowFunctionRegistration lets workers publish functions.
	AllowFunctionRegistration bool
	// AllowTriggerRegistration lets workers bind triggers to functions that
	// they may call.
	AllowTriggerRegistration bool
	// AllowTriggerTypeRegistration lets workers provide trigger types.
	AllowTriggerTypeRegistration bool
	// AuthFunctionID is a function in default that decides on each worker
	// (contracts/iii-bus.md §9.2). Its answer replaces the Allow fields; what it
	// does not grant and ExposeFunctions does not name is denied.
	AuthFunctionID string
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
	return nil
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
		forbidden: p.ForbiddenFunctions, exposed: p.ExposeFunctions,
		open:              len(p.ExposeFunctions) == 0 && p.AuthFunctionID == "",
		registerFunctions: p.AllowFunctionRegistration, registerTriggers: p.AllowTriggerRegistration,
		registerTypes: p.AllowTriggerTypeRegistration,
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
}

// askAuthFunction narrows a session to what the auth function grants.
func (e *Engine) askAuthFunction(r *http.Request, functionID string, s *session) error {
	ctx, cancel := context.WithTimeout(e.ctx, handshakeTimeout)
	defer cancel()
	o := e.invoke(ctx, protocol.DefaultNamespace, functionID, mustJSON(authRequest(r)), nil)
	if o.err != nil {
		return &authError{o.err.Message}
	}
	if o.result == nil {
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
