package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

var constructors = map[Type]func() Message{
	TypeWorkerRegistered:          func() Message { return &WorkerRegistered{} },
	TypeRegisterFunction:          func() Message { return &RegisterFunction{} },
	TypeUnregisterFunction:        func() Message { return &UnregisterFunction{} },
	TypeInvokeFunction:            func() Message { return &InvokeFunction{} },
	TypeInvocationResult:          func() Message { return &InvocationResult{} },
	TypeRegisterTriggerType:       func() Message { return &RegisterTriggerType{} },
	TypeRegisterTrigger:           func() Message { return &RegisterTrigger{} },
	TypeTriggerRegistrationResult: func() Message { return &TriggerRegistrationResult{} },
	TypeUnregisterTrigger:         func() Message { return &UnregisterTrigger{} },
	TypeRegisterService:           func() Message { return &RegisterService{} },
	TypeReattach:                  func() Message { return &Reattach{} },
	TypeRegistrationRejected:      func() Message { return &RegistrationRejected{} },
	TypePing:                      func() Message { return &Ping{} },
	TypePong:                      func() Message { return &Pong{} },
	TypeError:                     func() Message { return &Error{} },
}

// DecodeError says why a frame is no message. Peers log it and drop the frame
// (contracts/iii-bus.md §1.2).
type DecodeError struct {
	// Type is the frame's type as far as it could be read.
	Type   Type
	Reason string
}

func (e *DecodeError) Error() string {
	if e.Type == "" {
		return "undecodable frame: " + e.Reason
	}
	return fmt.Sprintf("undecodable %s frame: %s", e.Type, e.Reason)
}

// Decode reads one frame. Unknown fields are ignored and an explicit null
// counts as absent. A missing data or config counts as null, which is kinder
// than the real engine (§14.3 rule 5).
func Decode(frame []byte) (Message, error) {
	// encoding/json lets bytes that are no text pass in raw values, and a peer
	// that they were forwarded to would close its connection.
	if !utf8.Valid(frame) {
		return nil, &DecodeError{Reason: "not UTF-8"}
	}
	var head struct {
		Type Type `json:"type"`
	}
	if err := json.Unmarshal(frame, &head); err != nil {
		return nil, &DecodeError{Reason: err.Error()}
	}
	construct, ok := constructors[head.Type]
	if !ok {
		return nil, &DecodeError{Type: head.Type, Reason: "unknown type"}
	}
	msg := construct()
	if err := json.Unmarshal(frame, msg); err != nil {
		return nil, &DecodeError{Type: head.Type, Reason: err.Error()}
	}
	if err := normalize(msg); err != nil {
		return nil, err
	}
	return msg, nil
}

// Encode writes one frame. Values of json.RawMessage must be valid JSON in UTF-8,
// else it is an error; HTML characters stay as they are.
func Encode(msg Message) ([]byte, error) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(msg); err != nil {
		return nil, fmt.Errorf("encoding a %s frame: %w", msg.MessageType(), err)
	}
	if !utf8.Valid(body.Bytes()) {
		return nil, fmt.Errorf("encoding a %s frame: a raw value is not UTF-8", msg.MessageType())
	}
	rest := bytes.TrimSpace(body.Bytes())[1:]
	head := `{"type":"` + string(msg.MessageType()) + `"`
	if len(rest) > 1 {
		head += ","
	}
	return append([]byte(head), rest...), nil
}

func normalize(msg Message) error {
	var missing string
	switch m := msg.(type) {
	case *WorkerRegistered:
		missing = firstEmpty("worker_id", m.WorkerID)
	case *RegisterFunction:
		missing = firstEmpty("id", m.ID)
		clearNull(&m.RequestFormat, &m.ResponseFormat, &m.Metadata, &m.Invocation)
	case *UnregisterFunction:
		missing = firstEmpty("id", m.ID)
	case *InvokeFunction:
		missing = firstEmpty("function_id", m.FunctionID)
		clearNull(&m.Metadata)
		setNull(&m.Data)
	case *InvocationResult:
		missing = firstEmpty("invocation_id", m.InvocationID)
		clearNull(&m.Result)
	case *RegisterTriggerType:
		missing = firstEmpty("id", m.ID)
		clearNull(&m.TriggerRequestFormat, &m.CallRequestFormat)
	case *RegisterTrigger:
		missing = firstEmpty("id", m.ID, "trigger_type", m.TriggerType, "function_id", m.FunctionID)
		clearNull(&m.Metadata)
		setNull(&m.Config)
	case *TriggerRegistrationResult:
		missing = firstEmpty("id", m.ID)
	case *UnregisterTrigger:
		missing = firstEmpty("id", m.ID)
	case *Reattach:
		missing = firstEmpty("previous_worker_id", m.PreviousWorkerID)
	case *RegistrationRejected:
		missing = firstEmpty("code", m.Code)
	}
	if missing != "" {
		return &DecodeError{Type: msg.MessageType(), Reason: missing + " is missing"}
	}
	return nil
}

// firstEmpty takes pairs of name and value and returns the first name whose
// value is empty.
func firstEmpty(pairs ...string) string {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			return pairs[i]
		}
	}
	return ""
}

func clearNull(values ...*json.RawMessage) {
	for _, v := range values {
		if string(*v) == "null" {
			*v = nil
		}
	}
}

func setNull(v *json.RawMessage) {
	if *v == nil {
		*v = json.RawMessage("null")
	}
}
