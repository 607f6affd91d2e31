package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

func TestReadReport(t *testing.T) {
	const passed, failed = `{"id":"1","name":"a","ok":true}`, `{"id":"2","name":"b","ok":false,"error":"no"}`
	type counts struct{ Passed, Failed int }
	for name, tc := range map[string]struct {
		lines []string
		ended error
		want  counts
	}{
		"all rows passed":                 {[]string{`{"plan":1}`, passed}, nil, counts{1, 0}},
		"a row failed":                    {[]string{`{"plan":2}`, passed, failed}, nil, counts{1, 1}},
		"a row is missing":                {[]string{`{"plan":2}`, passed}, nil, counts{1, 1}},
		"nothing was written":             {nil, nil, counts{0, 1}},
		"the suite died after its rows":   {[]string{`{"plan":1}`, passed}, errors.New("exit status 1"), counts{1, 1}},
		"something else was written":      {[]string{`{"plan":1}`, "Traceback", passed}, nil, counts{1, 1}},
		"a line is longer than the bound": {[]string{`{"plan":1}`, passed, strings.Repeat("x", maxLine+1)}, nil, counts{1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r := readReport(strings.NewReader(strings.Join(tc.lines, "\n")), tc.ended, "")
			got := counts{r.count(true), r.count(false)}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}
