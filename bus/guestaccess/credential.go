package guestaccess

import (
	"fmt"
	"io"
	"log/slog"
)

// Credential is the token of one guest, a bearer secret: printing, logging and
// JSON leave it out, whatever the verb.
type Credential struct{ text string }

const redacted = "guest credential (redacted)"

// Reveal returns the token itself, for the guest's environment and nothing else.
func (c Credential) Reveal() string { return c.text }

// String hides the token.
func (c Credential) String() string { return redacted }

// Format hides the token from every verb.
func (c Credential) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText hides the token, in JSON too.
func (c Credential) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue hides the token.
func (c Credential) LogValue() slog.Value { return slog.StringValue(redacted) }
