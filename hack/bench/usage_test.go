package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	got, ok := parseStat([]byte("12 (a ) b) S 7 12 12 0 -1 4194304 1 2 3 4 10 20 30 40 20 0 1 0 5\n"))
	if want := (process{parent: 7, ticks: 100}); !ok || got != want {
		t.Errorf("got %+v, %t, want %+v", got, ok, want)
	}
	for _, bad := range []string{"", "12 (a) S 7", "12 (a) S 7 12 12 0 -1 4194304 1 2 3 4 x 20 30 40"} {
		if _, ok := parseStat([]byte(bad)); ok {
			t.Errorf("%q passes", bad)
		}
	}
}

func TestDescendants(t *testing.T) {
	got := descendants(map[int]process{1: {}, 2: {parent: 1}, 3: {parent: 2}, 4: {parent: 9}, 5: {parent: 2}}, 2)
	slices.Sort(got)
	if want := []int{2, 3, 5}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Both count what this process has used, each in its own way.
func TestProcessorTimes(t *testing.T) {
	const used = 60 * time.Millisecond
	threads, err := threadsTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	tree, err := treeTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for {
		threadsNow, err := threadsTime(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if threadsNow-threads >= used {
			break
		}
	}
	treeNow, err := treeTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if more := treeNow - tree; more < used-2*tick {
		t.Errorf("the tree has used %s more, its threads %s", more, used)
	}
	for name, read := range map[string]func(int) (time.Duration, error){"threads": threadsTime, "tree": treeTime} {
		if _, err := read(-1); err == nil {
			t.Errorf("%s of no process pass", name)
		}
	}
}

func TestReadCounter(t *testing.T) {
	text := "# TYPE starts counter\nstarts{start=\"cold\"} 1.2e+03\nstarts{start=\"ready\"} 7\n"
	for series, want := range map[string]int{`starts{start="cold"} `: 1200, `starts{start="forked"} `: 0} {
		if got, err := readCounter(strings.NewReader(text), series); err != nil || got != want {
			t.Errorf("%s is %d, %v, want %d", series, got, err, want)
		}
	}
}

func TestPause_ends(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := pause(ctx, time.Hour); err == nil {
		t.Error("it waited")
	}
}
