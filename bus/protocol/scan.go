package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// The frames of calls and their answers are all of the traffic that matters, so
// they are taken apart in one pass, and their payloads stay where they are in
// the frame instead of being copied out. Only what encoding/json accepts gets
// this far: the functions here rely on it and check nothing again.

var errNoText = errors.New("not UTF-8")

// eachField calls visit with every name and value of a valid JSON object. A
// name is without its quotes and escapes.
func eachField(frame []byte, visit func(name, value []byte) error) error {
	at := skipSpace(frame, 0)
	for at = skipSpace(frame, at+1); frame[at] != '}'; at = skipSpace(frame, at) {
		if frame[at] == ',' {
			at = skipSpace(frame, at+1)
		}
		end := stringEnd(frame, at)
		name := plainName(frame[at:end])
		// A colon follows, between blanks.
		at = skipSpace(frame, skipSpace(frame, end)+1)
		end = valueEnd(frame, at)
		if err := visit(name, frame[at:end:end]); err != nil {
			return err
		}
		at = end
	}
	return nil
}

func skipSpace(frame []byte, at int) int {
	for at < len(frame) && (frame[at] == ' ' || frame[at] == '\n' || frame[at] == '\t' || frame[at] == '\r') {
		at++
	}
	return at
}

// stringEnd is the place after the string that begins at a quote.
func stringEnd(frame []byte, at int) int {
	for at++; ; at++ {
		at += bytes.IndexByte(frame[at:], '"')
		escapes := at - 1
		for frame[escapes] == '\\' {
			escapes--
		}
		if (at-1-escapes)%2 == 0 {
			return at + 1
		}
	}
}

// valueEnd is the place after the value that begins there.
func valueEnd(frame []byte, at int) int {
	switch frame[at] {
	case '"':
		return stringEnd(frame, at)
	case '{', '[':
		return nestedEnd(frame, at)
	}
	for at < len(frame) && !bytes.ContainsRune([]byte(" \n\t\r,}]"), rune(frame[at])) {
		at++
	}
	return at
}

func nestedEnd(frame []byte, at int) int {
	for depth := 0; ; at++ {
		switch frame[at] {
		case '"':
			at = stringEnd(frame, at) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return at + 1
			}
		}
	}
}

// plainName is plainText without a copy where it needs none.
func plainName(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	return []byte(plainText(quoted))
}

// plainText is the content of a JSON string with its quotes.
func plainText(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var text string
	// It is valid, as the frame is.
	_ = json.Unmarshal(quoted, &text)
	return text
}

// readText reads a string field; null leaves it as it is.
func readText(field *string, value []byte) error {
	switch value[0] {
	case '"':
		*field = plainText(value)
	case 'n':
	default:
		// The standard library words the refusal.
		return json.Unmarshal(value, field)
	}
	return nil
}

// TextField is the text of a field of an object, that of the last one of the name;
// empty if the object has none, or it is no text, or the value is no object. The
// value must be valid JSON.
func TextField(value []byte, field string) (text string) {
	if at := skipSpace(value, 0); at == len(value) || value[at] != '{' {
		return ""
	}
	_ = eachField(value, func(name, content []byte) error {
		if string(name) != field {
			return nil
		}
		text = ""
		if content[0] == '"' {
			text = plainText(content)
		}
		return nil
	})
	return text
}

func checkText(frame []byte) error {
	// encoding/json lets bytes that are no text pass in raw values, and a peer
	// that they were forwarded to would close its connection.
	if !utf8.Valid(frame) {
		return errNoText
	}
	return nil
}
