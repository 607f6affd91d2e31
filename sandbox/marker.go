package sandbox

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// Marker is the name the operator gives a sandbox. The back end treats it as a
// label; the operator finds its sandboxes again by it after a lost answer or a
// restart. It holds no secret.
type Marker struct {
	// Operator is the UID of the operator installation.
	Operator string
	// Object is the UID of the object the sandbox belongs to.
	Object string
	// Ordinal tells the instances of one object apart.
	Ordinal int
	// Nonce is new for every attempt to create the sandbox. Its digest is in the
	// object's status before the attempt, so a sandbox from a forgotten attempt
	// can be told from the current one.
	Nonce string
}

const (
	markerPrefix = "sbx"
	markerParts  = 5
)

// NewNonce returns a nonce for one attempt.
func NewNonce() string { return uuid.NewString() }

// String returns the marker's text form: five parts joined by slashes.
func (m Marker) String() string {
	return strings.Join([]string{markerPrefix, m.Operator, m.Object, strconv.Itoa(m.Ordinal), m.Nonce}, "/")
}

// ParseMarker reads a sandbox's name. It fails for every name that this
// operator software did not give.
func ParseMarker(name string) (Marker, error) {
	parts := strings.Split(name, "/")
	if len(parts) != markerParts || parts[0] != markerPrefix {
		return Marker{}, fmt.Errorf("%q is not a marker of this operator", name)
	}
	ordinal, err := strconv.Atoi(parts[3])
	if err != nil || ordinal < 0 {
		return Marker{}, fmt.Errorf("marker %q: the ordinal must be a number from 0", name)
	}
	if parts[1] == "" || parts[2] == "" || parts[4] == "" {
		return Marker{}, fmt.Errorf("marker %q: a part is empty", name)
	}
	return Marker{Operator: parts[1], Object: parts[2], Ordinal: ordinal, Nonce: parts[4]}, nil
}
