package shim

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxMessageBytes bounds text of others in an error.
const maxMessageBytes = 4096

// capabilities are runtime ids and, wherever they are UUIDs, sandbox ids; they
// may be glued to other text.
var capabilities = regexp.MustCompile(`(?i)(rt-)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// scrub makes text of controllers, the API server or the daemon fit for a
// caller: no ids that the caller did not send (contracts/code-runner.md §5.3),
// valid UTF-8, bounded.
func scrub(text string) string {
	text = capabilities.ReplaceAllString(strings.ToValidUTF8(text, "\uFFFD"), "(id)")
	return cut(text, maxMessageBytes)
}

// cut keeps the beginning of text, at most limit bytes and whole characters.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}

// cutFront keeps the end of text, likewise.
func cutFront(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	start := len(text) - limit
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	return "…" + text[start:]
}
