package engine

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// validStatus keeps a function from answering with what HTTP cannot send as a
// final status.
func validStatus(code int) int {
	if code < 200 || code > 599 {
		return http.StatusInternalServerError
	}
	return code
}

// writeReturned writes the return form: status 200, no headers and {} where
// nothing else is said.
func writeReturned(w http.ResponseWriter, result json.RawMessage) {
	var answer struct {
		StatusCode *int            `json:"status_code"`
		Headers    json.RawMessage `json:"headers"`
		Body       json.RawMessage `json:"body"`
	}
	if json.Unmarshal(result, &answer) != nil {
		answer.StatusCode = nil
	}
	status := http.StatusOK
	if answer.StatusCode != nil {
		status = validStatus(*answer.StatusCode)
	}
	if answer.Body == nil {
		answer.Body = json.RawMessage("{}")
	}
	setHeaders(w.Header(), answer.Headers)
	body := returnedBody(w.Header(), answer.Body)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// returnedBody is raw for a string whose content type the function has set,
// and else JSON.
func returnedBody(header http.Header, body json.RawMessage) []byte {
	var text string
	if header.Get("Content-Type") == "" {
		header.Set("Content-Type", "application/json")
	} else if json.Unmarshal(body, &text) == nil {
		return []byte(text)
	}
	return body
}

// setHeaders takes an object or a list of "Name: value". Names that frame the
// message are the server's.
func setHeaders(header http.Header, given json.RawMessage) {
	var object map[string]any
	if json.Unmarshal(given, &object) == nil {
		for name, value := range object {
			setHeader(header, name, headerText(value))
		}
		return
	}
	var list []string
	if json.Unmarshal(given, &list) == nil {
		for _, line := range list {
			name, value, _ := strings.Cut(line, ":")
			setHeader(header, name, strings.TrimSpace(value))
		}
	}
}

func setHeader(header http.Header, name, value string) {
	switch http.CanonicalHeaderKey(name) {
	case "", "Content-Length", "Transfer-Encoding", "Connection":
	default:
		header.Set(name, value)
	}
}

func headerText(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	return string(mustJSON(value))
}

func writeHTTPError(w http.ResponseWriter, status int, code, message string) {
	writeJSON(w, status, map[string]any{"error": protocol.ErrorBody{Code: code, Message: message}})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(mustJSON(body))
}
