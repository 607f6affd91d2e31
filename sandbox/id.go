package sandbox

import (
	"fmt"
	"log/slog"
)

// ID is the back end's handle of a sandbox. Whoever holds it may run code in
// that sandbox or destroy it, so it prints as a placeholder everywhere: in
// logs, in errors and in JSON. Only Reveal gives it away.
type ID struct{ value string }

const redactedID = "[sandbox id]"

// NewID wraps a handle received from a back end.
func NewID(value string) ID { return ID{value: value} }

// Reveal returns the handle itself, for the request that needs it.
func (i ID) Reveal() string { return i.value }

// IsZero says that there is no handle.
func (i ID) IsZero() bool { return i.value == "" }

// String implements fmt.Stringer with a placeholder.
func (i ID) String() string { return redactedID }

// Format implements fmt.Formatter, so that no verb prints the handle.
func (i ID) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(redactedID)) }

// LogValue implements slog.LogValuer with a placeholder.
func (i ID) LogValue() slog.Value { return slog.StringValue(redactedID) }

// MarshalLog implements logr.Marshaler with a placeholder.
func (i ID) MarshalLog() any { return redactedID }

// MarshalText implements encoding.TextMarshaler with a placeholder, which
// covers JSON values and map keys.
func (i ID) MarshalText() ([]byte, error) { return []byte(redactedID), nil }
