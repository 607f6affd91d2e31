package publish

import (
	"errors"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxSteps bounds one check, at about a second of one processor: a schema can
// name itself so that it looks at a value exponentially often, and the operator
// that checks serves others too.
const maxSteps = 1_000_000

// patternUnit is how many characters times instructions of a pattern cost a step.
const patternUnit = 64

var errTooCostly = errors.New("the schema takes too long to check this")

// budget counts the steps of one check after another. Its users see to it that
// there is one at a time.
type budget struct{ left int }

// overspent is what a check panics with, since the validator cannot be stopped
// otherwise.
type overspent struct{}

func (b *budget) spend(check func() error) (err error) {
	b.left = maxSteps
	defer func() {
		switch v := recover(); v.(type) {
		case nil:
		case overspent:
			err = errTooCostly
		default:
			panic(v)
		}
	}()
	return check()
}

func (b *budget) take(steps int) {
	if b.left -= steps; b.left < 0 {
		panic(overspent{})
	}
}

// attach makes every subschema cost a step each time it is applied.
func (b *budget) attach(*jsonschema.CompilerContext, map[string]any) (jsonschema.SchemaExt, error) {
	return toll{b}, nil
}

type toll struct{ *budget }

// Validate implements jsonschema.SchemaExt.
func (t toll) Validate(*jsonschema.ValidatorContext, any) { t.take(1) }

// regexp compiles a pattern whose matches cost by their size. Go's patterns take
// time in proportion to the text, but also to their own length.
func (b *budget) regexp(pattern string) (jsonschema.Regexp, error) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	return &costlyRegexp{Regexp: compiled, budget: b, size: len(program.Inst)}, nil
}

type costlyRegexp struct {
	*regexp.Regexp
	budget *budget
	// size is the number of instructions.
	size int
}

// MatchString implements jsonschema.Regexp.
func (r *costlyRegexp) MatchString(s string) bool {
	r.budget.take(1 + len(s)*r.size/patternUnit)
	return r.Regexp.MatchString(s)
}
