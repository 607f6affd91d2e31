package publish

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// MaxSchemaBytes bounds a schema that is enforced.
const MaxSchemaBytes = 64 << 10

// schemaURL names the schema to the compiler; it is never fetched.
const schemaURL = "urn:sandbox:schema"

// Schema checks values against a JSON Schema of draft 4 to 2020-12. It may be
// used concurrently.
type Schema struct {
	compiled *jsonschema.Schema
	// mu lets one check at a time use the budget.
	mu     sync.Mutex
	budget budget
}

// SchemaError says why a schema cannot be enforced, and at which place in it.
type SchemaError struct{ Problem string }

func (e *SchemaError) Error() string { return e.Problem }

// CompileSchema compiles a schema. What is wrong with it is a *SchemaError.
func CompileSchema(raw json.RawMessage) (*Schema, error) {
	if len(raw) > MaxSchemaBytes {
		return nil, &SchemaError{Problem: fmt.Sprintf("the schema has %d bytes; %d are allowed", len(raw), MaxSchemaBytes)}
	}
	document, err := decodeNumbers(raw)
	if err != nil {
		return nil, &SchemaError{Problem: err.Error()}
	}
	s := &Schema{}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	compiler.UseRegexpEngine(s.budget.regexp)
	compiler.RegisterVocabulary(&jsonschema.Vocabulary{URL: "urn:sandbox:budget", Compile: s.budget.attach})
	compiler.AssertVocabs()
	if err := compiler.AddResource(schemaURL, document); err != nil {
		return nil, schemaError(err)
	}
	// The schema itself is checked against its metaschema, with the same bounds.
	err = s.budget.spend(func() error {
		s.compiled, err = compiler.Compile(schemaURL)
		return err
	})
	if err != nil {
		return nil, schemaError(err)
	}
	return s, nil
}

// callerKey is what the engine adds to payloads that are objects
// (contracts/iii-bus.md §5.2). No schema knows of it.
const callerKey = "_caller_worker_id"

// PayloadProblems is Problems for the payload of a call, without what the engine
// added to it.
func (s *Schema) PayloadProblems(raw json.RawMessage) []string {
	value, err := decodeNumbers(raw)
	if err != nil {
		return []string{"/: " + err.Error()}
	}
	if object, ok := value.(map[string]any); ok {
		delete(object, callerKey)
	}
	return s.check(value)
}

// Problems says what is wrong with a value, at most maxProblems times, and
// nothing if it matches. Empty raw stands for null.
func (s *Schema) Problems(raw json.RawMessage) []string {
	value, err := decodeNumbers(raw)
	if err != nil {
		return []string{"/: " + err.Error()}
	}
	return s.check(value)
}

func (s *Schema) check(value any) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.budget.spend(func() error { return s.compiled.Validate(value) })
	var invalid *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &invalid):
		return problems(invalid)
	default:
		return []string{"/: " + err.Error()}
	}
}

// noLoader refuses other documents: a schema must not make the operator read
// files or fetch addresses.
type noLoader struct{}

var errOtherDocument = errors.New("it is in another document; only references inside the schema are supported")

func (noLoader) Load(string) (any, error) { return nil, errOtherDocument }

// decodeNumbers decodes JSON without rounding. Numbers that only an exact
// arithmetic of huge size could compare are refused.
func decodeNumbers(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not JSON: text after the value")
	}
	return value, checkNumbers(value)
}

const (
	maxNumberDigits   = 1000
	maxExponentDigits = 3
)

func checkNumbers(value any) error {
	switch v := value.(type) {
	case json.Number:
		_, exponent, _ := strings.Cut(strings.ToLower(v.String()), "e")
		if len(v) > maxNumberDigits || len(strings.TrimLeft(exponent, "+-0")) > maxExponentDigits {
			return fmt.Errorf("the number %s is too long to be checked", brief(v.String()))
		}
	case []any:
		for _, member := range v {
			if err := checkNumbers(member); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, member := range v {
			if err := checkNumbers(member); err != nil {
				return err
			}
		}
	}
	return nil
}

// schemaError says in our words what the compiler found.
func schemaError(err error) error {
	var notLoaded *jsonschema.LoadURLError
	var invalid *jsonschema.ValidationError
	var unfit *jsonschema.SchemaValidationError
	if errors.As(err, &unfit) {
		err = unfit.Err
	}
	switch {
	case errors.As(err, &notLoaded):
		return &SchemaError{Problem: fmt.Sprintf("%s cannot be read: %v", brief(notLoaded.URL), errOtherDocument)}
	case errors.As(err, &invalid):
		return &SchemaError{Problem: strings.Join(problems(invalid), "; ")}
	default:
		return &SchemaError{Problem: strings.ReplaceAll(err.Error(), schemaURL, "")}
	}
}
