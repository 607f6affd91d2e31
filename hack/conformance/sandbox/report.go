package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// maxLine bounds one line of a suite's output in bytes.
const maxLine = 4 << 20

// complaintBytes is how much of a suite's stderr is shown when it broke.
const complaintBytes = 4 << 10

// result is one row as a suite reports it.
type result struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Error string `json:"error"`
	MS    int    `json:"ms"`
	// Plan is how many rows there are; set on a suite's first line only.
	Plan int `json:"plan"`
}

// report is what a suite came to.
type report struct {
	rows []result
	plan int
	// about is said before the rows.
	about []string
}

func (r *report) add(row result) { r.rows = append(r.rows, row) }

// brokenReport is of a suite that could not be run.
func brokenReport(err error) report {
	return report{rows: []result{{ID: "suite", Name: "runs to its end", Error: err.Error()}}}
}

// readReport reads the lines of JSON that a suite wrote. A suite that died, or
// left out rows that it announced, has failed even if all its rows passed.
func readReport(output io.Reader, ended error, complaints string) report {
	var r report
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var row result
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			row = result{ID: "suite", Name: "reports rows only", Error: lines.Text()}
		}
		if row.Plan > 0 {
			r.plan = row.Plan
			continue
		}
		r.add(row)
	}
	switch {
	case lines.Err() != nil:
		ended = lines.Err()
	case ended == nil && r.plan == 0:
		ended = errNoPlan
	case ended == nil && len(r.rows) < r.plan:
		ended = fmt.Errorf("%d of %d rows are missing", r.plan-len(r.rows), r.plan)
	}
	if ended != nil {
		tail := complaints[max(0, len(complaints)-complaintBytes):]
		r.add(result{ID: "suite", Name: "runs to its end", Error: ended.Error() + "\n" + tail})
	}
	return r
}

// count counts the rows that passed, or those that failed.
func (r report) count(ok bool) int {
	n := 0
	for _, row := range r.rows {
		if row.OK == ok {
			n++
		}
	}
	return n
}

func (r report) print(out io.Writer, suite string) {
	_, _ = fmt.Fprintf(out, "%s\n", suite)
	for _, line := range r.about {
		_, _ = fmt.Fprintf(out, "  %s\n", line)
	}
	for _, row := range r.rows {
		mark := "ok  "
		if !row.OK {
			mark = "FAIL"
		}
		_, _ = fmt.Fprintf(out, "  %s  %-34s %s (%d ms)\n", mark, row.ID, row.Name, row.MS)
		if !row.OK {
			_, _ = fmt.Fprintf(out, "        %s\n", strings.ReplaceAll(strings.TrimSpace(row.Error), "\n", "\n        "))
		}
	}
}
