package v1alpha1_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The table of bad input is whole when each constraint of each schema has a row that
// meets it and is refused for it, and one that comes as close as may be and is taken.
var _ = Describe("The table of bad input", Ordered, ContinueOnFailure, func() {
	var namespace string
	BeforeAll(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	for _, k := range kinds {
		It("has a refused row for every constraint of "+k.name, func(ctx SpecContext) {
			causes := causesOf(ctx, k, namespace)
			var missing []string
			for _, c := range constraintsOf(k) {
				if !slices.ContainsFunc(causes, c.refusedBy) {
					missing = append(missing, c.String())
				}
			}
			slices.Sort(missing)
			Expect(missing).To(BeEmpty())
		})

		It("has an accepted row for every constraint of "+k.name, func() {
			var missing []string
			created, changed := acceptedValues(k)
			for _, c := range constraintsOf(k) {
				values := created
				if c.stays {
					values = changed
				}
				if slices.ContainsFunc(values[c.path], c.touchedBy) == unreachable[k.name+" "+c.String()] {
					missing = append(missing, c.String())
				}
			}
			slices.Sort(missing)
			Expect(missing).To(BeEmpty())
		})
	}
})

// unreachable are the bounds of a part that several kinds share which another rule of
// one kind forbids to come to.
var unreachable = map[string]bool{
	// A path that begins with a slash and names a file has two characters.
	`SandboxRuntime spec.files[].path: minLength "1"`:          true,
	`SandboxFunction spec.runtime.files[].path: minLength "1"`: true,
	`SandboxRun spec.runtime.files[].path: minLength "1"`:      true,
	// Only runtimes that the bus keeps are deleted when idle.
	`SandboxFunction spec.runtime.idle.action: enum "Delete"`: true,
}

// causesOf are the causes of all refusals of the table.
func causesOf(ctx context.Context, k kind, namespace string) []metav1.StatusCause {
	GinkgoHelper()
	var causes []metav1.StatusCause
	for _, r := range table() {
		if r.kind != k || !r.refused() {
			continue
		}
		var status *apierrors.StatusError
		Expect(errors.As(r.ask(ctx, namespace), &status)).To(BeTrue(), r.title())
		for _, cause := range status.ErrStatus.Details.Causes {
			cause.Field = index.ReplaceAllString(cause.Field, "[]")
			causes = append(causes, cause)
		}
	}
	return causes
}

// index is that of an item in the path of a field.
var index = regexp.MustCompile(`\[\d+\]`)

// refusedBy says whether the cause is this constraint and no other.
func (c constraint) refusedBy(cause metav1.StatusCause) bool {
	if c.sort == "rule" {
		return cause.Field == c.path && strings.HasSuffix(cause.Message, ": "+c.bound)
	}
	path := c.path
	if c.sort == "unique" {
		path += "[]"
	}
	words := map[string]string{
		"minLength": "should be at least " + c.bound + " chars long",
		"maxLength": "may not be more than " + c.bound + " bytes",
		"maxItems":  "must have at most " + c.bound + " items",
		"minimum":   "should be greater than or equal to " + c.bound,
		"maximum":   "should be less than or equal to " + c.bound,
		"pattern":   "should match '" + c.bound + "'",
		"enum":      `"` + c.bound + `"`,
		"required":  "Required value",
		"unique":    "Duplicate value",
	}[c.sort]
	return cause.Field == path && words != "" && strings.Contains(cause.Message, words)
}

// touchedBy says whether an accepted value is at the bound.
func (c constraint) touchedBy(value any) bool {
	switch c.sort {
	case "minLength", "maxLength":
		text, ok := value.(string)
		return ok && fmt.Sprint(utf8.RuneCountInString(text)) == c.bound
	case "maxItems":
		list, ok := value.([]any)
		return ok && fmt.Sprint(len(list)) == c.bound
	case "minimum", "maximum", "enum":
		return fmt.Sprint(value) == c.bound
	case "unique":
		list, ok := value.([]any)
		return ok && len(list) > 1
	default:
		return true
	}
}

// acceptedValues are the values of each field in the rows that are accepted: of all
// of them, and of the changes.
func acceptedValues(k kind) (all, changes map[string][]any) {
	GinkgoHelper()
	all, changes = map[string][]any{}, map[string][]any{}
	for _, r := range table() {
		if r.kind != k || r.refused() {
			continue
		}
		collect(all, "spec", r.spec())
		if r.update {
			collect(changes, "spec", r.spec())
		}
	}
	return all, changes
}

func collect(values map[string][]any, path string, value any) {
	values[path] = append(values[path], value)
	switch v := value.(type) {
	case map[string]any:
		for name := range v {
			collect(values, path+"."+name, v[name])
		}
	case []any:
		for _, item := range v {
			collect(values, path+"[]", item)
		}
	}
}
