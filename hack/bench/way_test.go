package main

import (
	"errors"
	"slices"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/hack/bench/results"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// hostBench runs what needs no stack.
func hostBench(t *testing.T) *hostPrograms {
	t.Helper()
	programs, err := newHostPrograms(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return programs
}

// What runs on the host gives the answers that everything else must give.
func TestHost_answers(t *testing.T) {
	host := hostBench(t)
	for _, l := range languages {
		for _, w := range works {
			if w.triggers {
				continue
			}
			cell := results.Cell{Language: l.name, Handler: w.name, Callers: 1, Instances: 1}
			for _, way := range []way{host.bare(cell), host.handOff(cell)} {
				t.Run(l.name+" "+w.name+" "+string(way.name), func(t *testing.T) { callTwice(t, way, w) })
			}
		}
	}
}

func callTwice(t *testing.T, w way, wk work) {
	if w.end != nil {
		defer func() {
			if err := w.end(); err != nil {
				t.Error(err)
			}
		}()
	}
	for n := range 2 {
		if w.before != nil {
			if err := w.before(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		answer, err := w.call(t.Context(), 0, wk.payload(n))
		if err == nil {
			err = wk.check(n, answer)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestWork_check(t *testing.T) {
	w, err := workNamed("trigger")
	if err != nil {
		t.Fatal(err)
	}
	for answer, right := range map[string]bool{"8": true, "8\n": true, "7": false, "": false, "null": false, `"8"`: false} {
		if got := w.check(7, []byte(answer)) == nil; got != right {
			t.Errorf("%q is right: %t", answer, got)
		}
	}
	if _, err := workNamed("none"); err == nil {
		t.Error("a handler that there is not is found")
	}
}

func TestUnframe(t *testing.T) {
	for name, tc := range map[string]struct {
		result sandbox.ExecResult
		want   string
	}{
		"the line after the sentinel":       {sandbox.ExecResult{Stdout: []byte("printed\n\nS\n7\nlate\n")}, "7"},
		"no sentinel":                       {sandbox.ExecResult{Stdout: []byte("7\n")}, ""},
		"a sentinel within a line":          {sandbox.ExecResult{Stdout: []byte("\nxS\n7\n")}, ""},
		"a frame that is cut":               {sandbox.ExecResult{Stdout: []byte("\nS\n7")}, ""},
		"a handler's error, with exit code": {sandbox.ExecResult{Stdout: []byte("\nS\n{\"error\":\"bad\"}\n"), ExitCode: 1}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := unframe(tc.result, "S")
			if string(got) != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// The ratios come from cells that every run has, whatever its size.
func TestPlans(t *testing.T) {
	for name, p := range map[string]plan{"quick": quickPlan(), "default": defaultPlan(), "full": fullPlan()} {
		seen := map[results.Cell]bool{}
		for _, c := range p.cells {
			if seen[c.Cell] {
				t.Errorf("%s: %s is there twice", name, c)
			}
			seen[c.Cell] = true
			if _, err := workNamed(c.Handler); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, l := range results.Languages {
			if !seen[results.Paced(l)] || !seen[results.Saturated(l)] {
				t.Errorf("%s: the ratios of %s have no cells", name, l)
			}
		}
		if len(p.with(1))+len(p.with(manyInstances)) != len(p.cells) {
			t.Errorf("%s: some cells have another number of instances", name)
		}
	}
	if got, want := len(fullPlan().cells), 2*len(works)*len(allCallers)*2+2; got != want {
		t.Errorf("a full run has %d cells, want %d", got, want)
	}
	if p := (options{quick: true, samples: 3}).plan(); p.samples != 3 || p.most() != 1 {
		t.Errorf("a quick run has %d samples and %d instances", p.samples, p.most())
	}
}

func TestBench_verdict(t *testing.T) {
	b := &bench{}
	if err := b.verdict(); err != nil {
		t.Error(err)
	}
	first := errors.New("the first")
	b.wrong("percall, empty", first)
	b.wrong("percall, empty", errors.New("the second"))
	if err := b.verdict(); !errors.Is(err, first) {
		t.Errorf("got %v", err)
	}
}

func TestResultsLanguages(t *testing.T) {
	var names []string
	for _, l := range languages {
		names = append(names, l.name)
	}
	if !slices.Equal(names, results.Languages) {
		t.Errorf("%v are measured, %v are told", names, results.Languages)
	}
}
