// Package environment resolves what a spec takes from Secrets and ConfigMaps for a
// guest: the variables and the files that its programs find.
package environment

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// NotFoundError says that an object or key which a spec refers to is absent.
type NotFoundError struct {
	// Kind is Secret or ConfigMap.
	Kind, Name, Key string
}

func (e *NotFoundError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("%s %q does not exist", e.Kind, e.Name)
	}
	return fmt.Sprintf("%s %q has no key %q", e.Kind, e.Name, e.Key)
}

// IsNotFound reports whether err says that a reference leads nowhere.
func IsNotFound(err error) bool {
	var target *NotFoundError
	return errors.As(err, &target)
}

// maxVariableBytes is what a variable may have, its name and "=" included: a program
// with a longer one cannot be started.
const maxVariableBytes = 128<<10 - 1

// ValueError says that a value cannot be that of a variable. It does not hold it.
type ValueError struct{ Problem string }

func (e *ValueError) Error() string { return e.Problem }

// IsValue reports whether err says that a value cannot be that of a variable.
func IsValue(err error) bool {
	var target *ValueError
	return errors.As(err, &target)
}

// Resolve returns the variables with their values. With a NotFoundError or a
// ValueError, which is of the first that leads nowhere or is no good, come those of
// the others. The reader should be uncached: Secrets and ConfigMaps of users are in
// no informer.
func Resolve(ctx context.Context, reader client.Reader, namespace string, vars []sandboxv1alpha1.EnvVar) (map[string]string, error) {
	env := make(map[string]string, len(vars))
	var first error
	for _, v := range vars {
		value, err := resolveOne(ctx, reader, namespace, v)
		if err == nil {
			env[v.Name] = value
			err = checkValue(v.Name, value)
		}
		switch {
		case err == nil:
		case !IsNotFound(err) && !IsValue(err):
			return nil, fmt.Errorf("env %s: %w", v.Name, err)
		case first == nil:
			first = fmt.Errorf("env %s: %w", v.Name, err)
		}
	}
	return env, first
}

func checkValue(name, value string) error {
	switch {
	case strings.IndexByte(value, 0) >= 0:
		return &ValueError{"the value has a NUL character, which no variable can have; use files"}
	case len(name)+1+len(value) > maxVariableBytes:
		return &ValueError{fmt.Sprintf("the value has %d bytes, %d are allowed; use files", len(value), maxVariableBytes-len(name)-1)}
	default:
		return nil
	}
}

func resolveOne(ctx context.Context, reader client.Reader, namespace string, v sandboxv1alpha1.EnvVar) (string, error) {
	if v.ValueFrom == nil {
		return valueOrEmpty(v.Value), nil
	}
	return Key(ctx, reader, namespace, v.ValueFrom)
}

// Key reads one key of a Secret or ConfigMap.
func Key(ctx context.Context, reader client.Reader, namespace string, source *sandboxv1alpha1.KeySource) (string, error) {
	if source.SecretKeyRef != nil {
		return secretKey(ctx, reader, namespace, source.SecretKeyRef)
	}
	return ConfigMapKey(ctx, reader, namespace, source.ConfigMapKeyRef)
}

func valueOrEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func secretKey(ctx context.Context, reader client.Reader, namespace string, ref *sandboxv1alpha1.KeyReference) (string, error) {
	var secret corev1.Secret
	err := reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: ref.Name}, &secret)
	if apierrors.IsNotFound(err) {
		return "", &NotFoundError{Kind: "Secret", Name: ref.Name}
	}
	if err != nil {
		return "", err
	}
	value, ok := secret.Data[ref.Key]
	if !ok {
		return "", &NotFoundError{Kind: "Secret", Name: ref.Name, Key: ref.Key}
	}
	return string(value), nil
}

// ConfigMapKey reads one key of a ConfigMap, from data or binaryData.
func ConfigMapKey(ctx context.Context, reader client.Reader, namespace string, ref *sandboxv1alpha1.KeyReference) (string, error) {
	var configMap corev1.ConfigMap
	err := reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: ref.Name}, &configMap)
	if apierrors.IsNotFound(err) {
		return "", &NotFoundError{Kind: "ConfigMap", Name: ref.Name}
	}
	if err != nil {
		return "", err
	}
	if value, ok := configMap.Data[ref.Key]; ok {
		return value, nil
	}
	if value, ok := configMap.BinaryData[ref.Key]; ok {
		return string(value), nil
	}
	return "", &NotFoundError{Kind: "ConfigMap", Name: ref.Name, Key: ref.Key}
}
