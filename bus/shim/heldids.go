package shim

import "sync"

// heldIDs are runtime ids by the name of their object, in memory only: nothing
// that is stored leads back to an id. The zero value is ready.
type heldIDs struct {
	mu     sync.Mutex
	byName map[string]heldID
}

type heldID struct {
	id string
	// maker is the worker that made the runtime; empty if the id became known by
	// its use.
	maker string
}

func (h *heldIDs) put(name string, held heldID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byName == nil {
		h.byName = map[string]heldID{}
	}
	if _, known := h.byName[name]; !known {
		h.byName[name] = held
	}
}

func (h *heldIDs) drop(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.byName, name)
}

// shownTo is the id of a runtime for a caller that may know it, else empty.
func (h *heldIDs) shownTo(caller, name string, open bool) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.byName[name]
	if open || caller != "" && caller == held.maker {
		return held.id
	}
	return ""
}
