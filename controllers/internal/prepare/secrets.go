package prepare

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/environment"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/redact"
)

// Secrets are the values of Secrets that the programs of a guest can read, and so
// print. A reference that leads nowhere has none.
func Secrets(
	ctx context.Context, reader client.Reader, namespace string, vars []sandboxv1alpha1.EnvVar, files []sandboxv1alpha1.File,
) ([]string, error) {
	reader = environment.Once(reader)
	env, err := environment.Resolve(ctx, reader, namespace, vars)
	if err != nil && !environment.IsNotFound(err) && !environment.IsValue(err) {
		return nil, err
	}
	values := redact.SecretValues(vars, env)
	for _, f := range files {
		if f.ContentFrom == nil || f.ContentFrom.SecretKeyRef == nil {
			continue
		}
		value, err := environment.Key(ctx, reader, namespace, f.ContentFrom)
		switch {
		case err == nil:
			values = append(values, value)
		case !environment.IsNotFound(err):
			return nil, err
		}
	}
	return values, nil
}
