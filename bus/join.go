package bus

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// protocolVersion is the engine version whose wire this client speaks; it is
// what listings of workers show.
const protocolVersion = "0.23.0"

var errUnwelcome = errors.New("the engine did not accept this worker in time")

// workerMetadata is the payload of engine::workers::register
// (contracts/iii-bus.md §3.1).
type workerMetadata struct {
	Runtime     string `json:"runtime"`
	Version     string `json:"version"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	OS          string `json:"os"`
	PID         int    `json:"pid"`
	Namespace   string `json:"namespace"`
}

// announce queues the first frames of a connection: reattach, metadata,
// registrations. Metadata goes before registrations because until it comes the
// engine holds them back (§4.1).
//
// Other clients send metadata as a void call. This one wants the answer: it is
// the only sign that our name was accepted, and without it a refused worker
// would seem connected for a moment.
func (s *session) announce() <-chan *protocol.InvocationResult {
	if pair := s.client.Reattach(); pair.WorkerID != "" {
		s.post(&protocol.Reattach{PreviousWorkerID: pair.WorkerID, ReattachToken: pair.Token})
	}
	id := uuid.NewString()
	answer := s.pending.add(id)
	s.post(&protocol.InvokeFunction{
		InvocationID: id,
		FunctionID:   protocol.FunctionWorkersRegister,
		Data:         s.client.metadata(),
		Namespace:    optional(protocol.DefaultNamespace),
	})
	s.client.registry.attach(s.outbox)
	return answer
}

func (c *Client) metadata() json.RawMessage {
	data, err := json.Marshal(workerMetadata{
		Runtime:     "go",
		Version:     protocolVersion,
		Name:        c.options.Name,
		Description: c.options.Description,
		OS:          runtime.GOOS + " " + runtime.GOARCH,
		PID:         os.Getpid(),
		Namespace:   c.options.Namespace,
	})
	if err != nil {
		panic(fmt.Sprintf("encoding strings and a number: %v", err))
	}
	return data
}

// join waits for the engine's welcome and its answer to our metadata, and then
// makes the session the one that calls use.
func (s *session) join(answer <-chan *protocol.InvocationResult) {
	limit := time.NewTimer(s.client.options.timers.handshake)
	defer limit.Stop()
	accepted, welcome := false, s.welcomed
	for !accepted || welcome != nil {
		select {
		case <-welcome:
			welcome = nil
		case result := <-answer:
			if accepted = s.accepts(result); !accepted {
				// The refusal itself follows; the timer is for an engine that sends none.
				answer = nil
			}
		case <-limit.C:
			s.fail(errUnwelcome)
			return
		case <-s.ctx.Done():
			return
		}
	}
	s.enter()
}

func (s *session) accepts(result *protocol.InvocationResult) bool {
	if result.Error != nil {
		s.fail(fmt.Errorf("announcing this worker: %w", remoteError(result.Error)))
		return false
	}
	var verdict struct {
		Success *bool `json:"success"`
	}
	// An answer of another shape, or none, is no refusal.
	if json.Unmarshal(result.Result, &verdict) != nil || verdict.Success == nil {
		return true
	}
	return *verdict.Success
}

func (s *session) enter() {
	s.mu.Lock()
	s.joined = true
	s.mu.Unlock()
	c := s.client
	c.update(func() {
		c.current, c.pair, c.rejected = s, s.identity(), nil
	})
	c.log.Info("Connected to the bus", "host", c.url.Host, "worker", c.options.Name)
	c.emit(Event{Kind: Connected})
}
