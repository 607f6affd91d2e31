package bus

import (
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// receive handles one frame of the engine on the reader's goroutine.
func (s *session) receive(msg protocol.Message) {
	switch m := msg.(type) {
	case *protocol.WorkerRegistered:
		s.welcome(m)
	case *protocol.InvocationResult:
		// An id nobody waits for belongs to a call that gave up (§5.1).
		s.pending.deliver(m)
	case *protocol.InvokeFunction:
		s.invoke(m)
	case *protocol.RegisterTrigger:
		s.bind(m)
	case *protocol.UnregisterTrigger:
		s.unbind(m)
	case *protocol.TriggerRegistrationResult:
		s.triggerAnswered(m)
	case *protocol.RegistrationRejected:
		s.reject(m)
	case *protocol.Error:
		s.refuse(m)
	case *protocol.Ping:
		s.post(&protocol.Pong{})
	}
}

func (s *session) welcome(m *protocol.WorkerRegistered) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.pair == ReattachPair{}
	s.pair = ReattachPair{WorkerID: m.WorkerID, Token: m.ReattachToken}
	if first {
		close(s.welcomed)
	}
}

func (s *session) triggerAnswered(m *protocol.TriggerRegistrationResult) {
	if m.Error == nil {
		return
	}
	err := remoteError(m.Error)
	s.client.log.Warn("Trigger rejected", "trigger", m.ID, "type", m.TriggerType, "code", err.Code)
	s.client.emit(Event{Kind: TriggerRejected, TriggerID: m.ID, FunctionID: m.FunctionID, Err: err})
}

// reject keeps the connection only when a single function was refused
// (contracts/iii-bus.md §2.12).
func (s *session) reject(m *protocol.RegistrationRejected) {
	err := &RejectedError{
		Code:          m.Code,
		Namespace:     m.Namespace,
		WorkerName:    m.WorkerName,
		FunctionID:    m.FunctionID,
		OwnerWorkerID: m.OwnerWorkerID,
	}
	event := Event{Kind: FunctionRejected, FunctionID: m.FunctionID, OwnerWorkerID: m.OwnerWorkerID, Err: err}
	if m.Code != protocol.CodeFunctionConflict {
		event.Kind = WorkerRejected
	}
	s.client.log.Warn("Registration rejected", "code", m.Code, "worker", m.WorkerName, "function", m.FunctionID)
	s.client.emit(event)
	if event.Kind == WorkerRejected {
		s.fail(err)
	}
}

// refuse ends a connection whose authentication failed. It is tried again,
// because the engine says the same while its own authenticator is away (§9.2).
func (s *session) refuse(m *protocol.Error) {
	err := remoteError(&m.Error)
	s.client.emit(Event{Kind: WorkerRejected, Err: err})
	s.fail(err)
}
