package environment_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/environment"
)

func text(s string) *string { return &s }

func fromSecret(name, key string) *sandboxv1alpha1.KeySource {
	return &sandboxv1alpha1.KeySource{SecretKeyRef: &sandboxv1alpha1.KeyReference{Name: name, Key: key}}
}

func fromConfigMap(name, key string) *sandboxv1alpha1.KeySource {
	return &sandboxv1alpha1.KeySource{ConfigMapKeyRef: &sandboxv1alpha1.KeyReference{Name: name, Key: key}}
}

func reader() client.WithWatch {
	here := metav1.ObjectMeta{Namespace: "apps", Name: "keys"}
	return fake.NewClientBuilder().WithObjects(
		&corev1.Secret{ObjectMeta: here, Data: map[string][]byte{"token": []byte("s3cret")}},
		&corev1.ConfigMap{
			ObjectMeta: here, Data: map[string]string{"mode": "fast", "both": "text"},
			BinaryData: map[string][]byte{"raw": []byte("\x01"), "empty": {}},
		},
	).Build()
}

func TestResolve(t *testing.T) {
	got, err := environment.Resolve(t.Context(), reader(), "apps", []sandboxv1alpha1.EnvVar{
		{Name: "PLAIN", Value: text("v")},
		{Name: "EMPTY", Value: text("")},
		{Name: "TOKEN", ValueFrom: fromSecret("keys", "token")},
		{Name: "MODE", ValueFrom: fromConfigMap("keys", "mode")},
		{Name: "RAW", ValueFrom: fromConfigMap("keys", "raw")},
		{Name: "NONE", ValueFrom: fromConfigMap("keys", "empty")},
	})
	want := map[string]string{"PLAIN": "v", "EMPTY": "", "TOKEN": "s3cret", "MODE": "fast", "RAW": "\x01", "NONE": ""}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestResolve_missing(t *testing.T) {
	for name, tc := range map[string]struct {
		source *sandboxv1alpha1.KeySource
		want   string
	}{
		"no such Secret":        {fromSecret("other", "token"), `env A: Secret "other" does not exist`},
		"no such Secret key":    {fromSecret("keys", "mode"), `env A: Secret "keys" has no key "mode"`},
		"no such ConfigMap":     {fromConfigMap("other", "mode"), `env A: ConfigMap "other" does not exist`},
		"no such ConfigMap key": {fromConfigMap("keys", "token"), `env A: ConfigMap "keys" has no key "token"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := environment.Resolve(t.Context(), reader(), "apps", []sandboxv1alpha1.EnvVar{{Name: "A", ValueFrom: tc.source}})
			if !environment.IsNotFound(err) || err.Error() != tc.want {
				t.Errorf("the error is %v, want %s", err, tc.want)
			}
		})
	}
	_, err := environment.Resolve(t.Context(), reader(), "elsewhere", []sandboxv1alpha1.EnvVar{{Name: "A", ValueFrom: fromSecret("keys", "token")}})
	if !environment.IsNotFound(err) {
		t.Errorf("a Secret of another namespace: %v", err)
	}
}

func TestResolve_impossibleValues(t *testing.T) {
	longest := strings.Repeat("v", 128<<10-len("KEY=\x00"))
	objects := fake.NewClientBuilder().WithObjects(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "keys"},
		Data:       map[string][]byte{"nul": []byte("s3cret\x00"), "long": []byte(longest + "s"), "most": []byte(longest)},
	}).Build()
	for key, want := range map[string]string{
		"nul": "env KEY: the value has a NUL character", "long": "env KEY: the value has 131068 bytes, 131067 are allowed; use files",
		"most": "",
	} {
		got, err := environment.Resolve(t.Context(), objects, "apps", []sandboxv1alpha1.EnvVar{
			{Name: "KEY", ValueFrom: fromSecret("keys", key)}, {Name: "OTHER", Value: text("v")},
		})
		switch {
		case want == "" && err != nil, want != "" && (!environment.IsValue(err) || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("%s: %v, want %q", key, err, want)
		case err != nil && strings.Contains(err.Error(), "s3cret"):
			t.Errorf("%s: the message has the value", key)
		}
		if got["OTHER"] != "v" || got["KEY"] == "" {
			t.Errorf("%s: what can be redacted is missing", key)
		}
	}
}

func TestResolve_failingReader(t *testing.T) {
	down := errors.New("connection refused")
	failing := interceptor.NewClient(reader(), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return down
		},
	})
	for _, source := range []*sandboxv1alpha1.KeySource{fromSecret("keys", "token"), fromConfigMap("keys", "mode")} {
		_, err := environment.Resolve(t.Context(), failing, "apps", []sandboxv1alpha1.EnvVar{{Name: "A", ValueFrom: source}})
		if !errors.Is(err, down) || environment.IsNotFound(err) || !strings.HasPrefix(err.Error(), "env A: ") {
			t.Errorf("the error is %v", err)
		}
	}
}
