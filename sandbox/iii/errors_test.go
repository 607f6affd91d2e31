package iii

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

const id = "3f0c0d4e-1111-4222-8333-444455556666"

// said is an error of the daemon as it arrives.
func said(code, message string) error {
	return &bus.RemoteError{
		Code:    "invocation_failed",
		Message: fmt.Sprintf(`handler error: {"fix":null,"retryable":true,"code":%q,"type":"t","fix_note":null,"docs_url":"u","message":%q}`, code, message),
	}
}

func TestTyped(t *testing.T) {
	lost := &bus.ConnectionLostError{FunctionID: "f"}
	for name, tc := range map[string]struct {
		err  error
		kind effect
		want error
	}{
		"no error":                   {nil, changes, nil},
		"S001 is final":              {said("S001", "invalid request: x"), changes, sandbox.NewRejectedError("S001", "invalid request: x")},
		"S002 is gone":               {said("S002", "sandbox not found: "+id), changes, sandbox.NewNotFoundError()},
		"S003 is busy":               {said("S003", "sandbox "+id+" is at its cap"), changes, sandbox.NewBusyError()},
		"S004 is gone":               {said("S004", "sandbox already stopped: "+id), changes, sandbox.NewNotFoundError()},
		"S100 is final":              {said("S100", "image 'x' not in catalog"), changes, sandbox.NewRejectedError("S100", "image 'x' not in catalog")},
		"S101 is final":              {said("S101", "rootfs"), changes, sandbox.NewRejectedError("S101", "rootfs")},
		"S102 may pass":              {said("S102", "pull reset"), changes, sandbox.NewTransientError("S102", "pull reset")},
		"S200 is a timeout":          {said("S200", "exec timed out after 1500 ms"), changes, sandbox.NewTimeoutError(1500 * time.Millisecond)},
		"S200 of unknown words":      {said("S200", "late"), changes, sandbox.NewTimeoutError(0)},
		"S211 is of a file":          {said("S211", "file not found: /a"), changes, sandbox.NewFileError("", "S211: file not found: /a")},
		"S219 is of a file":          {said("S219", "fs operation unsupported"), changes, sandbox.NewFileError("", "S219: fs operation unsupported")},
		"S218 may pass":              {said("S218", "stalled"), changes, sandbox.NewTransientError("S218", "stalled")},
		"S300 may pass":              {said("S300", "VM boot failed: x"), changes, sandbox.NewTransientError("S300", "VM boot failed: x")},
		"S400 is capacity":           {said("S400", "resource limit exceeded: x"), changes, sandbox.NewCapacityError("resource limit exceeded: x")},
		"an unknown retryable code":  {said("S999", "new"), changes, sandbox.NewTransientError("S999", "new")},
		"an undecodable request":     {&bus.RemoteError{Code: "invocation_failed", Message: "serialization error: missing field `image`"}, changes, sandbox.NewRejectedError("", "serialization error: missing field `image`")},
		"an older daemon's fields":   {&bus.RemoteError{Code: "invocation_failed", Message: `handler error: {"type":"t","code":"S400","message":"m","docs_url":"u","retryable":false}`}, changes, sandbox.NewCapacityError("m")},
		"an outer object":            {&bus.RemoteError{Code: "invocation_failed", Message: `{"error":{"code":"S400","message":"m"}}`}, changes, sandbox.NewCapacityError("m")},
		"a client's prefix":          {&bus.RemoteError{Code: "invocation_failed", Message: `invocation_failed: handler error: {"code":"S400","message":"m"} (x)`}, changes, sandbox.NewCapacityError("m")},
		"braces that are no JSON":    {&bus.RemoteError{Code: "invocation_failed", Message: `oops {x}`}, changes, sandbox.NewRejectedError("", "oops {x}")},
		"no daemon on the bus":       {&bus.RemoteError{Code: "function_not_found", Message: "no"}, changes, sandbox.NewUnavailableError(errors.New("no sandbox daemon serves this on the bus"))},
		"no connection":              {fmt.Errorf("calling f: %w", bus.ErrNotConnected), changes, sandbox.NewUnavailableError(bus.ErrNotConnected)},
		"a daemon that left":         {&bus.RemoteError{Code: "invocation_stopped"}, changes, sandbox.NewUnknownOutcomeError(errors.New("the sandbox daemon left the bus"))},
		"a lost answer of a change":  {lost, changes, sandbox.NewUnknownOutcomeError(lost)},
		"a lost answer of a reading": {lost, reads, sandbox.NewUnavailableError(lost)},
		"a late answer of a change":  {&bus.TimeoutError{}, changes, sandbox.NewUnknownOutcomeError(&bus.TimeoutError{})},
		"a caller that left":         {context.Canceled, changes, sandbox.NewUnknownOutcomeError(context.Canceled)},
		"a request that is too big":  {&bus.TooLargeError{Size: 2, Limit: 1}, changes, sandbox.NewRejectedError("", (&bus.TooLargeError{Size: 2, Limit: 1}).Error())},
		"a call the bus forbids":     {&bus.RemoteError{Code: "FORBIDDEN", Message: "m"}, changes, sandbox.NewRejectedError("FORBIDDEN", "the bus forbids this call")},
	} {
		t.Run(name, func(t *testing.T) {
			got := typed(tc.err, tc.kind)
			if diff := cmp.Diff(tc.want, got, cmp.Comparer(sameError)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if got != nil && strings.Contains(got.Error(), id) {
				t.Errorf("the error gives the sandbox id away: %v", got)
			}
		})
	}
}

// sameError compares errors by type and text.
func sameError(a, b error) bool {
	return fmt.Sprintf("%T %v", a, a) == fmt.Sprintf("%T %v", b, b)
}

func TestClean(t *testing.T) {
	long := strings.Repeat("ñ", maxReason)
	for name, tc := range map[string]struct{ in, want string }{
		"a plain text stays":          {"file not found: /a", "file not found: /a"},
		"a sandbox id goes":           {"sandbox " + id + " is full", "sandbox [id] is full"},
		"in capitals too":             {strings.ToUpper(id), "[id]"},
		"and without its dashes":      {strings.ReplaceAll(id, "-", ""), "[id]"},
		"a runtime id goes":           {"rt-" + id, "[id]"},
		"a long text is cut":          {long, long[:maxReason] + "…"},
		"not in the middle of a rune": {"a" + long, "a" + long[:maxReason-2] + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, clean(tc.in)); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWholeSeconds(t *testing.T) {
	for in, want := range map[time.Duration]int64{0: 0, 1: 1, time.Second: 1, time.Second + 1: 2, 900 * time.Second: 900} {
		if got := wholeSeconds(in); got != want {
			t.Errorf("%s became %d s, want %d", in, got, want)
		}
	}
}
