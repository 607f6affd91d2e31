package environment_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/sandbox-operator/sandbox-operator/controllers/internal/environment"
)

func TestOnce(t *testing.T) {
	reads := 0
	once := environment.Once(interceptor.NewClient(reader(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, obj, opts...)
		},
	}))
	for range 3 {
		for _, source := range []struct{ name, key string }{{"keys", "token"}, {"other", "token"}} {
			_, err := environment.Key(t.Context(), once, "apps", fromSecret(source.name, source.key))
			if environment.IsNotFound(err) != (source.name == "other") {
				t.Errorf("Secret %s: %v", source.name, err)
			}
		}
		if value, err := environment.Key(t.Context(), once, "apps", fromConfigMap("keys", "mode")); err != nil || value == "" {
			t.Errorf("ConfigMap: %q, %v", value, err)
		}
	}
	if reads != 3 {
		t.Errorf("three objects were read %d times", reads)
	}
	var pod corev1.Pod
	if err := once.Get(t.Context(), types.NamespacedName{Namespace: "apps", Name: "none"}, &pod); err == nil || reads != 4 {
		t.Errorf("another kind: %v after %d reads", err, reads)
	}
}
