// Package redact takes the values of Secrets and the capabilities of runtimes out
// of what the status, events and logs quote from guests and back ends.
package redact

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

const redacted = "[redacted]"

// minSecret is the length below which a Secret's value is no secret worth the
// damage of replacing it everywhere.
const minSecret = 4

// runtimeID matches the capability of a kept runtime, wherever it stands.
var runtimeID = regexp.MustCompile(`(?i)rt-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// guestCredential matches what opens the bus to a guest (bus/guestaccess), of any
// version and also where its end was cut off.
var guestCredential = regexp.MustCompile(`sog[0-9]+\.[A-Za-z0-9_-]{8,}(\.[A-Za-z0-9_-]*)?`)

// Text takes known secrets and capabilities out of a text. The longest secret
// goes first: another may be a part of it.
func Text(text string, secrets []string) string {
	for _, secret := range bySize(secrets) {
		text = strings.ReplaceAll(text, secret, redacted)
	}
	return guestCredential.ReplaceAllString(runtimeID.ReplaceAllString(text, redacted), redacted)
}

// bySize lists what to look for, the longest first. Secrets made from files end
// with a line break that programs drop.
func bySize(secrets []string) []string {
	var list []string
	for _, secret := range secrets {
		for _, form := range []string{secret, strings.TrimSpace(secret)} {
			if len(form) >= minSecret && !slices.Contains(list, form) {
				list = append(list, form)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b string) int { return len(b) - len(a) })
	return list
}

// JSON is Text for a value: it looks at what strings, names and numbers
// say and not at how they are written, and the outcome is JSON again. A value
// that the API server could not store, such as a number beyond a double, is not
// whole; null is no value.
func JSON(raw []byte, secrets []string) (value []byte, whole bool) {
	if len(raw) == 0 {
		return nil, true
	}
	var storable any
	if err := utiljson.Unmarshal(raw, &storable); err != nil {
		return nil, false
	}
	if storable == nil {
		return nil, true
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var decoded any
	if err := decoder.Decode(&decoded); err != nil {
		return nil, false
	}
	value, err := wire.Marshal(cleanValue(decoded, secrets))
	return value, err == nil
}

func cleanValue(value any, secrets []string) any {
	switch v := value.(type) {
	case string:
		return Text(v, secrets)
	case json.Number:
		if text := Text(v.String(), secrets); text != v.String() {
			return text
		}
	case []any:
		for i := range v {
			v[i] = cleanValue(v[i], secrets)
		}
	case map[string]any:
		clean := make(map[string]any, len(v))
		for name, member := range v {
			clean[Text(name, secrets)] = cleanValue(member, secrets)
		}
		return clean
	}
	return value
}

// SecretValues are the values of the variables that come from Secrets; env holds
// the values of all of them.
func SecretValues(vars []sandboxv1alpha1.EnvVar, env map[string]string) []string {
	var values []string
	for _, v := range vars {
		if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil && env[v.Name] != "" {
			values = append(values, env[v.Name])
		}
	}
	return values
}
