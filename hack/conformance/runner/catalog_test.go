package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// groups are the rows of contracts/code-runner.md §18 by group; L is the
// console's.
var groups = []struct {
	letter string
	rows   int
}{
	{"A", 43}, {"B", 21}, {"C", 18}, {"D", 28}, {"E", 22}, {"F", 30}, {"G", 20}, {"H", 13}, {"I", 13}, {"J", 15}, {"K", 15},
}

func TestCatalog_hasEveryRowOnce(t *testing.T) {
	var want, got []string
	for _, g := range groups {
		for i := range g.rows {
			want = append(want, fmt.Sprintf("%s%02d", g.letter, i+1))
		}
	}
	for _, e := range catalog {
		got = append(got, e.id())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ids of the catalog (-want +got):\n%s", diff)
	}
}

func TestCatalog_entries(t *testing.T) {
	form := regexp.MustCompile(`^[A-K][0-9]{2}(_[a-z0-9]+)+$`)
	for _, e := range catalog {
		switch {
		case !form.MatchString(e.name):
			t.Errorf("the name %q has another form than A01_some_words", e.name)
		case e.test == nil:
			t.Errorf("%s has no test", e.name)
		case e.says == "":
			t.Errorf("%s does not say what holds", e.name)
		case (e.why == "") != (e.is == same):
			t.Errorf("%s is %s and gives the reason %q", e.name, e.is, e.why)
		}
	}
}

func TestWeaknesses_complete(t *testing.T) {
	var want, got []string
	for _, g := range []struct {
		letter string
		count  int
	}{{"W", 18}, {"R", 10}, {"X", 30}} {
		for i := range g.count {
			want = append(want, fmt.Sprintf("%s%d", g.letter, i+1))
		}
	}
	for _, w := range weaknesses {
		got = append(got, w.id)
		if w.what == "" || w.ours == "" {
			t.Errorf("%s lacks a text", w.id)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ids of the weaknesses (-want +got):\n%s", diff)
	}
}

// TestWeaknesses_testsExist follows each name to a row, or to a test in a folder.
func TestWeaknesses_testsExist(t *testing.T) {
	rows := map[string]bool{}
	for _, e := range catalog {
		rows[e.name] = true
	}
	for _, w := range weaknesses {
		for _, name := range w.tests {
			folder, test, elsewhere := strings.Cut(name, " ")
			if !elsewhere && !rows[name] || elsewhere && !hasTest(t, folder, test) {
				t.Errorf("%s names the test %s, which does not exist", w.id, name)
			}
		}
	}
}

func hasTest(t *testing.T, folder, test string) bool {
	t.Helper()
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("func "+test+"(")) {
			return true
		}
	}
	return false
}

func TestDocs_haveTheTables(t *testing.T) {
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "code-runner.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, begun := strings.Cut(string(text), tablesBegin+"\n\n")
	got, _, ended := strings.Cut(after, "\n"+tablesEnd)
	if !begun || !ended {
		t.Fatalf("docs/code-runner.md lacks the marks %q and %q", tablesBegin, tablesEnd)
	}
	if diff := cmp.Diff(tables(), got); diff != "" {
		t.Errorf("put the output of bin/conformance-runner --table between the marks (-want +got):\n%s", diff)
	}
}
