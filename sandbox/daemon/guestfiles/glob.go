package guestfiles

import (
	"regexp"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// glob is a file name pattern: "*" and "?" within a name, "**" across names,
// "[ab]", "[!ab]" and "{a,b}". Without a slash it matches base names
// (contracts/iii-sandbox.md §4).
type glob struct {
	expression *regexp.Regexp
	whole      bool
}

type globs []glob

func compileGlobs(patterns []string) (globs, error) {
	all := make(globs, 0, len(patterns))
	for _, pattern := range patterns {
		expression, err := regexp.Compile(`\A(?s:` + translate(strings.TrimPrefix(pattern, "/")) + `)\z`)
		if err != nil {
			return nil, &daemon.ArgumentError{Reason: "glob cannot be used: " + pattern}
		}
		all = append(all, glob{expression: expression, whole: strings.Contains(pattern, "/")})
	}
	return all, nil
}

// match takes the path below the folder where the search began.
func (all globs) match(relative string) bool {
	base := relative[strings.LastIndexByte(relative, '/')+1:]
	for _, g := range all {
		subject := base
		if g.whole {
			subject = relative
		}
		if g.expression.MatchString(subject) {
			return true
		}
	}
	return false
}

// translate writes a glob as a regular expression.
func translate(pattern string) string {
	var out strings.Builder
	braces := 0
	for i := 0; i < len(pattern); {
		rest := pattern[i:]
		length := 1
		switch c := rest[0]; {
		case strings.HasPrefix(rest, "**/"):
			out.WriteString(`(?:.*/)?`)
			length = 3
		case strings.HasPrefix(rest, "**"):
			out.WriteString(`.*`)
			length = 2
		case c == '*':
			out.WriteString(`[^/]*`)
		case c == '?':
			out.WriteString(`[^/]`)
		case c == '[':
			length = class(&out, rest)
		case c == '{':
			braces++
			out.WriteString(`(?:`)
		case c == '}' && braces > 0:
			braces--
			out.WriteString(`)`)
		case c == ',' && braces > 0:
			out.WriteString(`|`)
		case c == '\\' && len(rest) > 1:
			out.WriteString(regexp.QuoteMeta(rest[1:2]))
			length = 2
		default:
			length = literal(&out, rest)
		}
		i += length
	}
	return out.String()
}

// literal writes one whole character.
func literal(out *strings.Builder, rest string) int {
	for i := range rest {
		if i > 0 {
			out.WriteString(regexp.QuoteMeta(rest[:i]))
			return i
		}
	}
	out.WriteString(regexp.QuoteMeta(rest))
	return len(rest)
}

// class writes a set of characters; one without an end is a bracket.
func class(out *strings.Builder, rest string) int {
	end := strings.IndexByte(rest[min(2, len(rest)):], ']')
	if end < 0 {
		out.WriteString(`\[`)
		return 1
	}
	end += 2
	inner := strings.ReplaceAll(rest[1:end], `\`, `\\`)
	inner = strings.ReplaceAll(inner, `[`, `\[`)
	if strings.HasPrefix(inner, "!") {
		inner = "^" + inner[1:]
	}
	out.WriteString("[" + inner + "]")
	return end + 1
}
