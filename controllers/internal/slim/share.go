package slim

import (
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// maxWord is the longest text that is shared, in bytes, and maxWords how many are.
	maxWord, maxWords = 128, 4096
)

// shared are the texts that the cached objects have in common.
var shared = &words{known: map[string]string{}}

// words keeps one copy of each text. Every object is decoded with copies of its
// own, of which thousands of functions differ in few.
type words struct {
	mu    sync.Mutex
	known map[string]string
}

// shareAs is words.share for all types of texts.
func shareAs[T ~string](w *words, text T) T { return T(w.share(string(text))) }

// share returns the text itself, or an earlier copy of it.
func (w *words) share(text string) string {
	if text == "" || len(text) > maxWord {
		return text
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if known, ok := w.known[text]; ok {
		return known
	}
	if len(w.known) >= maxWords {
		// Those that are still in use come again; this way none stays for ever.
		clear(w.known)
	}
	// A decoder may have cut it out of something large.
	text = strings.Clone(text)
	w.known[text] = text
	return text
}

// share gives an object the common copies of what is alike in many.
func share(obj client.Object) {
	obj.SetNamespace(shared.share(obj.GetNamespace()))
	obj.SetFinalizers(shareAll(obj.GetFinalizers()))
	if obj, ok := obj.(conditioned); ok {
		obj.SetConditions(shareConditions(obj.GetConditions()))
	}
}

func shareAll(list []string) []string {
	list = exact(list)
	for i := range list {
		list[i] = shared.share(list[i])
	}
	return list
}

type conditioned interface {
	GetConditions() []metav1.Condition
	SetConditions([]metav1.Condition)
}

func shareConditions(list []metav1.Condition) []metav1.Condition {
	list = exact(list)
	for i := range list {
		c := &list[i]
		c.Type, c.Reason, c.Message = shared.share(c.Type), shared.share(c.Reason), shared.share(c.Message)
		c.Status = shareAs(shared, c.Status)
	}
	return list
}

// exact leaves off the room for more that a decoder made while it read the list. nil
// stays nil: a patch would tell the difference.
func exact[T any](list []T) []T {
	if len(list) == cap(list) {
		return list
	}
	return append(make([]T, 0, len(list)), list...)
}
