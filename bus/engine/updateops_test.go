package engine

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestApplyUpdates(t *testing.T) {
	for name, tc := range map[string]struct {
		old, ops string
		want     string
		codes    []string
	}{
		"set of a field":                      {`{"a":1}`, `[{"type":"set","path":"b","value":2}]`, `{"a":1,"b":2}`, nil},
		"set of the value itself":             {`{"a":1}`, `[{"type":"set","path":"","value":[1]}]`, `[1]`, nil},
		"set without a value is null":         {`{"a":1}`, `[{"type":"set","path":"a"}]`, `{"a":null}`, nil},
		"a dot in a name separates nothing":   {`{}`, `[{"type":"set","path":"a.b","value":1}]`, `{"a.b":1}`, nil},
		"set in what is no object":            {`7`, `[{"type":"set","path":"a","value":1}]`, `7`, []string{"set.target_not_object"}},
		"an absent value begins as an object": {``, `[{"type":"set","path":"a","value":1}]`, `{"a":1}`, nil},

		"merge is shallow":                          {`{"a":{"x":1},"b":1}`, `[{"type":"merge","value":{"a":{"y":2}}}]`, `{"a":{"y":2},"b":1}`, nil},
		"merge at a name":                           {`{"a":{"x":1}}`, `[{"type":"merge","path":"a","value":{"y":2}}]`, `{"a":{"x":1,"y":2}}`, nil},
		"merge at a path makes what is missing":     {`{"a":5}`, `[{"type":"merge","path":["a","b"],"value":{"y":2}}]`, `{"a":{"b":{"y":2}}}`, nil},
		"merge at an empty path is at the root":     {`{}`, `[{"type":"merge","path":[],"value":{"y":2}}]`, `{"y":2}`, nil},
		"merge of what is no object":                {`{}`, `[{"type":"merge","value":1}]`, `{}`, []string{"merge.value.not_an_object"}},
		"merge into what is no object":              {`[]`, `[{"type":"merge","value":{}}]`, `[]`, []string{"merge.target_not_object"}},
		"merge keeps prototypes clean":              {`{}`, `[{"type":"merge","value":{"__proto__":1}}]`, `{}`, []string{"merge.value.proto_polluted"}},
		"a path keeps prototypes clean":             {`{}`, `[{"type":"merge","path":["constructor"],"value":{}}]`, `{}`, []string{"merge.path.proto_polluted"}},
		"an empty segment":                          {`{}`, `[{"type":"merge","path":["a",""],"value":{}}]`, `{}`, []string{"merge.path.empty_segment"}},
		"a path that is too deep":                   {`{}`, `[{"type":"merge","path":[` + strings.Repeat(`"a",`, 32) + `"a"],"value":{}}]`, `{}`, []string{"merge.path.too_deep"}},
		"a value that is too deep":                  {`{}`, `[{"type":"merge","value":{"a":` + strings.Repeat(`[`, 16) + strings.Repeat(`]`, 16) + `}}]`, `{}`, []string{"merge.value.too_deep"}},
		"a segment that is too long":                {`{}`, `[{"type":"set","path":"` + strings.Repeat("a", 257) + `","value":1}]`, `{}`, []string{"set.path.segment_too_long"}},
		"a field path has one name":                 {`{}`, `[{"type":"set","path":["a","b"],"value":1}]`, `{}`, []string{"set.path.too_deep"}},
		"increment and decrement":                   {`{"n":10}`, `[{"type":"increment","path":"n","by":5},{"type":"decrement","path":"n","by":3}]`, `{"n":12}`, nil},
		"counting starts at zero":                   {``, `[{"type":"increment","path":"a","by":2},{"type":"decrement","path":"b","by":2}]`, `{"a":2,"b":-2}`, nil},
		"counting in the value itself":              {`2`, `[{"type":"increment","path":"","by":3}]`, `5`, nil},
		"counting in an absent value":               {``, `[{"type":"decrement","path":"","by":3}]`, `-3`, nil},
		"big integers stay exact":                   {`{"n":9223372036854775807}`, `[{"type":"increment","path":"n","by":1}]`, `{"n":9223372036854775808}`, nil},
		"fractions count as well":                   {`{"n":1.5}`, `[{"type":"increment","path":"n","by":2}]`, `{"n":3.5}`, nil},
		"null is no number":                         {`{"n":null}`, `[{"type":"increment","path":"n","by":2}]`, `{"n":null}`, []string{"increment.not_number"}},
		"a text is no number":                       {`{"n":"1"}`, `[{"type":"decrement","path":"n","by":2}]`, `{"n":"1"}`, []string{"decrement.not_number"}},
		"a number out of range":                     {`{"n":1e308}`, `[{"type":"increment","path":"n","by":9223372036854775807}]`, `{"n":1e+308}`, nil},
		"append to an array":                        {`{"l":[1]}`, `[{"type":"append","path":"l","value":[2]}]`, `{"l":[1,[2]]}`, nil},
		"append to a text":                          {`{"s":"a"}`, `[{"type":"append","path":"s","value":"b"}]`, `{"s":"ab"}`, nil},
		"append to what is missing":                 {`{}`, `[{"type":"append","path":"s","value":"b"},{"type":"append","path":"l","value":1}]`, `{"l":[1],"s":"b"}`, nil},
		"append further down begins an array":       {`{}`, `[{"type":"append","path":["a","l"],"value":"b"}]`, `{"a":{"l":["b"]}}`, nil},
		"append to an absent value":                 {``, `[{"type":"append","value":"b"}]`, `"b"`, nil},
		"append of another kind to a text":          {`{"s":"a"}`, `[{"type":"append","path":"s","value":1}]`, `{"s":"a"}`, []string{"append.type_mismatch"}},
		"append to an object":                       {`{"o":{}}`, `[{"type":"append","path":"o","value":1}]`, `{"o":{}}`, []string{"append.type_mismatch"}},
		"append in what is no object":               {`1`, `[{"type":"append","path":"o","value":1}]`, `1`, []string{"append.target_not_object"}},
		"remove of a field":                         {`{"a":1,"b":2}`, `[{"type":"remove","path":"a"}]`, `{"b":2}`, nil},
		"remove of the value itself":                {`{"a":1}`, `[{"type":"remove","path":""}]`, `null`, nil},
		"remove in what is no object":               {`1`, `[{"type":"remove","path":"a"}]`, `1`, []string{"remove.target_not_object"}},
		"what fails does not hold up what follows":  {`{"s":"a"}`, `[{"type":"increment","path":"s","by":1},{"type":"set","path":"ok","value":true}]`, `{"ok":true,"s":"a"}`, []string{"increment.not_number"}},
		"an unknown operation":                      {`{}`, `[{"type":"swap","path":"a"}]`, `{}`, []string{"unknown_operation"}},
		"a number with too many digits to count on": {`{"n":` + strings.Repeat("9", 401) + `}`, `[{"type":"increment","path":"n","by":1}]`, `{"n":` + strings.Repeat("9", 401) + `}`, []string{"increment.not_number"}},
	} {
		t.Run(name, func(t *testing.T) {
			var ops []updateOp
			if err := json.Unmarshal([]byte(tc.ops), &ops); err != nil {
				t.Fatal(err)
			}
			var old json.RawMessage
			if tc.old != "" {
				old = json.RawMessage(tc.old)
			}
			got, problems, err := applyUpdates(old, ops)
			if err != nil {
				t.Fatal(err)
			}
			var codes []string
			for _, p := range problems {
				codes = append(codes, p.Code)
			}
			if diff := cmp.Diff(tc.codes, codes); diff != "" {
				t.Errorf("codes (-want +got):\n%s", diff)
			}
			if string(got) != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestQueuePolicy_backoff(t *testing.T) {
	for name, tc := range map[string]struct {
		policy   QueuePolicy
		failures int
		want     string
	}{
		"the first wait is a second":           {QueuePolicy{}, 1, "1s"},
		"waits double":                         {QueuePolicy{}, 3, "4s"},
		"up to a minute":                       {QueuePolicy{}, 500, "1m0s"},
		"fixed waits stay":                     {QueuePolicy{BackoffType: "fixed", BackoffDelayMs: 20}, 9, "20ms"},
		"a base above a minute is not cut":     {QueuePolicy{BackoffDelayMs: 90_000}, 5, "1m30s"},
		"a base of its own doubles from there": {QueuePolicy{BackoffDelayMs: 50}, 2, "100ms"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.policy.backoff(tc.failures).String(); got != tc.want {
				t.Errorf("backoff is %s, want %s", got, tc.want)
			}
		})
	}
}

func TestExposure(t *testing.T) {
	for name, tc := range map[string]struct {
		exposure string
		target   target
		want     bool
	}{
		"a bare pattern":                  {`"a::*"`, target{"default", "a::b", nil}, true},
		"a pattern in its long form":      {`"match(\"a::*\")"`, target{"default", "a::b", nil}, true},
		"a pattern holds in default":      {`"a::*"`, target{"team", "a::b", nil}, false},
		"a pattern with a namespace":      {`{"match":"a::*","namespace":"team"}`, target{"team", "a::b", nil}, true},
		"metadata":                        {`{"metadata":{"public":true}}`, target{"default", "x", json.RawMessage(`{"public":true,"b":1}`)}, true},
		"metadata of another value":       {`{"metadata":{"public":true}}`, target{"default", "x", json.RawMessage(`{"public":"true"}`)}, false},
		"metadata must all hold":          {`{"metadata":{"a":1,"b":2}}`, target{"default", "x", json.RawMessage(`{"a":1}`)}, false},
		"metadata by pattern":             {`{"metadata":{"team":"match(\"ops-*\")"}}`, target{"default", "x", json.RawMessage(`{"team":"ops-1"}`)}, true},
		"metadata in another namespace":   {`{"metadata":{"a":1}}`, target{"team", "x", json.RawMessage(`{"a":1}`)}, false},
		"a function without metadata":     {`{"metadata":{"a":1}}`, target{"default", "x", nil}, false},
		"metadata that is no object":      {`{"metadata":{"a":1}}`, target{"default", "x", json.RawMessage(`[]`)}, false},
		"a text beside a pattern is text": {`{"metadata":{"a":"x*"}}`, target{"default", "x", json.RawMessage(`{"a":"xy"}`)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var e Exposure
			if err := json.Unmarshal([]byte(tc.exposure), &e); err != nil {
				t.Fatal(err)
			}
			if err := e.validate(); err != nil {
				t.Fatal(err)
			}
			if got := e.covers(tc.target); got != tc.want {
				t.Errorf("covers is %v", got)
			}
		})
	}
}

func TestExposure_refusals(t *testing.T) {
	for name, text := range map[string]string{
		"an unknown field": `{"mach":"a"}`, "nothing": `{}`, "both": `{"match":"a","metadata":{"a":1}}`, "a blank pattern": `" "`,
	} {
		t.Run(name, func(t *testing.T) {
			var e Exposure
			if json.Unmarshal([]byte(text), &e) == nil && e.validate() == nil {
				t.Error("accepted")
			}
		})
	}
}
