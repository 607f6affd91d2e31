package index

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

const (
	hashLength    = 10
	maxSlugLength = 40
)

// Prefix is the first segment of a function id, without the colons.
func Prefix(functionID string) string {
	prefix, _, _ := strings.Cut(functionID, "::")
	return prefix
}

// Hash is a short hash of a string that is too long, or has the wrong
// characters, for a name or label.
func Hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:hashLength]
}

// Slug turns any text into at most 40 characters that a Kubernetes name may
// begin with. Different texts can have the same slug: a name adds Hash.
func Slug(s string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(s) {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			b.WriteRune(r)
		} else if b.Len() > 0 && !strings.HasSuffix(b.String(), "-") {
			b.WriteByte('-')
		}
		if b.Len() >= maxSlugLength {
			break
		}
	}
	slug := strings.Trim(b.String(), "-")
	if slug == "" {
		return "x"
	}
	return slug
}

// RuntimeName is the name of the SandboxRuntime that a function runs in: the one
// it refers to, the one that is its own, or the one it shares with the functions
// of its id prefix and language.
func RuntimeName(fn *sandboxv1alpha1.SandboxFunction) string {
	switch {
	case fn.Spec.RuntimeRef != nil:
		return fn.Spec.RuntimeRef.Name
	case fn.Spec.Runtime != nil:
		// The hash keeps it apart from a runtime that somebody names like a function.
		return Slug(fn.Name) + "-own-" + Hash("own/"+fn.Name)
	}
	prefix := Prefix(fn.Spec.FunctionID)
	language := strings.ToLower(string(fn.Spec.Language))
	return Slug(prefix) + "-" + language + "-" + Hash(prefix+"/"+language)
}
