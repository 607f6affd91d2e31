package publish

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func compiled(t *testing.T, schema string) *Schema {
	t.Helper()
	s, err := CompileSchema(json.RawMessage(schema))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSchema_problems(t *testing.T) {
	long := strings.Repeat("é", 100)
	for name, tc := range map[string]struct {
		schema, value string
		want          []string
	}{
		"a value that matches": {
			`{"type":"object","required":["qty"],"properties":{"qty":{"type":"integer","minimum":1}}}`, `{"qty":2}`, nil,
		},
		"a number beyond a double": {`{"type":"integer","maximum":9007199254740993}`, `9007199254740993`, nil},
		"a wrong type deep inside": {
			`{"properties":{"items":{"items":{"properties":{"qty":{"type":"integer"}}}}}}`, `{"items":[{"qty":1},{"qty":"two"}]}`,
			[]string{"/items/1/qty: is string, must be integer"},
		},
		"a name that must be escaped": {
			`{"additionalProperties":{"type":"null"}}`, `{"a/b~c":1}`, []string{"/a~1b~0c: is number, must be null"},
		},
		"the whole value":        {`{"type":"object"}`, `[]`, []string{"/: is array, must be object"}},
		"no value":               {`{"type":"object"}`, ``, []string{"/: is null, must be object"}},
		"something missing":      {`{"required":["a","b"]}`, `{}`, []string{`/: lacks "a", "b"`}},
		"something more":         {`{"additionalProperties":false}`, `{"x":1}`, []string{`/: must not have "x"`}},
		"none of an enumeration": {`{"enum":["red",1,null]}`, `"blue"`, []string{`/: must be one of "red", 1, null`}},
		"not the constant":       {`{"const":{"a":1}}`, `2`, []string{`/: must be {"a":1}`}},
		"a pattern":              {`{"pattern":"^[a-z]+$"}`, `"A1"`, []string{`/: "A1" does not match the pattern "^[a-z]+$"`}},
		"a format of draft 7":    {`{"$schema":"http://json-schema.org/draft-07/schema#","format":"date"}`, `"soon"`, []string{`/: "soon" is no date`}},
		"what is never allowed":  {`{"properties":{"x":false}}`, `{"x":1}`, []string{"/x: is not allowed"}},
		"draft 4":                {`{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1,"exclusiveMinimum":true}`, `1`, []string{"/: exclusiveMinimum: got 1, want 1"}},
		"a reference to a part":  {`{"$ref":"#/$defs/n","$defs":{"n":{"type":"number"}}}`, `"x"`, []string{"/: is string, must be number"}},
		"a schema that names itself": {
			`{"properties":{"next":{"$ref":"#"}},"required":["id"]}`, `{"id":1,"next":{"id":2,"next":{}}}`, []string{`/next/next: lacks "id"`},
		},
		"at most five problems": {
			`{"additionalProperties":{"type":"null"}}`, `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1}`, make([]string, maxProblems),
		},
		"a value that is too long to be quoted": {
			`{"const":1,"maxLength":3,"pattern":"^$"}`, `"` + long + `"`, []string{"/: must be 1"},
		},
		"a text that is too long to be quoted": {
			`{"pattern":"^$"}`, `"` + long + `"`, []string{`/: "` + strings.Repeat("é", 30) + `… does not match the pattern "^$"`},
		},
		"a number of absurd size": {`{"type":"integer"}`, `1e1000000000`, []string{"/: the number 1e1000000000 is too long to be checked"}},
		"no JSON":                 {`{}`, `{`, []string{"/: not JSON: unexpected EOF"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := compiled(t, tc.schema).Problems(json.RawMessage(tc.value))
			if len(tc.want) == maxProblems && tc.want[0] == "" {
				if len(got) != maxProblems {
					t.Errorf("%d problems are listed: %q", len(got), got)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("the problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSchema_ignoresWhatTheEngineAdds(t *testing.T) {
	s := compiled(t, `{"additionalProperties":false,"properties":{"qty":{}}}`)
	payload := json.RawMessage(`{"qty":1,"_caller_worker_id":"7f"}`)
	if got := s.PayloadProblems(payload); got != nil {
		t.Errorf("the payload is refused: %q", got)
	}
	if got := s.Problems(payload); got == nil {
		t.Error("a result may hold what only the engine adds to payloads")
	}
}

func TestCompileSchema_refuses(t *testing.T) {
	for name, tc := range map[string]struct{ schema, want string }{
		"another document":          {`{"$ref":"https://example.com/order.json"}`, "https://example.com/order.json cannot be read: it is in another document"},
		"a file":                    {`{"$ref":"file:///etc/passwd"}`, "file:///etc/passwd cannot be read: it is in another document"},
		"another document by id":    {`{"$id":"https://example.com/a","$ref":"b.json"}`, "https://example.com/b.json cannot be read"},
		"a metaschema nobody knows": {`{"$schema":"https://example.com/meta"}`, "https://example.com/meta cannot be read"},
		"a part that is missing":    {`{"$ref":"#/$defs/n"}`, "#/$defs/n"},
		"a type that does not exist": {
			`{"properties":{"qty":{"type":"int"}}}`, "/properties/qty/type: ",
		},
		"a pattern that is none":     {`{"properties":{"a":{"pattern":"["}}}`, `/properties/a/pattern: "[" is no regex`},
		"a look-ahead":               {`{"pattern":"(?=a)"}`, `/pattern: "(?=a)" is no regex`},
		"a pattern of absurd size":   {`{"pattern":"((a{900}){900}){900}"}`, "is no regex"},
		"a number of absurd size":    {`{"minimum":1e999999999}`, "the number 1e999999999 is too long to be checked"},
		"a schema of more than 64 K": {`{"description":"` + strings.Repeat("x", MaxSchemaBytes) + `"}`, "bytes; 65536 are allowed"},
		"no JSON":                    {`{`, "not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := CompileSchema(json.RawMessage(tc.schema))
			var target *SchemaError
			if !errors.As(err, &target) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is %v, want %q", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "urn:") {
				t.Errorf("the error shows a name of ours: %v", err)
			}
		})
	}
}

// TestSchema_budget checks values that would take for ever.
func TestSchema_budget(t *testing.T) {
	var doubling strings.Builder
	for i := range 40 {
		fmt.Fprintf(&doubling, `"s%d":{"allOf":[{"$ref":"#/$defs/s%d"},{"$ref":"#/$defs/s%d"}]},`, i, i+1, i+1)
	}
	for name, tc := range map[string]struct{ schema, value string }{
		"a schema that looks 2^40 times at one value": {
			`{"properties":{"x":{"$ref":"#/$defs/s0"}},"$defs":{` + doubling.String() + `"s40":{"minLength":1}}}`, `{"x":"x"}`,
		},
		"a schema that looks twice as often at each level": {
			`{"$defs":{"n":{"properties":{"n":{"$ref":"#/$defs/n"}}}},"allOf":[{"properties":{"n":{"$ref":"#"}}},{"properties":{"n":{"$ref":"#"}}}]}`,
			strings.Repeat(`{"n":`, 60) + "1" + strings.Repeat("}", 60),
		},
		"a long pattern on a long text": {`{"pattern":"(x|y){900}z$"}`, `"` + strings.Repeat("x", 1<<20) + `"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := compiled(t, tc.schema)
			if diff := cmp.Diff([]string{"/: " + errTooCostly.Error()}, s.Problems(json.RawMessage(tc.value))); diff != "" {
				t.Errorf("the problems (-want +got):\n%s", diff)
			}
			if got := s.Problems(json.RawMessage(`null`)); got != nil {
				t.Errorf("the next check still has no budget: %q", got)
			}
		})
	}
}
