// Package protocol has the messages that workers and the engine exchange on
// the iii bus (contracts/iii-bus.md §2) and their coding as JSON text frames.
// It does no I/O.
package protocol

import (
	"encoding/json"
	"errors"
)

// Type is the value of a frame's "type" field.
type Type string

// The types of frames (contracts/iii-bus.md §2).
const (
	TypeWorkerRegistered          Type = "workerregistered"
	TypeRegisterFunction          Type = "registerfunction"
	TypeUnregisterFunction        Type = "unregisterfunction"
	TypeInvokeFunction            Type = "invokefunction"
	TypeInvocationResult          Type = "invocationresult"
	TypeRegisterTriggerType       Type = "registertriggertype"
	TypeRegisterTrigger           Type = "registertrigger"
	TypeTriggerRegistrationResult Type = "triggerregistrationresult"
	TypeUnregisterTrigger         Type = "unregistertrigger"
	TypeRegisterService           Type = "registerservice"
	TypeReattach                  Type = "reattach"
	TypeRegistrationRejected      Type = "registrationrejected"
	TypePing                      Type = "ping"
	TypePong                      Type = "pong"
	TypeError                     Type = "error"
)

// Message is one frame.
type Message interface{ MessageType() Type }

// WorkerRegistered is the engine's first frame on a connection (§2.1).
type WorkerRegistered struct {
	WorkerID string `json:"worker_id"`
	// ReattachToken is a secret that lets this worker's next connection evict
	// the present one (§4.3).
	ReattachToken string `json:"reattach_token,omitempty"`
}

// RegisterFunction publishes a function of the sending worker (§2.2).
type RegisterFunction struct {
	ID             string          `json:"id"`
	Description    string          `json:"description,omitempty"`
	RequestFormat  json.RawMessage `json:"request_format,omitempty"`
	ResponseFormat json.RawMessage `json:"response_format,omitempty"`
	Metadata       json.RawMessage `json:"metadata,omitempty"`
	// Invocation makes it a function that the engine calls by HTTP (§5.7).
	Invocation json.RawMessage `json:"invocation,omitempty"`
}

// UnregisterFunction takes a function of the sending worker back (§2.3).
type UnregisterFunction struct {
	ID string `json:"id"`
}

// InvokeFunction calls a function, in either direction (§2.4).
type InvokeFunction struct {
	// InvocationID is empty in a void call of a worker.
	InvocationID string          `json:"invocation_id,omitempty"`
	FunctionID   string          `json:"function_id"`
	Data         json.RawMessage `json:"data"`
	Traceparent  string          `json:"traceparent,omitempty"`
	Baggage      string          `json:"baggage,omitempty"`
	Action       *Action         `json:"action,omitempty"`
	Metadata     json.RawMessage `json:"metadata,omitempty"`
	// Namespace is nil when absent; a blank one is an error (§3.2).
	Namespace *string `json:"namespace,omitempty"`
}

// Action says what becomes of a call's result.
type Action struct {
	// Type is ActionVoid or ActionEnqueue.
	Type  string `json:"type"`
	Queue string `json:"queue,omitempty"`
}

// Kinds of actions.
const (
	ActionVoid    = "void"
	ActionEnqueue = "enqueue"
)

// InvocationResult answers a call (§2.5). With an Error the Result has no
// meaning.
type InvocationResult struct {
	InvocationID string          `json:"invocation_id"`
	FunctionID   string          `json:"function_id"`
	Result       json.RawMessage `json:"result,omitempty"`
	Error        *ErrorBody      `json:"error,omitempty"`
	Traceparent  string          `json:"traceparent,omitempty"`
	Baggage      string          `json:"baggage,omitempty"`
}

// ErrorBody is an error on the wire.
type ErrorBody struct {
	Code       string `json:"code"`
	Message    string `json:"message"`
	Stacktrace string `json:"stacktrace,omitempty"`
}

// RegisterTriggerType makes the sender the provider of a trigger type (§2.6).
type RegisterTriggerType struct {
	ID                   string          `json:"id"`
	Description          string          `json:"description"`
	TriggerRequestFormat json.RawMessage `json:"trigger_request_format,omitempty"`
	CallRequestFormat    json.RawMessage `json:"call_request_format,omitempty"`
	Namespace            *string         `json:"namespace,omitempty"`
}

// UnmarshalJSON also checks that there is a description: without one the real
// engine drops the frame (§2.6, §14.3 rule 5), and an empty one is one.
func (m *RegisterTriggerType) UnmarshalJSON(frame []byte) error {
	type fields RegisterTriggerType
	var present struct {
		Description *string `json:"description"`
	}
	if err := json.Unmarshal(frame, &present); err != nil {
		return err
	}
	if present.Description == nil {
		return errors.New("description is missing")
	}
	return json.Unmarshal(frame, (*fields)(m))
}

// RegisterTrigger binds a function to a trigger type: from a worker to the
// engine, and from the engine to the type's provider (§2.7).
type RegisterTrigger struct {
	ID          string          `json:"id"`
	TriggerType string          `json:"trigger_type"`
	FunctionID  string          `json:"function_id"`
	Config      json.RawMessage `json:"config"`
	Metadata    json.RawMessage `json:"metadata,omitempty"`
	// Namespace is that of the target function.
	Namespace *string `json:"namespace,omitempty"`
	// TriggerNamespace is that of the provider.
	TriggerNamespace *string `json:"trigger_namespace,omitempty"`
}

// TriggerRegistrationResult is a provider's answer; the engine passes on only
// failures (§2.8).
type TriggerRegistrationResult struct {
	ID          string     `json:"id"`
	TriggerType string     `json:"trigger_type"`
	FunctionID  string     `json:"function_id"`
	Error       *ErrorBody `json:"error,omitempty"`
}

// UnregisterTrigger takes a binding back (§2.9).
type UnregisterTrigger struct {
	ID          string `json:"id"`
	TriggerType string `json:"trigger_type,omitempty"`
}

// RegisterService is a legacy frame that the engine accepts and ignores (§2.10).
type RegisterService struct {
	ID string `json:"id"`
}

// Reattach is the first frame of a re-connection (§2.11).
type Reattach struct {
	PreviousWorkerID string `json:"previous_worker_id"`
	ReattachToken    string `json:"reattach_token,omitempty"`
}

// RegistrationRejected refuses a worker's name or a function's id (§2.12).
type RegistrationRejected struct {
	// Code is CodeWorkerConflict or CodeFunctionConflict; clients take any other
	// for fatal.
	Code       string `json:"code"`
	Namespace  string `json:"namespace"`
	WorkerName string `json:"worker_name,omitempty"`
	FunctionID string `json:"function_id,omitempty"`
	// OwnerWorkerID is empty when the id is reserved by the engine.
	OwnerWorkerID string `json:"owner_worker_id"`
}

// Ping asks for a Pong (§2.13).
type Ping struct{}

// Pong answers a Ping (§2.13).
type Pong struct{}

// Error is sent directly before the engine closes a connection that failed
// authentication (§2.14).
type Error struct {
	Error ErrorBody `json:"error"`
}

// String hides the token, which is a secret.
func (m *WorkerRegistered) String() string { return "workerregistered (redacted)" }

// String hides the token, which is a secret.
func (m *Reattach) String() string { return "reattach (redacted)" }

// MessageType implements Message.
func (*WorkerRegistered) MessageType() Type { return TypeWorkerRegistered }

// MessageType implements Message.
func (*RegisterFunction) MessageType() Type { return TypeRegisterFunction }

// MessageType implements Message.
func (*UnregisterFunction) MessageType() Type { return TypeUnregisterFunction }

// MessageType implements Message.
func (*InvokeFunction) MessageType() Type { return TypeInvokeFunction }

// MessageType implements Message.
func (*InvocationResult) MessageType() Type { return TypeInvocationResult }

// MessageType implements Message.
func (*RegisterTriggerType) MessageType() Type { return TypeRegisterTriggerType }

// MessageType implements Message.
func (*RegisterTrigger) MessageType() Type { return TypeRegisterTrigger }

// MessageType implements Message.
func (*TriggerRegistrationResult) MessageType() Type { return TypeTriggerRegistrationResult }

// MessageType implements Message.
func (*UnregisterTrigger) MessageType() Type { return TypeUnregisterTrigger }

// MessageType implements Message.
func (*RegisterService) MessageType() Type { return TypeRegisterService }

// MessageType implements Message.
func (*Reattach) MessageType() Type { return TypeReattach }

// MessageType implements Message.
func (*RegistrationRejected) MessageType() Type { return TypeRegistrationRejected }

// MessageType implements Message.
func (*Ping) MessageType() Type { return TypePing }

// MessageType implements Message.
func (*Pong) MessageType() Type { return TypePong }

// MessageType implements Message.
func (*Error) MessageType() Type { return TypeError }
