package bus

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// registry has everything that is registered, with its frame ready for the
// next connection. One lock covers the maps and the open connection's queue, so
// that a registration is neither lost nor doubled by a connection that opens
// meanwhile.
type registry struct {
	mu    sync.Mutex
	sink  *outbox
	types map[string]entry[TriggerType]
	// functions have no more than their handlers: the frames say all else, and workers
	// register thousands.
	functions map[string]entry[Handler]
	triggers  map[string]entry[Trigger]
	// added counts entries, to replay them in the order in which they came.
	added uint64
}

type entry[T any] struct {
	value T
	frame []byte
	place uint64
}

func newRegistry() *registry {
	return &registry{
		types:     map[string]entry[TriggerType]{},
		functions: map[string]entry[Handler]{},
		triggers:  map[string]entry[Trigger]{},
	}
}

// attach replays all registrations into a new connection's queue, in the order
// of contracts/iii-bus.md §4.1, and sends later ones there.
func (r *registry) attach(sink *outbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sink = sink
	frames := slices.Concat(inOrder(r.types), inOrder(r.functions), inOrder(r.triggers))
	for _, frame := range frames {
		sink.push(frame)
	}
}

func (r *registry) detach() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sink = nil
}

// withdraw tells the engine that no function of ours takes further calls, and
// detaches. It forgets nothing.
func (r *registry) withdraw() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(r.functions)) {
		r.tell(mustEncode(&protocol.UnregisterFunction{ID: id}))
	}
	r.sink = nil
}

// tell needs the lock.
func (r *registry) tell(frame []byte) {
	if r.sink != nil {
		r.sink.push(frame)
	}
}

func put[T any](r *registry, entries map[string]entry[T], id string, value T, frame []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	place := entries[id].place
	if place == 0 {
		r.added++
		place = r.added
	}
	entries[id] = entry[T]{value: value, frame: frame, place: place}
	r.tell(frame)
}

func lookup[T any](r *registry, entries map[string]entry[T], id string) (T, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := entries[id]
	return found.value, ok
}

// remove forgets an entry and sends the frame that says so.
func remove[T any](r *registry, entries map[string]entry[T], id string, farewell func(T) protocol.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := entries[id]
	if !ok {
		return
	}
	delete(entries, id)
	r.tell(mustEncode(farewell(found.value)))
}

func inOrder[T any](entries map[string]entry[T]) [][]byte {
	ordered := slices.SortedFunc(maps.Values(entries), func(a, b entry[T]) int { return cmp.Compare(a.place, b.place) })
	frames := make([][]byte, 0, len(ordered))
	for _, e := range ordered {
		frames = append(frames, e.frame)
	}
	return frames
}

// mustEncode is for frames of plain strings that were encoded before as part of
// a registration, so that they cannot fail.
func mustEncode(msg protocol.Message) []byte {
	frame, err := protocol.Encode(msg)
	if err != nil {
		panic(fmt.Sprintf("encoding a frame of strings: %v", err))
	}
	return frame
}
