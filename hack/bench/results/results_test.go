package results

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/hack/figures"
)

func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }

// noisy is a slot whose calls take about as long as said, in milliseconds.
func noisy(random *rand.Rand, about float64) Slot {
	var slot Slot
	for range 30 {
		slot.Latencies = append(slot.Latencies, time.Duration(about*(0.8+0.4*random.Float64())*float64(time.Millisecond)))
	}
	return slot
}

func TestSummarize(t *testing.T) {
	got := Summarize([]Slot{
		{Latencies: milliseconds(4, 2), Done: 10, Window: time.Second, Calls: 4, Operator: 2 * time.Millisecond, Cold: 1},
		{Latencies: milliseconds(6), Done: 20, Window: 500 * time.Millisecond, Calls: 6, Guests: 50 * time.Millisecond},
	})
	want := Summary{Count: 3, P50: 4, P90: 6, P99: 6, Max: 6, PerSecond: 20, OperatorCPU: 0.2, GuestCPU: 5, Cold: 0.1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// measured is a whole run: PerCall is ten times as fast as the original in Node and
// four times in Python, Shared twice as fast as PerCall.
func measured() Set {
	s := Set{}
	for language, factor := range map[string]int{"node": 10, "python": 4} {
		for _, cell := range []Cell{Lone(language), Paced(language), Saturated(language)} {
			for range 3 {
				for way, speed := range map[Way]int{HandOff: 5 * factor, Bare: 1, Original: 1, PerCall: factor, Shared: 2 * factor} {
					s.Add(cell, way, Slot{
						Latencies: []time.Duration{200 * time.Millisecond / time.Duration(speed)},
						Done:      5 * speed, Window: time.Second, Calls: 10, Operator: 2 * time.Millisecond,
					})
				}
			}
		}
	}
	return s
}

func TestSet_Store(t *testing.T) {
	m := figures.Metrics{}
	measured().Store(m)
	for name, want := range map[string]float64{
		"call.node.ratio": 0.1, "call.node.ratio_low": 0.1, "call.node.ratio_high": 0.1, "call.python.ratio": 0.25,
		"call.node.handoff_ratio": 5, "call.python.handoff_ratio": 5,
		"throughput.node.ratio": 10, "throughput.python.ratio": 4,
		"throughput.shared.node.ratio": 20, "throughput.shared.python.ratio": 8, "throughput.shared.ratio": 8,
		"call.operator_cpu_ms": 0.2, "cell.node.empty.c1.i1.percall.p50_ms": 20, "cell.python.empty.c16.i1.shared.per_s": 40,
	} {
		if got, has := m[name]; !has || math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %v (%t), want %v", name, got, has, want)
		}
	}
}

func TestSet_Store_nothing(t *testing.T) {
	m := figures.Metrics{}
	s := measured()
	delete(s, Saturated("python"))
	s.Store(m)
	for _, name := range []string{"throughput.python.ratio", "throughput.shared.python.ratio", "throughput.shared.ratio"} {
		if value, has := m[name]; has {
			t.Errorf("%s is %v although it was not measured", name, value)
		}
	}
	(Set{}).Store(m) // What has no cell has no number, and does not fail.
	if _, has := m["throughput.node.ratio"]; !has {
		t.Error("what was measured is not there")
	}
}

func TestSet_Table(t *testing.T) {
	s := measured()
	s.Add(Cell{Language: "node", Handler: "large", Callers: 4, Instances: 4}, PerCall, Slot{Calls: 1, Window: time.Second})
	table := s.Table()
	for _, row := range []string{
		"### Node\n", "### Python\n",
		"| empty, 1, 1 | hand-off to a waiting process | 3 | 4 | 4 | 4 | 4 |  |  | 0 |  | 0.020 (0.020–0.020) |  |\n",
		"|  | original: sandbox::exec | 3 | 200 | 200 | 200 | 200 | 5 |  | 0 |  |  |  |\n",
		"|  | PerCall | 3 | 20 | 20 | 20 | 20 | 50 | 0.200 | 0 | 0 % | 0.100 (0.100–0.100) | 10 (10–10) |\n",
		"| large, 4, 4 | PerCall | 0 |  |  |  |  | 0 | 0 | 0 | 0 % |  |  |\n",
	} {
		if !strings.Contains(table, row) {
			t.Errorf("the table lacks %s\n%s", row, table)
		}
	}
}

func TestVerdicts(t *testing.T) {
	got := Verdicts(figures.Metrics{"call.node.ratio": 0.2, "call.node.ratio_low": 0.15, "call.node.ratio_high": 0.25, "throughput.node.ratio": 2})
	for _, row := range []string{"| ≤ 0.1 | 0.200, missed | 0.150–0.250 |", "| ≥ 1.3 | 2 |  |"} {
		if !strings.Contains(got, row) {
			t.Errorf("no %q in\n%s", row, got)
		}
	}
	if rows := strings.Count(got, "\n"); rows != 4 {
		t.Errorf("%d lines, want those of two numbers only:\n%s", rows, got)
	}
}

// Every number with a target has its row, and the other way round.
func TestVerdicts_complete(t *testing.T) {
	told := figures.Targets{}
	for _, v := range verdicts {
		told[v.metric] = Targets[v.metric]
	}
	if diff := cmp.Diff(Targets, told); diff != "" {
		t.Error(diff)
	}
}

func TestParts(t *testing.T) {
	got := Parts(figures.Metrics{"cold.node.call_ms": 120, "cold.node.create_ms": 7.5, "instance.python.shared.rest_mb": 33, "steady.node.per_s": 20})
	for _, row := range []string{"| node | 120 | 7.50 |  |  |  |\n", "| python, shared | 33 |  |\n", "| node | 20 |  |  |  |\n"} {
		if !strings.Contains(got, row) {
			t.Errorf("no %q in\n%s", row, got)
		}
	}
}

func TestSet_points(t *testing.T) {
	s := measured()
	s.Add(Cell{Language: "node", Handler: "empty", Callers: 64, Instances: 1}, PerCall, Slot{Window: time.Second}) // No answer in the window.
	got := s.points("node", PerCall, func(y Summary) float64 { return y.PerSecond })
	if len(got) != 2 || got[0].X != 1 || got[0].Y != 50 || got[1].X != SaturatedCallers || got[1].Y != 50 {
		t.Errorf("got %v", got)
	}
	if ticks := s.callerTicks(); len(ticks) != 3 || ticks[2].Label != "64" {
		t.Errorf("the ticks are %v", ticks)
	}
}

func TestSet_Plot(t *testing.T) {
	for name, s := range map[string]Set{"a whole run": measured(), "one number": {Lone("node"): {PerCall: slots(10, 5)}}, "nothing": {}} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := s.Plot(&out); err != nil {
				t.Fatal(err)
			}
			for reader := xml.NewDecoder(bytes.NewReader(out.Bytes())); ; {
				if _, err := reader.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("the picture is no XML: %v", err)
				}
			}
			if name == "a whole run" && !strings.Contains(out.String(), titles[PerCall]) {
				t.Error("the picture does not name the ways")
			}
		})
	}
}

func TestReplace(t *testing.T) {
	page := "before\n" + Begin + "\nold\n" + End + "\nafter\n"
	want := "before\n" + Begin + "\n\nnew\n\n" + End + "\nafter\n"
	for range 2 { // Again, it changes nothing.
		got, err := Replace(page, "new\n")
		if err != nil || got != want {
			t.Fatalf("got %q, %v", got, err)
		}
		page = got
	}
	for _, page := range []string{"", Begin, End + Begin} {
		if _, err := Replace(page, "new"); !errors.Is(err, ErrNoPlace) {
			t.Errorf("of %q: %v", page, err)
		}
	}
}
