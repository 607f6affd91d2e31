package iii

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxReason bounds what is kept of a remote text, in bytes.
const maxReason = 1024

// handles are shapes of sandbox ids and of what else a daemon may echo.
var handles = regexp.MustCompile(`(?i)(rt-)?[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}`)

// clean removes sandbox ids from a text of the daemon, because whoever holds one
// may use the sandbox, and cuts it.
func clean(text string) string {
	text = handles.ReplaceAllLiteralString(text, "[id]")
	if len(text) <= maxReason {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	cut := maxReason
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return strings.ToValidUTF8(text[:cut], "\uFFFD") + "…"
}
