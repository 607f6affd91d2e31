package wire

import "bytes"

// EncodeCall encodes a request without looking through its payload again, which
// must be valid JSON: it came in a frame of the bus that has been checked. An
// error is only about the other raw values.
func EncodeCall(request CallRequest) ([]byte, error) {
	payload := request.Payload
	request.Payload = nil
	head, err := Marshal(request)
	if err != nil || payload == nil {
		return head, err
	}
	// A request always has further fields, such as the timeout.
	const name = `{"payload":`
	whole := make([]byte, 0, len(name)+len(payload)+len(head))
	whole = append(append(whole, name...), payload...)
	return append(append(whole, ','), bytes.TrimPrefix(head, []byte("{"))...), nil
}
