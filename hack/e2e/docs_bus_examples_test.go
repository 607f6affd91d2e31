package e2e

import (
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// runnerPage has requests and responses of the operator's functions.
const runnerPage = "docs/sandbox-code-runner.md"

// example is a request and the response that a page shows for it.
type example struct {
	function, request, response string
}

// arrow stands between a request and its response.
const arrow = "→"

// busExamples reads the JSON blocks below the headings that name functions.
func busExamples(p page) []example {
	GinkgoHelper()
	var found []example
	for section := range strings.SplitSeq(p.text, "\n## ") {
		name, body, _ := strings.Cut(section, "\n")
		for _, block := range (page{text: body}).blocks("json") {
			// A response stands beside its request or below it.
			block = strings.ReplaceAll(block, "\n"+arrow, arrow)
			for line := range strings.Lines(block) {
				request, response, both := strings.Cut(line, arrow)
				Expect(both).To(BeTrue(), "%s: no response in %s", name, line)
				found = append(found, example{"sandbox-code-runner::" + name, request, response})
			}
		}
	}
	return found
}

// withID puts a kept runtime's id where the page has a made up one.
func withID(text, id string) m {
	GinkgoHelper()
	var value m
	Expect(json.Unmarshal([]byte(strings.ReplaceAll(text, "rt-…", id)), &value)).To(Succeed(), text)
	return value
}

var _ = Describe("The page of the operator's functions", func() {
	It("shows responses that callers get", func(ctx SpecContext) {
		id := keepRuntime(ctx, "node", "1")
		registerOnBus(ctx, "shop::tax", "node", nodeEcho)
		examples := busExamples(readPage(runnerPage))
		asked := map[string]bool{}
		for _, e := range examples {
			By(e.function + " " + e.request)
			asked[e.function] = true
			var answer m
			Expect(json.Unmarshal([]byte(call(ctx, e.function, withID(e.request, id))), &answer)).To(Succeed())
			for field, want := range withID(e.response, id) {
				expectShown(answer, field, want)
			}
		}
		Expect(asked).To(HaveLen(4), "all functions of callers have examples")
	}, specPatience)
})

// expectShown compares a field with what the page shows of it, apart from what
// differs from call to call.
func expectShown(answer m, field string, want any) {
	GinkgoHelper()
	switch field {
	case "duration_ms":
		Expect(answer).To(HaveKeyWithValue(field, BeNumerically(">=", 0)))
	case "unregistered":
		Expect(answer).To(HaveKeyWithValue(field, ConsistOf(want)))
	case "runtimes":
		for _, row := range want.([]any) {
			expectRow(answer[field].([]any), row.(m))
		}
	default:
		Expect(answer).To(HaveKeyWithValue(field, want))
	}
}

// expectRow looks for a runtime. Which one it is, the language and functions
// tell; the rest is of another day.
func expectRow(rows []any, want m) {
	GinkgoHelper()
	row := And(HaveKey("reference"), HaveKey("created_at_ms"))
	for _, field := range []string{"namespace", "lang", "registered_functions", "runtime_id"} {
		if value, shown := want[field]; shown {
			row = And(row, HaveKeyWithValue(field, value))
		} else {
			row = And(row, Not(HaveKey(field)))
		}
	}
	Expect(rows).To(ContainElement(row))
}
