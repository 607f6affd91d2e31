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
// than the real engine (§14.3 rule 5). The message may share memory with the
// frame, which must not change afterwards.
func Decode(frame []byte) (Message, error) {
	if err := checkText(frame); err != nil {
		return nil, &DecodeError{Reason: err.Error()}
	}
	kind, err := typeOf(frame)
	if err != nil {
		return nil, &DecodeError{Reason: err.Error()}
	}
	construct, ok := constructors[kind]
	if !ok {
		return nil, &DecodeError{Type: kind, Reason: "unknown type"}
	}
	msg := construct()
	if err := decodeFields(frame, msg); err != nil {
		return nil, &DecodeError{Type: kind, Reason: err.Error()}
	}
	if err := normalize(msg); err != nil {
		return nil, err
	}
	return msg, nil
}

// decodeFields fills a message from a frame that is a valid JSON object.
func decodeFields(frame []byte, msg Message) error {
	hot, ok := msg.(hotMessage)
	if !ok {
		return json.Unmarshal(frame, msg)
	}
	err := eachField(frame, hot.setField)
	if err != nil {
		// The standard library also says which field it was.
		if worded := json.Unmarshal(frame, constructors[msg.MessageType()]()); worded != nil {
			return worded
		}
	}
	return err
}

// Encode writes one frame. Values of json.RawMessage must be valid JSON in UTF-8,
// else it is an error; HTML characters stay as they are.
func Encode(msg Message) ([]byte, error) {
	if !validRaws(msg) {
		return nil, fmt.Errorf("encoding a %s frame: a raw value is not JSON", msg.MessageType())
	}
	return EncodeText(msg)
}

// EncodeText is Encode for messages whose raw values an encoder made: it checks
// that they are UTF-8, as encoders let raw values within theirs be anything.
func EncodeText(msg Message) ([]byte, error) {
	frame, hot := appendMessage(make([]byte, 0, size(msg)), msg)
	if !hot {
		var err error
		if frame, err = encodeAny(msg); err != nil {
			return nil, fmt.Errorf("encoding a %s frame: %w", msg.MessageType(), err)
		}
	}
	if !utf8.Valid(frame) {
		return nil, fmt.Errorf("encoding a %s frame: a raw value is not UTF-8", msg.MessageType())
	}
	return frame, nil
}

// EncodeValid is Encode without the checks: for messages whose raw values came
// out of Decode or of an encoder.
func EncodeValid(msg Message) ([]byte, error) {
	if frame, hot := appendMessage(make([]byte, 0, size(msg)), msg); hot {
		return frame, nil
	}
	return Encode(msg)
}

// validRaws looks at each raw value of a hot message by itself: two that are
// broken might look whole side by side.
func validRaws(msg Message) bool {
	switch m := msg.(type) {
	case *InvokeFunction:
		return validRaw(m.Data) && validRaw(m.Metadata)
	case *InvocationResult:
		return validRaw(m.Result)
	}
	return true
}

func validRaw(value json.RawMessage) bool { return value == nil || json.Valid(value) }

func encodeAny(msg Message) ([]byte, error) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(msg); err != nil {
		return nil, err
	}
	rest := bytes.TrimSpace(body.Bytes())[1:]
	head := `{"type":"` + string(msg.MessageType()) + `"`
	if len(rest) > 1 {
		head += ","
	}
	return append([]byte(head), rest...), nil
}

// mustMarshal is for texts and structs of texts, which always can be.
func mustMarshal(value any) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(fmt.Sprintf("encoding %T: %v", value, err))
	}
	return bytes.TrimSpace(out.Bytes())
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
