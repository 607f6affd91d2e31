// Package identity keeps what outlives one process of the operator: who this
// installation is, and the pair with which the next leader takes over the bus
// connection of the last.
package identity

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/bus"
)

// Names of the two objects in the operator's namespace. What the operator may do
// there is in config/rbac/leader_election_role.yaml, beside its lease.
const (
	ConfigMapName = "sandbox-operator-identity"
	SecretName    = "sandbox-operator-bus-session" //nolint:gosec // the name of a Secret, not its content

	workerIDKey = "worker-id"
	tokenKey    = "reattach-token"
	guestKeyKey = "guest-key"
)

// Store reads and writes the two objects past any cache.
type Store struct {
	client    client.Client
	namespace string
}

// NewStore returns a store in the operator's namespace. The client must not
// cache.
func NewStore(c client.Client, namespace string) *Store {
	return &Store{client: c, namespace: namespace}
}

// OperatorID is the UID of a ConfigMap that is made once. It marks the sandboxes
// of this installation, and changes only if somebody deletes that ConfigMap.
func (s *Store) OperatorID(ctx context.Context) (string, error) {
	configMap, err := s.configMap(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the operator's identity from ConfigMap %s: %w", s.key(ConfigMapName), err)
	}
	return string(configMap.UID), nil
}

// configMap reads the ConfigMap, and makes it only where there is none: all starts
// but the first one write nothing.
func (s *Store) configMap(ctx context.Context) (*corev1.ConfigMap, error) {
	configMap := &corev1.ConfigMap{}
	err := s.client.Get(ctx, s.key(ConfigMapName), configMap)
	if !apierrors.IsNotFound(err) {
		return configMap, err
	}
	configMap = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: ConfigMapName}}
	err = s.client.Create(ctx, configMap)
	if apierrors.IsAlreadyExists(err) {
		// Another process was faster.
		err = s.client.Get(ctx, s.key(ConfigMapName), configMap)
	}
	return configMap, err
}

// Session returns the stored pair, which is empty the first time.
func (s *Store) Session(ctx context.Context) (bus.ReattachPair, error) {
	var secret corev1.Secret
	err := s.client.Get(ctx, s.key(SecretName), &secret)
	if apierrors.IsNotFound(err) {
		return bus.ReattachPair{}, nil
	}
	if err != nil {
		return bus.ReattachPair{}, fmt.Errorf("reading the bus session from Secret %s: %w", s.key(SecretName), err)
	}
	return bus.ReattachPair{WorkerID: string(secret.Data[workerIDKey]), Token: string(secret.Data[tokenKey])}, nil
}

// SaveSession stores the pair of the present connection, and leaves the rest of
// the Secret as it is.
func (s *Store) SaveSession(ctx context.Context, pair bus.ReattachPair) error {
	fields := map[string][]byte{workerIDKey: []byte(pair.WorkerID), tokenKey: []byte(pair.Token)}
	if err := s.merge(ctx, fields); err != nil {
		return fmt.Errorf("storing the bus session in Secret %s: %w", s.key(SecretName), err)
	}
	return nil
}

func (s *Store) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.namespace, Name: name}
}
