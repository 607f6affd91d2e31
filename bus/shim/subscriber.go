package shim

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// deliveryTimeout bounds the delivery of one event (contracts/code-runner.md §8).
const deliveryTimeout = 10 * time.Second

// errNoSubscriber refuses a binding.
var errNoSubscriber = &bus.RemoteError{
	Code:    protocol.CodeTriggerRegistrationFailed,
	Message: "this worker takes no further subscriber of its events",
}

// eventType is the trigger type that subscribers bind their functions to.
func (s *Shim) eventType() bus.TriggerType {
	return bus.TriggerType{
		ID: s.WorkerName + separator + "event",
		Description: "Fires when a runtime is made or goes, a run ends, a function comes or goes, " +
			"and when the daemon's list of sandboxes changes. Takes no config.",
		CallFormat: schemaOf("event"),
		Register:   func(_ context.Context, b bus.Binding) error { return s.events.subscribe(b) },
		Unregister: s.events.unsubscribe,
	}
}

// subscriber is one binding with its queue.
type subscriber struct {
	binding bus.Binding
	queue   chan json.RawMessage
	ctx     context.Context //nolint:containedctx // it is the life of the task, not of a call
	stop    context.CancelFunc
}

func newSubscriber(b bus.Binding) *subscriber {
	ctx, stop := context.WithCancel(context.Background())
	return &subscriber{binding: b, queue: make(chan json.RawMessage, maxWaiting), ctx: ctx, stop: stop}
}

// deliver sends events one after another until stop. Nothing comes after that.
func (s *subscriber) deliver(b Bus, log *slog.Logger) {
	for {
		select {
		case <-s.ctx.Done():
			return
		case data := <-s.queue:
			if s.ctx.Err() == nil {
				s.send(b, log, data)
			}
		}
	}
}

// send fires and forgets (contracts/iii-bus.md §6.1).
func (s *subscriber) send(b Bus, log *slog.Logger, data json.RawMessage) {
	ctx, cancel := context.WithTimeout(s.ctx, deliveryTimeout)
	defer cancel()
	err := b.Void(ctx, bus.Call{
		FunctionID: s.binding.FunctionID, Namespace: s.binding.Namespace, Data: data, Metadata: s.binding.Metadata,
	})
	if err != nil {
		log.Debug("An event was not delivered", "function", s.binding.FunctionID)
	}
}
