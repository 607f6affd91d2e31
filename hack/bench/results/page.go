package results

import (
	"errors"
	"strings"
)

// Begin and End mark the part of a page that is written by the benchmark.
const (
	Begin = "<!-- make bench PUBLISH=1 writes from here -->"
	End   = "<!-- to here -->"
)

// ErrNoPlace says that a page lacks the marks.
var ErrNoPlace = errors.New("the page has no place for the numbers: it lacks the marks")

// Replace puts a text between the marks of a page.
func Replace(page, text string) (string, error) {
	before, rest, found := strings.Cut(page, Begin)
	_, after, ended := strings.Cut(rest, End)
	if !found || !ended {
		return "", ErrNoPlace
	}
	return before + Begin + "\n\n" + strings.TrimSpace(text) + "\n\n" + End + after, nil
}
