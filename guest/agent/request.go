package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

const requestFileFlag = "--request-file"

func handle[T any](serve func(folder, T) wire.Reply) func(folder, []byte) answered {
	return handleWith(func(home folder, request T) answered { return answered{reply: serve(home, request)} })
}

// handleWith decodes a subcommand's request. Unknown fields are ignored, so that an
// operator may be newer than a guest's agent.
func handleWith[T any](serve func(folder, T) answered) func(folder, []byte) answered {
	return func(home folder, body []byte) answered {
		var request T
		if len(body) > 0 {
			if err := json.Unmarshal(body, &request); err != nil {
				return answered{reply: failed(wire.Failf(wire.BadRequest, "request: %s", describeJSON(err)))}
			}
		}
		return serve(home, request)
	}
}

// describeJSON names the field or place of a JSON error, never its content.
func describeJSON(err error) string {
	var typeError *json.UnmarshalTypeError
	var syntaxError *json.SyntaxError
	switch {
	case errors.As(err, &typeError):
		return fmt.Sprintf("field %q has the wrong type", typeError.Field)
	case errors.As(err, &syntaxError):
		return fmt.Sprintf("malformed JSON at byte %d", syntaxError.Offset)
	default:
		return "malformed"
	}
}

// readRequest returns the subcommand and its request's bytes.
func readRequest(args []string, home folder) (string, []byte, *wire.Failure) {
	switch {
	case len(args) == 1 && args[0] == wire.CommandVersion:
		return args[0], nil, nil
	case len(args) == 1:
		body, err := readAll(os.Stdin, wire.MaxStdinRequestBytes)
		return args[0], body, asBadRequest(err)
	case len(args) == 3 && args[1] == requestFileFlag:
		body, err := readRequestFile(args[2], home)
		return args[0], body, asBadRequest(err)
	default:
		return "", nil, wire.Failf(wire.BadRequest, "usage: agent SUBCOMMAND [%s PATH]", requestFileFlag)
	}
}

// readRequestFile also removes the file if it lies in the private folder, where
// only requests for this agent are put.
func readRequestFile(path string, home folder) ([]byte, error) {
	if filepath.Dir(path) == home.requests() {
		defer os.Remove(path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readAll(file, wire.MaxRequestBytes)
}

func readAll(source io.Reader, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(source, limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(body)) > limit:
		return nil, fmt.Errorf("larger than %d bytes", limit)
	case len(body) == 0:
		return nil, errors.New("empty")
	}
	return body, nil
}

func asBadRequest(err error) *wire.Failure {
	if err == nil {
		return nil
	}
	return wire.Failf(wire.BadRequest, "reading the request: %v", err)
}
