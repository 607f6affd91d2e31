package prepare_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/prepare"
)

func TestSecrets(t *testing.T) {
	here := metav1.ObjectMeta{Namespace: "apps", Name: "settings"}
	reader := fakeclient.NewClientBuilder().WithObjects(
		&corev1.Secret{ObjectMeta: here, Data: map[string][]byte{"token": []byte("hunter2"), "key": []byte("MIIE")}},
		&corev1.ConfigMap{ObjectMeta: here, Data: map[string]string{"text": "open"}},
	).Build()
	secret := func(name, key string) *sandboxv1alpha1.KeySource {
		return &sandboxv1alpha1.KeySource{SecretKeyRef: &sandboxv1alpha1.KeyReference{Name: name, Key: key}}
	}
	open := &sandboxv1alpha1.KeySource{ConfigMapKeyRef: &sandboxv1alpha1.KeyReference{Name: "settings", Key: "text"}}
	literal := "literal"
	vars := []sandboxv1alpha1.EnvVar{
		{Name: "A", ValueFrom: secret("settings", "token")}, {Name: "B", ValueFrom: open}, {Name: "C", ValueFrom: secret("other", "x")},
	}
	files := []sandboxv1alpha1.File{
		{Path: "/a", ContentFrom: secret("settings", "key")}, {Path: "/b", ContentFrom: open},
		{Path: "/c", ContentFrom: secret("settings", "x")}, {Path: "/d", Content: &literal},
	}
	got, err := prepare.Secrets(t.Context(), reader, "apps", vars, files)
	if diff := cmp.Diff([]string{"hunter2", "MIIE"}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	down := errors.New("API server away")
	failing := interceptor.NewClient(reader, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return down
		},
	})
	if _, err := prepare.Secrets(t.Context(), failing, "apps", vars, nil); !errors.Is(err, down) {
		t.Errorf("variables that cannot be read: %v", err)
	}
	if _, err := prepare.Secrets(t.Context(), failing, "apps", nil, files); !errors.Is(err, down) {
		t.Errorf("files that cannot be read: %v", err)
	}
}
