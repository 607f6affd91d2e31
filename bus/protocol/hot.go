package protocol

import "encoding/json"

// hotMessages are the types that decodeHot takes apart itself.
type hotMessage interface {
	Message
	// setField stores one field; unknown names are ignored.
	setField(name, value []byte) error
}

func (m *InvokeFunction) setField(name, value []byte) error {
	switch string(name) {
	case "invocation_id":
		return readText(&m.InvocationID, value)
	case "function_id":
		return readText(&m.FunctionID, value)
	case "data":
		m.Data = value
	case "traceparent":
		return readText(&m.Traceparent, value)
	case "baggage":
		return readText(&m.Baggage, value)
	case "action":
		return json.Unmarshal(value, &m.Action)
	case "metadata":
		m.Metadata = value
	case "namespace":
		return json.Unmarshal(value, &m.Namespace)
	}
	return nil
}

func (m *InvocationResult) setField(name, value []byte) error {
	switch string(name) {
	case "invocation_id":
		return readText(&m.InvocationID, value)
	case "function_id":
		return readText(&m.FunctionID, value)
	case "result":
		m.Result = value
	case "error":
		return json.Unmarshal(value, &m.Error)
	case "traceparent":
		return readText(&m.Traceparent, value)
	case "baggage":
		return readText(&m.Baggage, value)
	}
	return nil
}

// typeOf checks that a frame is valid JSON and returns its type, "" if it has
// none.
func typeOf(frame []byte) (Type, error) {
	var head struct {
		Type Type `json:"type"`
	}
	if at := skipSpace(frame, 0); at == len(frame) || frame[at] != '{' || !json.Valid(frame) {
		// No object: the standard library says what else it is.
		return head.Type, json.Unmarshal(frame, &head)
	}
	var kind string
	err := eachField(frame, func(name, value []byte) error {
		if string(name) == "type" {
			return readText(&kind, value)
		}
		return nil
	})
	return Type(kind), err
}

// appendMessage writes a hot message, and false for others. Raw values must be
// valid JSON.
func appendMessage(out []byte, msg Message) ([]byte, bool) {
	switch m := msg.(type) {
	case *InvokeFunction:
		return m.append(out), true
	case *InvocationResult:
		return m.append(out), true
	}
	return out, false
}

func (m *InvokeFunction) append(out []byte) []byte {
	out = append(out, `{"type":"invokefunction"`...)
	out = appendText(out, "invocation_id", m.InvocationID)
	out = appendAlways(out, "function_id", m.FunctionID)
	if m.Data == nil {
		out = append(out, `,"data":null`...)
	}
	out = appendRaw(out, "data", m.Data)
	out = appendText(out, "traceparent", m.Traceparent)
	out = appendText(out, "baggage", m.Baggage)
	if m.Action != nil {
		out = appendRaw(out, "action", mustMarshal(m.Action))
	}
	out = appendRaw(out, "metadata", m.Metadata)
	if m.Namespace != nil {
		out = appendRaw(out, "namespace", mustMarshal(*m.Namespace))
	}
	return append(out, '}')
}

func (m *InvocationResult) append(out []byte) []byte {
	out = append(out, `{"type":"invocationresult"`...)
	out = appendAlways(out, "invocation_id", m.InvocationID)
	out = appendAlways(out, "function_id", m.FunctionID)
	out = appendRaw(out, "result", m.Result)
	if m.Error != nil {
		out = appendRaw(out, "error", mustMarshal(m.Error))
	}
	out = appendText(out, "traceparent", m.Traceparent)
	out = appendText(out, "baggage", m.Baggage)
	return append(out, '}')
}

// size is about what a hot message needs.
func size(msg Message) int {
	const overhead = 256
	switch m := msg.(type) {
	case *InvokeFunction:
		return len(m.Data) + len(m.Metadata) + len(m.FunctionID) + len(m.Traceparent) + len(m.Baggage) + overhead
	case *InvocationResult:
		return len(m.Result) + len(m.FunctionID) + len(m.Traceparent) + len(m.Baggage) + overhead
	}
	return overhead
}

// appendText leaves an empty field out.
func appendText(out []byte, name, value string) []byte {
	if value == "" {
		return out
	}
	return appendAlways(out, name, value)
}

func appendAlways(out []byte, name, value string) []byte {
	out = append(append(append(out, `,"`...), name...), `":`...)
	if plain(value) {
		return append(append(append(out, '"'), value...), '"')
	}
	return append(out, mustMarshal(value)...)
}

// plain text needs no escapes.
func plain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// appendRaw leaves a nil field out.
func appendRaw(out []byte, name string, value json.RawMessage) []byte {
	if value == nil {
		return out
	}
	return append(append(append(append(out, `,"`...), name...), `":`...), value...)
}
