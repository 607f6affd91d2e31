package identity

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/bus/guestaccess"
)

// GuestKey returns the key that signs the credentials of guests. It is made once,
// by whichever process comes first; who deletes it from the Secret and restarts
// the operator ends all credentials.
func (s *Store) GuestKey(ctx context.Context) ([]byte, error) {
	var key []byte
	err := retry.OnError(retry.DefaultRetry, isRace, func() (err error) {
		key, err = s.guestKey(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the key of guests from Secret %s: %w", s.key(SecretName), err)
	}
	return key, nil
}

func isRace(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

func (s *Store) guestKey(ctx context.Context) ([]byte, error) {
	var secret corev1.Secret
	err := s.client.Get(ctx, s.key(SecretName), &secret)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if key := secret.Data[guestKeyKey]; len(key) > 0 {
		return key, nil
	}
	key := make([]byte, guestaccess.KeyBytes)
	_, _ = rand.Read(key) // it never fails
	if apierrors.IsNotFound(err) {
		return key, s.client.Create(ctx, s.newSecret(map[string][]byte{guestKeyKey: key}))
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[guestKeyKey] = key
	// With the version that was read: another process may be doing the same.
	return key, s.client.Update(ctx, &secret)
}

func (s *Store) newSecret(fields map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: SecretName},
		Type:       corev1.SecretTypeOpaque, Data: fields,
	}
}

// merge writes some fields of the Secret.
func (s *Store) merge(ctx context.Context, fields map[string][]byte) error {
	patch, err := json.Marshal(map[string]any{"data": fields})
	if err != nil {
		return err
	}
	err = s.client.Patch(ctx, s.newSecret(nil), client.RawPatch(types.MergePatchType, patch))
	if !apierrors.IsNotFound(err) {
		return err
	}
	err = s.client.Create(ctx, s.newSecret(fields))
	if apierrors.IsAlreadyExists(err) {
		err = s.client.Patch(ctx, s.newSecret(nil), client.RawPatch(types.MergePatchType, patch))
	}
	return err
}
