package shim

import (
	"encoding/json"
	"log/slog"
	"sync"

	"k8s.io/utils/clock"

	"github.com/sandbox-operator/sandbox-operator/bus"
)

// eventKind is what happened (contracts/code-runner.md §15). The last two are
// additions.
type eventKind string

const (
	eventRuntimeCreated       eventKind = "runtime_created"
	eventRunSettled           eventKind = "run_settled"
	eventFunctionRegistered   eventKind = "function_registered"
	eventTeardown             eventKind = "teardown"
	eventFleet                eventKind = "fleet"
	eventRunFailed            eventKind = "run_failed"
	eventFunctionUnregistered eventKind = "function_unregistered"
)

// Outcomes of events.
const (
	outcomeSuccess  = "success"
	outcomeFailure  = "failure"
	outcomeNew      = "new"
	outcomeReplaced = "replaced"
	outcomeTornDown = "torn_down"
	// outcomeGone is for what went otherwise: idle time, a lost sandbox, kubectl.
	outcomeGone = "gone"
)

// event is what subscribers get. Absent fields are not sent, and never code,
// sources or output. RuntimeID and SandboxID are for open capabilities only.
type event struct {
	Kind eventKind `json:"kind"`
	// Sequence grows by one with each event, so that a subscriber sees a gap.
	Sequence uint64 `json:"sequence"`
	TimeMS   int64  `json:"time_ms"`
	// Reference names a runtime without giving it away.
	Reference  string `json:"reference,omitempty"`
	RuntimeID  string `json:"runtime_id,omitempty"`
	SandboxID  string `json:"sandbox_id,omitempty"`
	Language   string `json:"lang,omitempty"`
	FunctionID string `json:"function_id,omitempty"`
	Outcome    string `json:"outcome,omitempty"`
	*fleetEvent
}

const (
	// maxSubscribers bounds the tasks of the hub.
	maxSubscribers = 256
	// maxWaiting bounds the events that wait for one subscriber; further ones are
	// lost to it.
	maxWaiting = 256
)

// hub hands events to subscribers. Each has a queue and a task of its own, so
// that none holds up another or a caller. Nothing is repeated.
type hub struct {
	bus    Bus
	clock  clock.PassiveClock
	log    *slog.Logger
	active sync.WaitGroup

	mu          sync.Mutex
	sequence    uint64
	closed      bool
	subscribers map[string]*subscriber
}

func newHub(b Bus, c clock.PassiveClock, log *slog.Logger) *hub {
	return &hub{bus: b, clock: c, log: log, subscribers: map[string]*subscriber{}}
}

// emit queues an event for everybody; without subscribers it does nothing.
// Events come in the order of emit.
func (h *hub) emit(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.subscribers) == 0 {
		return
	}
	h.sequence++
	e.Sequence, e.TimeMS = h.sequence, h.clock.Now().UnixMilli()
	data, err := encode(e)
	if err != nil {
		h.log.Error("Encoding an event", "kind", e.Kind)
		return
	}
	for _, s := range h.subscribers {
		h.offer(s, data)
	}
}

func (h *hub) offer(s *subscriber, data json.RawMessage) {
	select {
	case s.queue <- data:
	default:
		h.log.Debug("An event is lost: the subscriber does not keep up", "function", s.binding.FunctionID)
	}
}

func (h *hub) hasSubscribers() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subscribers) > 0
}

// subscribe takes a binding on; the same id again replaces the earlier one.
func (h *hub) subscribe(b bus.Binding) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.subscribers) >= maxSubscribers {
		return errNoSubscriber
	}
	h.end(b.ID)
	s := newSubscriber(b)
	h.subscribers[b.ID] = s
	h.active.Go(func() { s.deliver(h.bus, h.log) })
	return nil
}

func (h *hub) unsubscribe(b bus.Binding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end(b.ID)
}

// end needs the lock.
func (h *hub) end(id string) {
	if s := h.subscribers[id]; s != nil {
		s.stop()
		delete(h.subscribers, id)
	}
}

// close ends all deliveries and waits for that.
func (h *hub) close() {
	h.mu.Lock()
	h.closed = true
	for id := range h.subscribers {
		h.end(id)
	}
	h.mu.Unlock()
	h.active.Wait()
}
