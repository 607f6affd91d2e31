package main

import (
	"bytes"
	"strings"
	"testing"
)

// leastRows guards against suites that lose their rows.
const leastRows = 165

// TestRun drives the engine with all published clients, as `make
// conformance-bus` does.
func TestRun(t *testing.T) {
	var out bytes.Buffer
	sum, err := run(t.Context(), &out, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if sum.failed > 0 || sum.passed < leastRows {
		t.Errorf("%d rows passed, %d failed:\n%s", sum.passed, sum.failed, out.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if last := lines[len(lines)-1]; !strings.HasSuffix(last, " passed, 0 failed") {
		t.Errorf("the last line is %q", last)
	}
}
