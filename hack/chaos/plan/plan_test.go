package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestDraw_sameSeedSamePlan(t *testing.T) {
	for seed := range uint64(10) {
		for _, short := range []bool{false, true} {
			if diff := cmp.Diff(Draw(seed, short), Draw(seed, short), cmpopts.IgnoreUnexported(Plan{})); diff != "" {
				t.Errorf("seed %d, short %v, differs:\n%s", seed, short, diff)
			}
		}
	}
	if cmp.Equal(Draw(1, false), Draw(2, false), cmpopts.IgnoreUnexported(Plan{})) {
		t.Error("two seeds give one plan")
	}
}

func TestDraw_faultsFit(t *testing.T) {
	for seed := range uint64(40) {
		for _, short := range []bool{false, true} {
			p := Draw(seed, short)
			for i, f := range p.Faults {
				if f.Number != i+1 || f.At < calm || f.At+f.For > p.Span-calm {
					t.Fatalf("seed %d: fault %+v does not fit into %s", seed, f, p.Span)
				}
				for _, other := range p.Faults[:i] {
					if f.tangles(other) || other.At > f.At {
						t.Fatalf("seed %d: %+v and %+v", seed, other, f)
					}
				}
			}
		}
	}
}

// The storm of a seed may have no room for a second fault of a kind, but always
// for the first.
func TestDraw_everyKindOccursInFull(t *testing.T) {
	for seed := range uint64(40) {
		seen := map[Kind]bool{}
		for _, f := range Draw(seed, false).Faults {
			seen[f.Kind] = true
		}
		if len(seen) != len(natures) {
			t.Errorf("seed %d has %d of %d kinds", seed, len(seen), len(natures))
		}
	}
}

func TestPlan_Keep(t *testing.T) {
	whole := Draw(7, true)
	kept, err := whole.Keep([]int{2, 5})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Fault{whole.Faults[1], whole.Faults[4]}, kept.Faults); diff != "" {
		t.Errorf("kept faults (-want +got):\n%s", diff)
	}
	if got, want := kept.Command(), "make chaos SEED=7 SHORT=1 KEEP=2,5"; got != want {
		t.Errorf("it is replayed by %q, want %q", got, want)
	}
	if got, want := whole.Command(), "make chaos SEED=7 SHORT=1"; got != want {
		t.Errorf("the whole plan is replayed by %q, want %q", got, want)
	}
	if _, err := whole.Keep([]int{99}); err == nil {
		t.Error("a fault that the plan does not have is kept")
	}
}

func TestParseNumbers(t *testing.T) {
	numbers, err := ParseNumbers("3, 7")
	if diff := cmp.Diff([]int{3, 7}, numbers); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, list := range []string{"", "3,", "x"} {
		if _, err := ParseNumbers(list); err == nil {
			t.Errorf("%q was taken", list)
		}
	}
}

func TestShrink(t *testing.T) {
	whole := Draw(3, false)
	for name, tc := range map[string]struct {
		culprits []int
		tries    int
		want     []int
	}{
		"one fault is to blame":    {[]int{13}, 40, []int{13}},
		"two that lie apart":       {[]int{2, 25}, 100, []int{2, 25}},
		"nothing fails again":      {[]int{99}, 100, whole.Numbers()},
		"no tries":                 {[]int{13}, 0, whole.Numbers()},
		"one try finds the half":   {[]int{1}, 1, whole.Numbers()[:len(whole.Faults)/2]},
		"two tries find a quarter": {[]int{1}, 2, whole.Numbers()[:len(whole.Faults)/2/2]},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			small := Shrink(whole, tc.tries, func(p Plan) bool {
				asked++
				return len(p.Faults) > 0 && containsAll(p.Numbers(), tc.culprits)
			})
			if diff := cmp.Diff(tc.want, small.Numbers()); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			if asked > tc.tries {
				t.Errorf("asked %d times, allowed %d", asked, tc.tries)
			}
		})
	}
}

func containsAll(numbers, wanted []int) bool {
	for _, w := range wanted {
		found := false
		for _, n := range numbers {
			found = found || n == w
		}
		if !found {
			return false
		}
	}
	return true
}
