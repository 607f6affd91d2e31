package shim

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// lifetimes decide which of an object's events are told, and in which order: the
// beginning before the end, each once, and neither for an object that its
// caller never got. Events are emitted under the lock. The zero value is ready.
type lifetimes struct {
	mu      sync.Mutex
	objects map[types.UID]*lifetime
}

type lifetime struct {
	// told says that subscribers heard of the beginning, or that it lies before
	// this process.
	told bool
	// gone says that the object went before its beginning was told.
	gone bool
	// requested says that teardown asked for the end.
	requested bool
}

// expect notes an object whose beginning may be told later.
func (l *lifetimes) expect(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.get(uid)
}

// forget drops an object that came to nothing, unless its beginning was told.
func (l *lifetimes) forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if object := l.objects[uid]; object != nil && !object.told {
		delete(l.objects, uid)
	}
}

// adopt notes an object that was there before this process.
func (l *lifetimes) adopt(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.objects[uid] == nil {
		l.get(uid).told = true
	}
}

// begin emits the beginning, once. If the object has gone meanwhile, end follows
// with whether that was requested.
func (l *lifetimes) begin(uid types.UID, emit func(), end func(requested bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	object := l.get(uid)
	if object.told {
		return
	}
	object.told = true
	emit()
	if object.gone {
		delete(l.objects, uid)
		end(object.requested)
	}
}

// request notes that teardown asks for the end.
func (l *lifetimes) request(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if object := l.objects[uid]; object != nil {
		object.requested = true
	}
}

// end emits the end of an object that subscribers know.
func (l *lifetimes) end(uid types.UID, emit func(requested bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	object := l.objects[uid]
	switch {
	case object == nil:
	case object.told:
		delete(l.objects, uid)
		emit(object.requested)
	default:
		object.gone = true
	}
}

// get needs the lock.
func (l *lifetimes) get(uid types.UID) *lifetime {
	if l.objects == nil {
		l.objects = map[types.UID]*lifetime{}
	}
	if l.objects[uid] == nil {
		l.objects[uid] = &lifetime{}
	}
	return l.objects[uid]
}
