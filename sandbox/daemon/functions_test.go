package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/daemontest"
)

// object is a request or an answer as a caller without our types sees it.
type object = map[string]any

// call calls a function and wants an answer.
func call(t *testing.T, s *daemontest.Stack, function string, request object) object {
	t.Helper()
	answer, err := tryCall(s, function, request)
	if err != nil {
		t.Fatalf("%s: %v", function, err)
	}
	return answer
}

func tryCall(s *daemontest.Stack, function string, request any) (object, error) {
	return bus.Invoke[object](context.Background(), s.Client, function, request)
}

// refusal is the JSON text inside an error (contracts/iii-sandbox.md §2.1).
type refusal struct {
	Code, Type, Message string
	Retryable           bool
	Fix                 object
	FixNote             *string `json:"fix_note"`
}

// refuse calls a function and wants an S-code.
func refuse(t *testing.T, s *daemontest.Stack, function string, request object, code string) refusal {
	t.Helper()
	_, err := tryCall(s, function, request)
	var remote *bus.RemoteError
	if !errors.As(err, &remote) {
		t.Fatalf("%s: error is %v, want %s", function, err, code)
	}
	text, whole := strings.CutPrefix(remote.Message, "handler error: ")
	var got refusal
	if err := json.Unmarshal([]byte(text), &got); err != nil || !whole || remote.Code != "invocation_failed" {
		t.Fatalf("%s: error %s %q does not have the contract's form: %v", function, remote.Code, remote.Message, err)
	}
	if got.Code != code {
		t.Fatalf("%s: refused with %+v, want %s", function, got, code)
	}
	return got
}

// create boots a sandbox of the node image, with more fields if given.
func create(t *testing.T, s *daemontest.Stack, more object) string {
	t.Helper()
	request := object{"image": "node"}
	for name, value := range more {
		request[name] = value
	}
	answer := call(t, s, "sandbox::create", request)
	return answer["sandbox_id"].(string)
}

// rows is the list by sandbox id.
func rows(t *testing.T, s *daemontest.Stack) map[string]object {
	t.Helper()
	found := map[string]object{}
	for _, row := range call(t, s, "sandbox::list", object{})["sandboxes"].([]any) {
		found[row.(object)["sandbox_id"].(string)] = row.(object)
	}
	return found
}

func start(t *testing.T, b *daemontest.Backend) *daemontest.Stack {
	t.Helper()
	return daemontest.Start(t, daemontest.Options{Backend: b, Config: daemontest.Config()})
}

const noSandbox = "3f0c0d4e-0000-4000-8000-000000000000"
