package sandboxrun

import (
	"strings"
	"unicode/utf8"
)

// tail keeps the last bytes of a text, from the beginning of a character on.
func tail(text string, limit int) (kept string, cut bool) {
	// First, since it can make the text longer.
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text, false
	}
	start := len(text) - limit
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	return text[start:], true
}
