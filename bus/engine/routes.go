package engine

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
)

var httpMethods = []string{
	http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete,
	http.MethodPatch, http.MethodHead, http.MethodOptions,
}

// httpConfigSchema and httpCallSchema describe http triggers in
// engine::triggers::info.
var (
	httpConfigSchema = mustJSON(map[string]any{
		"type": "object", "required": []string{"api_path"},
		"properties": map[string]any{
			"api_path":                map[string]any{"type": "string"},
			"http_method":             map[string]any{"type": "string", "enum": httpMethods, "default": http.MethodGet},
			"condition_function_id":   map[string]any{"type": "string"},
			"middleware_function_ids": map[string]any{"type": "array", "items": map[string]any{"type": "string"}},
		},
	})
	httpCallSchema = mustJSON(map[string]any{
		"type": "object",
		"properties": map[string]any{
			"path": map[string]any{"type": "string"}, "method": map[string]any{"type": "string"},
			"path_params": map[string]any{"type": "object"}, "query_params": map[string]any{"type": "object"},
			"headers": map[string]any{"type": "object"}, "body": map[string]any{}, "trigger": map[string]any{"type": "object"},
			"request_body": map[string]any{"type": "object"}, "response": map[string]any{"type": "object"},
		},
	})
)

// httpConfig is the configuration of an http trigger (contracts/iii-bus.md
// §6.3).
type httpConfig struct {
	conditional
	APIPath               string   `json:"api_path"`
	HTTPMethod            string   `json:"http_method"`
	MiddlewareFunctionIDs []string `json:"middleware_function_ids"`
}

// route is a bound http trigger.
type route struct {
	binding *binding
	config  httpConfig
	// params are the names of its path parameters, in order.
	params []string
}

// node is one path segment in the tree of a method's routes.
type node struct {
	fixed map[string]*node
	param *node
	// routes have the same method and shape and the same parameter names; the
	// latest serves, and those before it come back when it goes.
	routes []*route
}

// routes is the provider of http triggers.
type routes struct {
	mu      sync.RWMutex
	methods map[string]*node
}

func newRoutes() *routes { return &routes{methods: map[string]*node{}} }

// bind adds a route, unless one of the same shape names its parameters
// differently (§6.5).
func (t *routes) bind(b *binding) error {
	r, err := newRoute(b)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.node(r)
	if len(n.routes) > 0 && !slices.Equal(n.routes[0].params, r.params) {
		return fmt.Errorf("%s %s conflicts with already-registered route %s",
			r.config.HTTPMethod, r.config.APIPath, n.routes[0].config.APIPath)
	}
	n.routes = append(n.routes, r)
	return nil
}

func newRoute(b *binding) (*route, error) {
	r := &route{binding: b}
	if err := b.decodeConfig(&r.config); err != nil {
		return nil, err
	}
	r.config.HTTPMethod = firstOf(strings.ToUpper(r.config.HTTPMethod), http.MethodGet)
	if strings.Trim(r.config.APIPath, "/") == "" && r.config.APIPath != "/" {
		return nil, errors.New("api_path is required")
	}
	if !slices.Contains(httpMethods, r.config.HTTPMethod) {
		return nil, fmt.Errorf("http_method %q is not supported", r.config.HTTPMethod)
	}
	for _, segment := range segments(r.config.APIPath) {
		if name, ok := strings.CutPrefix(segment, ":"); ok {
			r.params = append(r.params, name)
		}
	}
	return r, nil
}

// segments of "/a/b", "a/b" and "/a/b/" are the same.
func segments(path string) []string {
	path = strings.Trim(path, "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

// node finds or makes the place of a route. Needs mu.
func (t *routes) node(r *route) *node {
	n := t.methods[r.config.HTTPMethod]
	if n == nil {
		n = &node{}
		t.methods[r.config.HTTPMethod] = n
	}
	for _, segment := range segments(r.config.APIPath) {
		n = n.child(segment)
	}
	return n
}

func (n *node) child(segment string) *node {
	if strings.HasPrefix(segment, ":") {
		if n.param == nil {
			n.param = &node{}
		}
		return n.param
	}
	if n.fixed == nil {
		n.fixed = map[string]*node{}
	}
	if n.fixed[segment] == nil {
		n.fixed[segment] = &node{}
	}
	return n.fixed[segment]
}

func (t *routes) unbind(b *binding) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for method, n := range t.methods {
		if n.remove(b) {
			delete(t.methods, method)
		}
	}
}

// remove takes a trigger out of the tree and tells whether the node is empty
// now.
func (n *node) remove(b *binding) bool {
	n.routes = slices.DeleteFunc(n.routes, func(r *route) bool { return r.binding == b })
	for segment, child := range n.fixed {
		if child.remove(b) {
			delete(n.fixed, segment)
		}
	}
	if n.param != nil && n.param.remove(b) {
		n.param = nil
	}
	return len(n.routes) == 0 && len(n.fixed) == 0 && n.param == nil
}

// match finds the route of a request and the values of its parameters. Fixed
// segments win over parameters.
func (t *routes) match(method, path string) (*route, map[string]string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	r, values := t.methods[method].match(segments(path), nil)
	params := map[string]string{}
	for i, value := range values {
		params[r.params[i]] = value
	}
	return r, params
}

func (n *node) match(path, values []string) (*route, []string) {
	switch {
	case n == nil:
		return nil, nil
	case len(path) > 0:
		if r, v := n.fixed[path[0]].match(path[1:], values); r != nil {
			return r, v
		}
		return n.param.match(path[1:], append(slices.Clone(values), path[0]))
	case len(n.routes) == 0:
		return nil, nil
	}
	return n.routes[len(n.routes)-1], values
}
