package publish

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

const (
	// maxProblems bounds what one refusal lists.
	maxProblems = 5
	// maxQuote bounds what a problem quotes of a value or schema, in bytes.
	maxQuote = 64
)

// problems lists what is wrong, each with its place as a JSON pointer.
func problems(e *jsonschema.ValidationError) []string {
	var list []string
	collectProblems(e, &list)
	return list
}

func collectProblems(e *jsonschema.ValidationError, list *[]string) {
	for _, cause := range e.Causes {
		collectProblems(cause, list)
	}
	if len(e.Causes) > 0 || len(*list) >= maxProblems {
		return
	}
	problem := pointer(e.InstanceLocation) + ": " + explain(e.ErrorKind)
	if !slices.Contains(*list, problem) {
		*list = append(*list, problem)
	}
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// pointer writes a place as a JSON pointer, the whole value as /.
func pointer(path []string) string {
	if len(path) == 0 {
		return "/"
	}
	var b strings.Builder
	for _, segment := range path {
		b.WriteString("/" + brief(pointerEscapes.Replace(segment)))
	}
	return b.String()
}

var english = message.NewPrinter(language.English)

// explain says what a value breaks. It quotes values shortly where the library
// would quote them whole.
func explain(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return fmt.Sprintf("is %s, must be %s", k.Got, strings.Join(k.Want, " or "))
	case *kind.Required:
		return "lacks " + quoteAll(k.Missing)
	case *kind.AdditionalProperties:
		return "must not have " + quoteAll(k.Properties)
	case *kind.PropertyNames:
		return "must not have a property named " + quote(k.Property)
	case *kind.Dependency:
		return fmt.Sprintf("lacks %s, which %s needs", quoteAll(k.Missing), quote(k.Prop))
	case *kind.DependentRequired:
		return fmt.Sprintf("lacks %s, which %s needs", quoteAll(k.Missing), quote(k.Prop))
	case *kind.Pattern:
		return fmt.Sprintf("%s does not match the pattern %s", quote(k.Got), quote(k.Want))
	case *kind.Format:
		return fmt.Sprintf("%s is no %s", quote(k.Got), brief(k.Want))
	case *kind.Enum:
		return "must be one of " + quoteAll(k.Want)
	case *kind.Const:
		return "must be " + quote(k.Want)
	case *kind.FalseSchema:
		return "is not allowed"
	default:
		// It quotes no value, but perhaps a few words of the schema.
		return cutText(k.LocalizedString(english), 2*maxQuote)
	}
}

// maxQuotes bounds the values that one problem lists.
const maxQuotes = 5

func quoteAll[T any](values []T) string {
	quotes := make([]string, 0, maxQuotes+1)
	for i, v := range values {
		if i == maxQuotes {
			quotes = append(quotes, "…")
			break
		}
		quotes = append(quotes, quote(v))
	}
	return strings.Join(quotes, ", ")
}

func quote(v any) string {
	encoded, err := json.Marshal(v)
	if err != nil {
		return "the value"
	}
	return brief(string(encoded))
}

func brief(s string) string { return cutText(s, maxQuote) }

func cutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := limit - len("…")
	for end > 0 && s[end]&0xC0 == 0x80 {
		end--
	}
	return s[:end] + "…"
}
