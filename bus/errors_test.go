package bus

import (
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

func TestErrors_texts(t *testing.T) {
	tests := map[string]struct {
		err  error
		want string
	}{
		"a timeout says how long": {
			&TimeoutError{FunctionID: "a::f", After: 30*time.Second + 123*time.Microsecond},
			"calling a::f: no answer within 30s",
		},
		"a remote error starts with its code": {&RemoteError{Code: "odd", Message: "m", Stacktrace: "s"}, "odd: m"},
		"a remote error may have no code":     {&RemoteError{Message: "m"}, "m"},
		"a rejected worker hides the owner": {
			&RejectedError{Code: "C", Namespace: "default", WorkerName: "me", OwnerWorkerID: "s3cret"},
			"the bus rejected worker me in namespace default: C",
		},
		"a rejected function hides the owner": {
			&RejectedError{Code: "C", Namespace: "default", FunctionID: "a::f", OwnerWorkerID: "s3cret"},
			"the bus rejected function a::f in namespace default: C",
		},
		"a lost call says that its outcome is unknown": {
			&ConnectionLostError{FunctionID: "a::f"},
			"calling a::f: connection to the bus lost, outcome unknown",
		},
		"a large frame says what to do": {
			&TooLargeError{Size: 20, Limit: 10}, "frame of 20 bytes exceeds the bus limit of 10; use a channel",
		},
		"a reported channel error is attributed": {
			&ChannelError{Message: "disk full"}, "the channel's other end failed: disk full",
		},
		"a failed handshake hides its URL": {
			withoutURL(fmt.Errorf("dialing: %w", &url.Error{Op: "Get", URL: "http://x/?key=s3cret", Err: errors.New("refused")})),
			"refused",
		},
		"other errors stay as they are": {withoutURL(errors.New("odd")), "odd"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.err.Error()); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrors_kinds(t *testing.T) {
	type kinds struct {
		Timeout, NotConnected, Lost, NotFound bool
		Code                                  string
	}
	tests := map[string]struct {
		err  error
		want kinds
	}{
		"nothing":                   {nil, kinds{}},
		"another error":             {errors.New("odd"), kinds{}},
		"a timeout":                 {&TimeoutError{}, kinds{Timeout: true}},
		"no connection":             {ErrNotConnected, kinds{NotConnected: true}},
		"a lost connection":         {&ConnectionLostError{}, kinds{Lost: true}},
		"a function not found":      {&RemoteError{Code: protocol.CodeFunctionNotFound}, kinds{NotFound: true, Code: "function_not_found"}},
		"a discovery without match": {&RemoteError{Code: protocol.CodeNotFound}, kinds{NotFound: true, Code: "NOT_FOUND"}},
		"another answer":            {&RemoteError{Code: "odd"}, kinds{Code: "odd"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := tc.err
			if err != nil {
				err = fmt.Errorf("wrapped: %w", err)
			}
			got := kinds{IsTimeout(err), IsNotConnected(err), IsConnectionLost(err), IsNotFound(err), RemoteCode(err)}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
}
