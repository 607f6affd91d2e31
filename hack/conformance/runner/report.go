package main

import (
	"fmt"
	"io"
	"strings"
)

// report prints rows as they end and counts them.
type report struct {
	out io.Writer
	sum totals
}

func (r *report) about(w *world) {
	_, _ = fmt.Fprintf(r.out, "callers: iii-sdk on Node; engine, daemon and operator at %s; logs in %s\n", w.stack.BusURL, "out/conformance-runner-logs")
}

func (r *report) row(o outcome) {
	mode := ""
	if o.scripted {
		mode = ", scripted"
	}
	r.line(o.is.String()+mode, fmt.Sprintf("%-46s %s (%d ms)", o.name, o.says, o.took.Milliseconds()), o.why)
}

// end reports what is not a row.
func (r *report) end(name, says string, err error) {
	why := ""
	if err != nil {
		why = err.Error()
	}
	r.line("", fmt.Sprintf("%-46s %s", name, says), why)
}

func (r *report) line(kind, text, why string) {
	mark := "ok  "
	if why != "" {
		mark = "FAIL"
		r.sum.failed++
	} else {
		r.sum.passed++
	}
	_, _ = fmt.Fprintf(r.out, "  %s  %-18s %s\n", mark, kind, text)
	if why != "" {
		_, _ = fmt.Fprintf(r.out, "        %s\n", strings.ReplaceAll(strings.TrimSpace(why), "\n", "\n        "))
	}
}

// at is the place in a row's own code from which an assertion failed.
func at(stack []byte) string {
	lines := strings.Split(string(stack), "\n")
	for i, line := range lines {
		if strings.Contains(line, "/conformance/runner/rows_") && i > 0 {
			return "\nat " + strings.TrimSpace(line)
		}
	}
	return ""
}
