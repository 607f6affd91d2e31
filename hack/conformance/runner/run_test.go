package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// TestRun_leavesNothing runs a few rows of each phase on the whole stack, as
// `make conformance-runner` runs all.
func TestRun_leavesNothing(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	var out strings.Builder
	sum, err := run(t.Context(), options{only: "A31,A38,B01,C01,D28,A01,A14,E01", width: 4}, &out, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	// Two lines are of the ends of phase and stack.
	if sum != (totals{passed: 10}) {
		t.Errorf("%d rows passed, %d failed:\n%s", sum.passed, sum.failed, out.String())
	}
	if !strings.HasSuffix(out.String(), "\n10 passed, 0 failed\n") {
		t.Errorf("the last line is not the sum:\n%s", out.String())
	}
	if left, err := filepath.Glob(filepath.Join(temporary, "*")); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
}

func TestReport_countsFailures(t *testing.T) {
	var out strings.Builder
	r := report{out: &out}
	r.row(outcome{entry: catalog[0]})
	r.row(outcome{entry: catalog[1], why: "Expected\n    nothing", scripted: true})
	r.end("the stack", "ends with nothing left", os.ErrClosed)
	if r.sum != (totals{passed: 1, failed: 2}) {
		t.Errorf("counted %+v", r.sum)
	}
	for _, want := range []string{"ok    same", "FAIL  replaced, scripted", "        Expected\n            nothing\n", "file already closed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
}

// TestAttempt wants every way to fail to be a reason, and never to end the suite.
func TestAttempt(t *testing.T) {
	for name, tc := range map[string]struct {
		test func(*row)
		want string
	}{
		"passes":                     {func(*row) {}, ""},
		"an assertion":               {func(t *row) { t.Expect(1).To(Equal(2)) }, "to equal"},
		"a panic":                    {func(*row) { panic("boom") }, "boom"},
		"one of several at a time":   {func(t *row) { t.together(func() {}, func() { panic(failure{"second"}) }) }, "second"},
		"something in the back":      {func(t *row) { t.background(func() { panic(failure{"behind"}) })() }, "behind"},
		"a call without its program": {func(t *row) { t.ok(errDriverEnded) }, errDriverEnded.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			got := newRow(t.Context(), &world{}, "A01").attempt(tc.test)
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("the reason is %q, want %q in it", got, tc.want)
			}
		})
	}
}
