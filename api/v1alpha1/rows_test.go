package v1alpha1_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// row is one manifest, or a change of one, and what the API server must answer.
// All rows together are the table of bad input; coverage_test.go finds the
// constraints that no row is about.
type row struct {
	text string
	kind kind
	// before are the edits of the stored object; update says that there is one.
	before []edit
	update bool
	// changes are the edits of the manifest.
	changes []edit
	// says are what a refusal must name: the field and the fix. None: accepted.
	says []string
}

func takes(text string, changes ...edit) row { return row{text: text, changes: changes} }

func refuses(text string, fragments []string, changes ...edit) row {
	return row{text: text, changes: changes, says: fragments}
}

func takesUpdate(text string, before, changes []edit) row {
	return row{text: text, update: true, before: before, changes: changes}
}

func refusesUpdate(text string, before, changes []edit, fragments []string) row {
	return row{text: text, update: true, before: before, changes: changes, says: fragments}
}

// of makes rows those of a kind.
func of(k kind, rows ...row) []row {
	for i := range rows {
		rows[i].kind = k
	}
	return rows
}

// table are the rows of all kinds.
var table = sync.OnceValue(func() []row {
	return slices.Concat(
		runtimeRows(), functionRows(), functionIDRows(), triggerRows(), runRows(),
		scaleRows(), guestRows(), packageRows(), envRows(), fileRows(), referenceRows(), sourceRows(),
	)
})

func (r row) refused() bool { return len(r.says) > 0 }

func (r row) title() string {
	verb := "takes"
	if r.refused() {
		verb = "refuses"
	}
	if r.update {
		verb += " a change:"
	}
	return verb + " " + r.text
}

// ask gives the API server the row's manifest, as a dry run.
func (r row) ask(ctx context.Context, namespace string) error {
	GinkgoHelper()
	if r.update {
		return r.kind.tryUpdate(ctx, namespace, r.before, r.changes)
	}
	return r.kind.tryCreate(ctx, namespace, r.changes...)
}

// spec is the spec of the row's manifest.
func (r row) spec() map[string]any {
	GinkgoHelper()
	object := r.kind.object("", slices.Concat(r.before, r.changes)...)
	return object.Object["spec"].(map[string]any)
}

var _ = Describe("The API server", Ordered, ContinueOnFailure, func() {
	var namespace string
	BeforeAll(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	for i, r := range table() {
		It(fmt.Sprintf("%s #%d %s", r.kind.name, i, r.title()), func(ctx SpecContext) {
			err := r.ask(ctx, namespace)
			if !r.refused() {
				Expect(err).NotTo(HaveOccurred())
				return
			}
			expectRefusal(err, r.says...)
			expectWords(err)
		})
	}
})

// expectWords wants words beside each pattern: whoever reads the refusal need not
// read an expression to know what to write. They may be those of the list that the
// text is in.
func expectWords(err error) {
	GinkgoHelper()
	var status *apierrors.StatusError
	Expect(errors.As(err, &status)).To(BeTrue())
	isPattern := func(cause metav1.StatusCause) bool { return strings.Contains(cause.Message, "should match '") }
	for _, pattern := range status.ErrStatus.Details.Causes {
		if !isPattern(pattern) {
			continue
		}
		Expect(status.ErrStatus.Details.Causes).To(ContainElement(Satisfy(func(cause metav1.StatusCause) bool {
			return !isPattern(cause) && strings.HasPrefix(pattern.Field, cause.Field) && cause.Field != "<nil>"
		})), pattern.Field+" is told by a pattern alone")
	}
}

// place is where a part that several kinds share stands in one of them: below
// spec.path, in a spec that has room for it.
type place struct {
	kind kind
	path string
	room []edit
}

// at repeats rows, written as if the part were the spec, in each of the places.
func at(places []place, rows func() []row) []row {
	var all []row
	for _, p := range places {
		for _, r := range rows() {
			r.kind = p.kind
			r.changes = slices.Concat(p.room, p.inside(r.changes))
			r.says = p.below(r.says)
			if p.path != "" {
				r.text += " in " + p.path
			}
			all = append(all, r)
		}
	}
	return all
}

func (p place) inside(changes []edit) []edit {
	if p.path == "" {
		return changes
	}
	moved := make([]edit, len(changes))
	for i, change := range changes {
		moved[i] = func(spec map[string]any) {
			GinkgoHelper()
			part, found, err := unstructured.NestedFieldNoCopy(spec, strings.Split(p.path, ".")...)
			Expect(err).NotTo(HaveOccurred())
			Expect(found).To(BeTrue(), p.path)
			change(part.(map[string]any))
		}
	}
	return moved
}

// below moves the paths in what a refusal says.
func (p place) below(fragments []string) []string {
	moved := slices.Clone(fragments)
	for i, fragment := range moved {
		if rest, ok := strings.CutPrefix(fragment, "spec."); ok && p.path != "" {
			moved[i] = "spec." + p.path + "." + rest
		}
	}
	return moved
}

// guests are the places that describe a sandbox for programs of a language.
func guests(language string) []place {
	return []place{
		{kind: runtimeKind, room: edits(set("language", language))},
		ownRuntime(language),
		{kind: runKind, path: "runtime", room: edits(set("language", language), set("runtime", "{}"))},
	}
}

// ownRuntime is the runtime of one function.
func ownRuntime(language string) place {
	return place{kind: functionKind, path: "runtime", room: edits(unset("language"), set("runtime", "{language: "+language+"}"))}
}

// many puts a list of that many items at a path.
func many(path string, count int, item func(n int) any) edit {
	return func(spec map[string]any) {
		list := make([]any, count)
		for n := range list {
			list[n] = item(n)
		}
		setAt(spec, path, list)
	}
}

// manyNamed puts a list of that many items with names of their own at a path.
func manyNamed(path string, count int, key, value string) edit {
	return many(path, count, func(n int) any { return map[string]any{"name": fmt.Sprintf("item%d", n), key: value} })
}

// manyTexts puts a list of that many different texts, which begin alike, at a path.
func manyTexts(path string, count int, text string) edit {
	return many(path, count, func(n int) any {
		number := fmt.Sprint(n)
		return text[:max(len(text)-len(number), 0)] + number
	})
}

// long is a text of that many characters.
func long(count int) string { return strings.Repeat("x", count) }
