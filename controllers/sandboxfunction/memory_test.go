package sandboxfunction

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func TestMemory_namesakes(t *testing.T) {
	m := newMemory()
	known := map[types.UID]*functionMemory{}
	for _, uid := range []types.UID{"first", "second", "third"} {
		known[uid] = m.get(functionOf(string(uid), time.Now(), ""))
	}
	key := known["first"].key
	uids := func(present types.UID) []types.UID {
		var uids []types.UID
		for _, other := range m.others(key, present) {
			if known[other.uid] != other || !m.has(key, other.uid) {
				t.Errorf("%s is known otherwise", other.uid)
			}
			uids = append(uids, other.uid)
		}
		return uids
	}
	if diff := cmp.Diff([]types.UID{"second", "first"}, uids("third")); diff != "" {
		t.Errorf("before the third (-want +got):\n%s", diff)
	}
	m.forget(known["second"])
	m.forget(known["second"])
	if diff := cmp.Diff([]types.UID{"first"}, uids("third")); diff != "" || m.has(key, "second") {
		t.Errorf("what was forgotten is there still (-want +got):\n%s", diff)
	}
	m.forget(known["third"])
	if diff := cmp.Diff([]types.UID{"first"}, uids("")); diff != "" {
		t.Errorf("the latest took others along (-want +got):\n%s", diff)
	}
	m.forget(known["first"])
	if len(m.functions) != 0 {
		t.Error("the memory is not empty")
	}
}

// crowd is the memory of many functions of one namespace, which share prefixes.
func crowd(functions, prefixes int) (*memory, []*functionMemory) {
	m, all := newMemory(), make([]*functionMemory, functions)
	for i := range all {
		fn := functionOf(fmt.Sprint("uid-", i), time.Time{}, "")
		fn.Namespace, fn.Name = "apps", fmt.Sprint("f-", i)
		all[i] = m.get(fn)
		prefix := fmt.Sprint("p-", i%prefixes)
		m.takePrefix(prefix, all[i])
		m.take(fmt.Sprint(prefix, "::f-", i), all[i])
	}
	return m, all
}

// leaves does to the memory what the deletion of a function does.
func leaves(m *memory, known *functionMemory) (freed bool) {
	m.letGo(known)
	m.forget(known)
	_, freed = m.leavePrefix(known)
	return freed
}

// TestMemory_massDeletion deletes many functions in no order: each prefix is freed
// once, by its last function, and nothing is left. Were each to look at all the
// others, this number would take minutes.
func TestMemory_massDeletion(t *testing.T) {
	const functions, prefixes = 100_000, 1000
	m, all := crowd(functions, prefixes)
	order := rand.New(rand.NewPCG(1, 2)).Perm(functions)
	left := map[int]int{}
	for i := range all {
		left[i%prefixes]++
	}
	for _, i := range order {
		left[i%prefixes]--
		if freed := leaves(m, all[i]); freed != (left[i%prefixes] == 0) {
			t.Fatalf("with %d functions left the prefix was freed: %t", left[i%prefixes], freed)
		}
	}
	if len(m.functions)+len(m.holders)+len(m.prefixes) != 0 {
		t.Errorf("left are %d functions, %d holders and %d prefixes", len(m.functions), len(m.holders), len(m.prefixes))
	}
}

// BenchmarkMemory_deletion shows what one deletion among many costs: the same,
// however many there are.
func BenchmarkMemory_deletion(b *testing.B) {
	for _, functions := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprint(functions), func(b *testing.B) {
			m, all := crowd(functions, 100)
			for i := 0; b.Loop(); i++ {
				known := all[i%functions]
				prefix, id := known.prefix, known.holds
				leaves(m, known)
				m.functions[known.key] = known
				m.takePrefix(prefix, known)
				m.take(id, known)
			}
		})
	}
}
