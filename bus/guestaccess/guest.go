package guestaccess

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// Kind is what a guest's sandbox belongs to.
type Kind string

// The kinds of guests.
const (
	// KindRuntime is an instance of a SandboxRuntime.
	KindRuntime Kind = "SandboxRuntime"
	// KindRun is the own sandbox of a SandboxRun.
	KindRun Kind = "SandboxRun"
	// kindProbe is the operator itself, when it looks at the listener as a guest
	// does.
	kindProbe Kind = "Probe"
)

// Guest names one sandbox. All of it is public: the credential's signature is
// the secret.
type Guest struct {
	Kind      Kind   `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// UID is that of the object, so that a later one of the same name is another.
	UID types.UID `json:"uid"`
	// Instance is the digest of the attempt's nonce, as the status shows it before
	// the sandbox is made.
	Instance string            `json:"instance"`
	Language v1alpha1.Language `json:"language,omitempty"`
}

// owner is how the functions of a guest are marked in the engine's catalog.
func (g Guest) owner() string {
	const enough = 16
	return fmt.Sprintf("%s/%s/%s/%s", g.Kind, g.Namespace, g.Name, g.Instance[:min(len(g.Instance), enough)])
}
