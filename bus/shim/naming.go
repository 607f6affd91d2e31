package shim

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

const (
	separator      = "::"
	maxPrefixBytes = 64
	// shortHashDigits are enough to tell the ids of one namespace apart; the whole
	// id is compared as well.
	shortHashDigits = 10
	maxSlugBytes    = 40
	keptHashDigits  = 32
	keptPrefix      = "kept-"
	// referenceDigits make the reference of a runtime unique.
	referenceDigits = 16
)

// reservedPrefixes belong to the engine and the sandbox; the API server refuses
// them too.
var reservedPrefixes = []string{"engine", "sandbox", DefaultWorkerName, "state", "stream", "iii"}

var (
	prefixCharacters = regexp.MustCompile(`^[a-z0-9._-]+$`)
	notInNames       = regexp.MustCompile(`[^a-z0-9]+`)
)

// checkPrefix holds an id prefix, without its colons, to
// contracts/code-runner.md §6.
func checkPrefix(prefix string) error {
	switch {
	case prefix == "":
		return invalid("the namespace is empty; it needs a name such as shop")
	case len(prefix) > maxPrefixBytes:
		return invalid("the namespace has %d bytes; the limit is %d", len(prefix), maxPrefixBytes)
	case !prefixCharacters.MatchString(prefix):
		return invalid("namespace %q may have only a-z, 0-9, dot, underscore and hyphen", prefix)
	case strings.HasPrefix(prefix, "."), strings.Contains(prefix, ".."):
		return invalid("namespace %q must not start with a dot or have two dots in a row", prefix)
	}
	return nil
}

// splitFunctionID returns the id prefix of a function id that keeps the rules.
func (s *Shim) splitFunctionID(id string) (prefix string, err error) {
	prefix, rest, found := strings.Cut(id, separator)
	if !found || rest == "" {
		return "", invalid("function_id %q needs a namespace and a name, such as shop::price", id)
	}
	if err := checkPrefix(prefix); err != nil {
		return "", err
	}
	if s.isOwnID(id) {
		return "", alreadyRegistered(id, "this worker")
	}
	if prefix == s.WorkerName || slices.Contains(reservedPrefixes, prefix) {
		return "", invalid("namespace %q of function_id belongs to the engine or the sandbox; use another one", prefix)
	}
	return prefix, nil
}

// prefixOf is for ids that keep the rules.
func prefixOf(functionID string) string {
	prefix, _, _ := strings.Cut(functionID, separator)
	return prefix
}

func (s *Shim) isOwnID(id string) bool {
	name, own := strings.CutPrefix(id, s.WorkerName+separator)
	return own && slices.Contains(reservedNames, name)
}

// functionName is the object of a function: a slug for people, a hash for
// uniqueness. It starts with a letter or digit and has at most 51 characters.
func functionName(id string) string {
	slug := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(id), "-"), "-")
	slug = strings.TrimRight(slug[:min(len(slug), maxSlugBytes)], "-")
	if slug == "" {
		slug = "function"
	}
	return slug + "-" + shortHash(id)
}

// shortHash is the value of the prefix label and the tail of object names.
func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:shortHashDigits]
}

// mintRuntimeID makes a bearer secret for a kept runtime
// (contracts/code-runner.md §2).
func mintRuntimeID() string { return "rt-" + uuid.NewString() }

// keptName is the object of a kept runtime. It tells nothing about the id, but
// the id finds it with one Get (design rule 2).
func keptName(runtimeID string) string {
	return keptPrefix + digestOf(runtimeID)
}

// referenceOf names a runtime to callers: the same as long as the object has its
// name, and of no use for anything but comparing.
func referenceOf(runtime *v1alpha1.SandboxRuntime) string {
	return "ref-" + digestOf(runtime.Namespace + "/" + runtime.Name)[:referenceDigits]
}

// languageOf is the language of a function, of a runtime of its own or not.
func languageOf(f *v1alpha1.SandboxFunction) v1alpha1.Language {
	if f.Spec.Runtime != nil {
		return f.Spec.Runtime.Language
	}
	return f.Spec.Language
}

func isKept(runtime *v1alpha1.SandboxRuntime) bool {
	return isFromBus(runtime.Labels) && strings.HasPrefix(runtime.Name, keptPrefix)
}

// busLabels mark an object as made for a bus caller; further labels follow in
// pairs.
func busLabels(more ...string) map[string]string {
	labels := pairs(more)
	labels[v1alpha1.OriginLabel] = v1alpha1.OriginBus
	return labels
}

func pairs(list []string) map[string]string {
	found := map[string]string{}
	for i := 0; i+1 < len(list); i += 2 {
		found[list[i]] = list[i+1]
	}
	return found
}

func isFromBus(labels map[string]string) bool {
	return labels[v1alpha1.OriginLabel] == v1alpha1.OriginBus
}
