package engine

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/go-cmp/cmp"
)

// check compares the table with the model and returns the first difference.
func (w *world) check() string {
	r := w.engine.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	workers, names := map[string]string{}, map[string]string{}
	for _, m := range w.members {
		workers[m.id] = m.space
		if m.name != "" {
			names[m.space+"/"+m.name] = m.id
		}
	}
	gotWorkers, gotNames := map[string]string{}, map[string]string{}
	for id, c := range r.workers {
		gotWorkers[id] = c.namespace
	}
	for name, c := range r.names {
		gotNames[name.namespace+"/"+name.id] = c.id
	}
	return firstDifference(
		"workers", workers, gotWorkers, "names", names, gotNames,
		"functions", owners(w.functions), tableOwners(r.functions, func(f *function) *connection { return f.owner }),
		"types", owners(w.types), tableOwners(r.types, func(t *triggerType) *connection { return t.owner }),
		"triggers", w.wantTriggers(), gotTriggers(r), "namespaces by id", namespacesByID(r), namespacesOf(r.byID),
		"served triggers", w.wantServed(), w.gotServed(), "refusals", w.wantRefusals(), w.gotRefusals(),
	)
}

func firstDifference(triples ...any) string {
	for i := 0; i+2 < len(triples); i += 3 {
		if diff := cmp.Diff(triples[i+1], triples[i+2]); diff != "" {
			return fmt.Sprintf("%s (-model +table):\n%s", triples[i], diff)
		}
	}
	return ""
}

func owners(of map[key]*member) map[string]string {
	out := map[string]string{}
	for at, m := range of {
		out[at.namespace+"/"+at.id] = m.id
	}
	return out
}

// tableOwners leaves out what is the engine's own.
func tableOwners[T any](of map[key]T, owner func(T) *connection) map[string]string {
	out := map[string]string{}
	for at, entry := range of {
		if c := owner(entry); c != nil {
			out[at.namespace+"/"+at.id] = c.id
		}
	}
	return out
}

func (w *world) wantTriggers() map[string]string {
	out := map[string]string{}
	for id, b := range w.triggers {
		out[id] = b.owner.id + " parked"
		if p := w.provider(b); p != nil && !b.refused {
			out[id] = b.owner.id + " with " + p.id
		} else if b.kind == "subscribe" {
			out[id] = b.owner.id + " with the engine"
		}
	}
	return out
}

func gotTriggers(r *registry) map[string]string {
	out := map[string]string{}
	for id, b := range r.bindings {
		switch {
		case b.provider == nil:
			out[id] = b.owner.id + " parked"
		case b.provider.builtin != nil:
			out[id] = b.owner.id + " with the engine"
		default:
			out[id] = b.owner.id + " with " + b.provider.owner.id
		}
	}
	return out
}

func namespacesByID(r *registry) map[string][]string {
	out := map[string][]string{}
	for at := range r.functions {
		out[at.id] = append(out[at.id], at.namespace)
	}
	for _, all := range out {
		slices.Sort(all)
	}
	return out
}

func namespacesOf(byID map[string]map[string]bool) map[string][]string {
	out := map[string][]string{}
	for id, all := range byID {
		out[id] = slices.Sorted(maps.Keys(all))
	}
	return out
}

func (w *world) wantServed() map[string][]string {
	out := map[string][]string{}
	for _, m := range w.members {
		out[m.id] = slices.Sorted(maps.Keys(w.servedBy(m)))
	}
	return out
}

func (w *world) gotServed() map[string][]string {
	out := map[string][]string{}
	for _, m := range w.members {
		m.readFrames()
		out[m.id] = slices.Sorted(maps.Keys(m.triggers))
	}
	return out
}

func (w *world) wantRefusals() map[string]int {
	out := map[string]int{}
	for _, m := range w.members {
		out[m.id] = w.wantRejected[m]
	}
	return out
}

func (w *world) gotRefusals() map[string]int {
	out := map[string]int{}
	for _, m := range w.members {
		out[m.id] = m.rejected
	}
	return out
}
