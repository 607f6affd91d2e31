package main

import (
	"fmt"
	"io"
	"strings"
)

// shownProblems is how many of a row's problems are printed.
const shownProblems = 12

// report prints rows and counts them.
type report struct {
	out            io.Writer
	passed, failed int
}

// row reports what was wrong with something; nothing is a pass.
func (r *report) row(name string, problems []string) {
	if len(problems) == 0 {
		r.passed++
		fmt.Fprintf(r.out, "  ok    %s\n", name)
		return
	}
	r.failed++
	fmt.Fprintf(r.out, "  FAIL  %s\n", name)
	for i, problem := range problems {
		if i == shownProblems {
			fmt.Fprintf(r.out, "          and %d more\n", len(problems)-i)
			return
		}
		fmt.Fprintf(r.out, "          %s\n", strings.ReplaceAll(problem, "\n", "\n            "))
	}
}

// errorRow is row for something that ends with an error.
func (r *report) errorRow(name string, err error) {
	if err == nil {
		r.row(name, nil)
		return
	}
	r.row(name, []string{err.Error()})
}

func (r *report) say(format string, args ...any) { fmt.Fprintf(r.out, "  "+format+"\n", args...) }
