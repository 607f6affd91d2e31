package slim

import (
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// decoded is a text of its own, as a decoder makes it.
func decoded(text string) string { return strings.Clone(text) }

func sameCopy(a, b string) bool { return a == b && unsafe.StringData(a) == unsafe.StringData(b) }

func TestWords(t *testing.T) {
	w := &words{known: map[string]string{}}
	if !sameCopy(w.share(decoded("Ready")), w.share(decoded("Ready"))) {
		t.Error("two equal words have two copies")
	}
	long := strings.Repeat("x", maxWord+1)
	if own := decoded(long); !sameCopy(w.share(own), own) || len(w.known) != 1 {
		t.Error("a long text is kept")
	}
	if w.share("") != "" || len(w.known) != 1 {
		t.Error("an empty text is kept")
	}
	for i := range 3 * maxWords {
		if word := strconv.Itoa(i); w.share(word) != word {
			t.Fatalf("%s became another word", word)
		}
	}
	if len(w.known) > maxWords {
		t.Errorf("%d words are kept, at most %d may be", len(w.known), maxWords)
	}
}

func TestTransform_sharesWords(t *testing.T) {
	object := func() *sandboxv1alpha1.SandboxFunction {
		fn := &sandboxv1alpha1.SandboxFunction{}
		fn.Namespace, fn.Finalizers = decoded("apps"), append(make([]string, 0, 4), decoded("a/b"))
		fn.Status.RuntimeName = decoded("shop-node")
		fn.Status.Conditions = append(make([]metav1.Condition, 0, 4), metav1.Condition{
			Type: decoded("Ready"), Status: metav1.ConditionStatus(decoded("True")), Reason: decoded("Ready"), Message: decoded("all is well"),
		})
		return fn
	}
	texts := func(fn *sandboxv1alpha1.SandboxFunction) []string {
		c := fn.Status.Conditions[0]
		return []string{fn.Namespace, fn.Finalizers[0], fn.Status.RuntimeName, c.Type, string(c.Status), c.Reason, c.Message}
	}
	first, second := object(), object()
	for _, fn := range []*sandboxv1alpha1.SandboxFunction{first, second} {
		if _, err := Transform(fn); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(object(), first); diff != "" {
		t.Errorf("the object is another one (-want +got):\n%s", diff)
	}
	for i, text := range texts(first) {
		if !sameCopy(text, texts(second)[i]) {
			t.Errorf("%q has two copies", text)
		}
	}
	if cap(first.Status.Conditions) != 1 || cap(first.Finalizers) != 1 {
		t.Errorf("there is room for %d conditions and %d finalizers", cap(first.Status.Conditions), cap(first.Finalizers))
	}
	bare := &sandboxv1alpha1.SandboxRuntime{}
	if _, err := Transform(bare); err != nil || bare.Finalizers != nil || bare.Status.Conditions != nil {
		t.Errorf("lists that are not there became %#v and %#v, %v", bare.Finalizers, bare.Status.Conditions, err)
	}
}
