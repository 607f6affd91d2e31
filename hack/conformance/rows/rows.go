// Package rows reads what a conformance suite reports, one row of JSON a line, and
// prints it.
package rows

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxLine bounds one line of a suite's output in bytes.
const maxLine = 4 << 20

// complaintBytes is how much of a suite's stderr is shown when it broke.
const complaintBytes = 4 << 10

// errNoPlan is of a suite that ended before it said what it would do.
var errNoPlan = errors.New("the suite ended before it said how many rows it has")

// Row is one row as a suite reports it.
type Row struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Error string `json:"error"`
	MS    int    `json:"ms"`
	// Plan is how many rows there are; set on a suite's first line only.
	Plan int `json:"plan"`
}

// Report is what a suite came to.
type Report struct {
	// About is said before the rows.
	About []string

	rows []Row
	plan int
}

// Add appends a row.
func (r *Report) Add(row Row) { r.rows = append(r.rows, row) }

// Broken is the report of a suite that could not be run.
func Broken(err error) Report {
	return Report{rows: []Row{{ID: "suite", Name: "runs to its end", Error: err.Error()}}}
}

// Read reads the lines of JSON that a suite wrote. A suite that died, or
// left out rows that it announced, has failed even if all its rows passed.
func Read(output io.Reader, ended error, complaints string) Report {
	var r Report
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var row Row
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			row = Row{ID: "suite", Name: "reports rows only", Error: lines.Text()}
		}
		if row.Plan > 0 {
			r.plan = row.Plan
			continue
		}
		r.Add(row)
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
		r.Add(Row{ID: "suite", Name: "runs to its end", Error: ended.Error() + "\n" + tail})
	}
	return r
}

// Count counts the rows that passed, or those that failed.
func (r Report) Count(ok bool) int {
	n := 0
	for _, row := range r.rows {
		if row.OK == ok {
			n++
		}
	}
	return n
}

// Print writes the rows under the suite's name.
func (r Report) Print(out io.Writer, suite string) {
	_, _ = fmt.Fprintf(out, "%s\n", suite)
	for _, line := range r.About {
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
