package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestID_staysSecret(t *testing.T) {
	const handle = "3f0c0d4e-1111-4222-8333-444455556666"
	id := NewID(handle)
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "id", id, "info", Info{ID: id})
	inJSON, err := json.Marshal(map[ID]any{id: Info{ID: id}})
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range map[string]string{
		"a log": log.String(), "JSON": string(inJSON),
		"verbs":   fmt.Sprintf("%v %s %q %d %x %+v %#v", id, id, id, id, id, id, id),
		"structs": fmt.Sprintf("%v %+v %#v", Info{ID: id}, &Info{ID: id}, []ID{id}),
		"errors":  fmt.Errorf("x: %v", id).Error(),
	} {
		if strings.Contains(text, handle) || !strings.Contains(text, redactedID) {
			t.Errorf("%s shows %s", where, text)
		}
	}
	if id.Reveal() != handle || id.IsZero() || !(ID{}).IsZero() {
		t.Error("the handle itself is wrong")
	}
}

func TestMarker(t *testing.T) {
	whole := Marker{Operator: "op", Object: "obj", Ordinal: 12, Nonce: "n-1"}
	if got, err := ParseMarker(whole.String()); err != nil || got != whole {
		t.Errorf("%s became %+v, %v", whole, got, err)
	}
	for what, name := range map[string]string{
		"a stranger's name":   "run-17",
		"nothing":             "",
		"another prefix":      "abc/op/obj/1/n",
		"a part less":         "sbx/op/obj/1",
		"a part more":         "sbx/op/obj/1/n/x",
		"an ordinal of words": "sbx/op/obj/one/n",
		"a negative ordinal":  "sbx/op/obj/-1/n",
		"no operator":         "sbx//obj/1/n",
		"no object":           "sbx/op//1/n",
		"no nonce":            "sbx/op/obj/1/",
	} {
		if got, err := ParseMarker(name); err == nil {
			t.Errorf("%s was taken as %+v", what, got)
		}
	}
	if one, other := NewNonce(), NewNonce(); one == other {
		t.Error("two nonces are equal")
	}
}

func TestErrors_kinds(t *testing.T) {
	cause := errors.New("cause")
	kinds := map[string]func(error) bool{
		"not found": IsNotFound, "busy": IsBusy, "capacity": IsCapacity, "timeout": IsTimeout,
		"unavailable": IsUnavailable, "unknown outcome": IsUnknownOutcome, "rejected": IsRejected,
	}
	for want, err := range map[string]error{
		"not found": NewNotFoundError(), "busy": NewBusyError(), "capacity": NewCapacityError("r"),
		"timeout": NewTimeoutError(time.Second), "unavailable": NewUnavailableError(cause),
		"unknown outcome": NewUnknownOutcomeError(cause), "rejected": NewRejectedError("S001", "r"),
	} {
		got := map[string]bool{}
		for kind, is := range kinds {
			if is(fmt.Errorf("booting: %w", err)) {
				got[kind] = true
			}
		}
		if diff := cmp.Diff(map[string]bool{want: true}, got); diff != "" {
			t.Errorf("kinds of %v (-want +got):\n%s", err, diff)
		}
	}
	if IgnoreNotFound(NewNotFoundError()) != nil || !errors.Is(IgnoreNotFound(cause), cause) || IgnoreNotFound(nil) != nil {
		t.Error("IgnoreNotFound ignores the wrong errors")
	}
	if !errors.Is(NewUnknownOutcomeError(cause), cause) || !errors.Is(NewUnavailableError(cause), cause) {
		t.Error("a cause is lost")
	}
}
