package prepare

import (
	"regexp"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// maxBlamed bounds the packages that an Error names.
const maxBlamed = 3

// blamed lists the packages that an installer named when it failed: npm and pip
// install a whole list at once, and only their words tell which one it was.
func blamed(packages []string, run *wire.Run) string {
	if len(packages) == 1 {
		return packages[0]
	}
	if run == nil {
		return ""
	}
	said := separators.ReplaceAllString(strings.ToLower(lastWords(run)), "-")
	var named []string
	for _, requirement := range packages {
		name := separators.ReplaceAllString(strings.ToLower(bareName(requirement)), "-")
		if mentions(said, name) {
			named = append(named, requirement)
		}
	}
	if len(named) > maxBlamed {
		return ""
	}
	return strings.Join(named, ", ")
}

// separators are the same to pip.
var separators = regexp.MustCompile(`[-_.]+`)

// bareName cuts the version, and the extras, off a requirement; the @ of an npm scope
// comes first.
func bareName(requirement string) string {
	if end := strings.IndexAny(requirement[1:], "@ [=<>!~"); end >= 0 {
		return requirement[:end+1]
	}
	return requirement
}

// mentions finds a name that is not a part of a longer one; a version, or the end of
// a sentence, may follow.
func mentions(text, name string) bool {
	pattern := `(^|[^a-z0-9-])` + regexp.QuoteMeta(name) + `($|[^a-z0-9-]|-[^a-z])`
	return regexp.MustCompile(pattern).MatchString(text)
}
