package sandboxfunction

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
)

// schemas are the compiled schemas of one generation of a function.
type schemas struct {
	generation        int64
	request, response *publish.Schema
	// problem is what is wrong with one of them, empty if nothing is.
	problem string
}

// compileSchemas compiles the schemas that are enforced, once a generation.
func (r *Reconciler) compileSchemas(_ context.Context, sc *scope) (bool, error) {
	if sc.known.schemas == nil || sc.known.schemas.generation != sc.obj.Generation {
		sc.known.schemas = newSchemas(sc.obj)
	}
	if problem := sc.known.schemas.problem; problem != "" {
		return sc.conclude(conditions.Stalled, sandboxv1alpha1.InvalidSpecReason, problem)
	}
	return false, nil
}

func newSchemas(fn *sandboxv1alpha1.SandboxFunction) *schemas {
	s := &schemas{generation: fn.Generation}
	if fn.Spec.SchemaPolicy != sandboxv1alpha1.SchemaEnforce {
		return s
	}
	s.request = s.compile("requestSchema", fn.Spec.RequestSchema)
	s.response = s.compile("responseSchema", fn.Spec.ResponseSchema)
	return s
}

func (s *schemas) compile(field string, source *apiextensionsv1.JSON) *publish.Schema {
	document := raw(source)
	if document == nil || s.problem != "" {
		return nil
	}
	compiled, err := publish.CompileSchema(document)
	if err != nil {
		s.problem = fmt.Sprintf("spec.%s: %v", field, err)
	}
	return compiled
}
