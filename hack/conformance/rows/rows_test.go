package rows

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRead wants every way in which a suite can break to be a failed row.
func TestRead(t *testing.T) {
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
		"a row has no outcome":            {[]string{`{"plan":1}`, `{"id":"1"}`}, nil, counts{0, 1}},
		"something else was written":      {[]string{`{"plan":1}`, "Traceback", passed}, nil, counts{1, 1}},
		"a line is longer than the bound": {[]string{`{"plan":1}`, passed, strings.Repeat("x", maxLine+1)}, nil, counts{1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r := Read(strings.NewReader(strings.Join(tc.lines, "\n")), tc.ended, "")
			got := counts{r.Count(true), r.Count(false)}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}
