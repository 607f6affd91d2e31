package sandboxruntime

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

var birth = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// candidates reads a short notation: "0:ready" of the present template,
// "1:booting-old" of a former one, and further words: "lacks" a source that is
// served, "draining", "busy" with a program, "young".
func candidates(t *testing.T, notation string) []candidate {
	t.Helper()
	states := map[string]sandboxv1alpha1.InstanceState{
		"ready": sandboxv1alpha1.InstanceReady, "booting": sandboxv1alpha1.InstanceBooting,
		"stopping": sandboxv1alpha1.InstanceStopping,
	}
	var list []candidate
	for _, word := range strings.Fields(notation) {
		name, rest, _ := strings.Cut(word, ":")
		words := strings.Split(rest, "-")
		state := states[words[0]]
		if state == "" {
			t.Fatalf("no state %q", words[0])
		}
		c := candidate{current: true, serving: state == sandboxv1alpha1.InstanceReady}
		c.Name, c.State, c.CreatedAt = name, state, metav1.NewTime(birth)
		for _, flag := range words[1:] {
			switch flag {
			case "old":
				c.current = false
			case "lacks":
				c.serving = false
			case "draining":
				c.draining = true
			case "busy":
				c.inUse++
			case "young":
				c.CreatedAt = metav1.NewTime(birth.Add(time.Hour))
			default:
				t.Fatalf("no flag %q", flag)
			}
		}
		// An instance of an older template does not count as serving for the new.
		c.serving = c.serving && c.current
		list = append(list, c)
	}
	return list
}

func TestDecide(t *testing.T) {
	for name, tc := range map[string]struct {
		have                string
		want                int
		cramped             bool
		boot, surge, retire string
		short, replanting   bool
	}{
		"nothing is wanted and there is nothing":           {},
		"what is missing is made":                          {want: 2, boot: "0 1", short: true},
		"names are filled up from below":                   {have: "0:ready 2:ready", want: 3, boot: "1", short: true},
		"what boots is not made twice":                     {have: "0:booting", want: 1, short: true},
		"what is there is enough":                          {have: "0:ready 1:ready", want: 2},
		"too much goes, the last first":                    {have: "0:ready 1:ready 2:ready", want: 1, retire: "1 2"},
		"the newest goes, whatever its name":               {have: "0:ready-young 1:ready", want: 1, retire: "0"},
		"the idle goes before the busy, however old":       {have: "0:ready 1:ready-busy-young 2:ready-busy", want: 2, retire: "0"},
		"what drains already goes on to":                   {have: "0:ready-busy-draining 1:ready 2:ready", want: 2, retire: "0"},
		"what takes calls stays before what boots":         {have: "0:booting 1:ready", want: 1, retire: "0"},
		"nothing wanted, all goes":                         {have: "0:ready 1:booting", retire: "0 1"},
		"with nothing wanted there is no template":         {have: "0:ready-old", retire: "0"},
		"what stops counts for nothing":                    {have: "0:stopping 1:ready", want: 1},
		"what stops keeps its name":                        {have: "0:stopping", want: 1, boot: "1", short: true},
		"a new template boots one beside the old":          {have: "0:ready-old 1:ready-old", want: 2, boot: "2", surge: "2", short: true},
		"the old stays while the new boots":                {have: "0:ready-old 1:ready-old 2:booting", want: 2, short: true},
		"an old one goes when a new one serves":            {have: "0:ready-old 1:ready-old 2:ready", want: 2, retire: "1", short: true},
		"the idle old one goes first":                      {have: "0:ready-old 1:ready-old-busy 2:ready", want: 2, retire: "0", short: true},
		"no other boots while an old one drains":           {have: "0:ready-old 1:ready-old-busy-draining 2:ready", want: 2, retire: "1", short: true},
		"then the next one boots":                          {have: "0:ready-old 1:stopping 2:ready", want: 2, boot: "3", surge: "3", short: true},
		"and in the end all the old has gone":              {have: "0:ready-old 2:ready 3:ready", want: 2, retire: "0"},
		"the old stays while the new lacks a source":       {have: "0:ready-old 1:ready-lacks", want: 1, replanting: true},
		"without old ones nothing waits for sources":       {have: "0:ready-lacks", want: 1},
		"a lost old one is made up for":                    {have: "1:ready-old 2:booting", want: 3, boot: "0 3", surge: "3", short: true},
		"a second change drops what boots for the first":   {have: "0:ready-old 1:booting-old", want: 1, retire: "1", short: true},
		"a third template keeps the second, not the first": {have: "0:ready-old-busy 1:ready-old-young 2:booting", want: 1, retire: "0", short: true},
		"and boots once that has gone":                     {have: "0:ready-old", want: 1, boot: "1", surge: "1", short: true},
		"a roll that is taken back keeps what there is":    {have: "0:ready 1:booting-old", want: 1, retire: "1"},
		"more wanted in the middle of a roll":              {have: "0:ready-old 1:ready", want: 4, boot: "2 3 4", surge: "4", short: true},
		"less wanted in the middle of a roll":              {have: "0:ready-old 1:ready-old 2:ready", want: 1, retire: "0 1"},
		"without room an old one goes first":               {have: "0:ready-old 1:ready-old", want: 2, cramped: true, retire: "1", short: true},
		"and the new one takes its place":                  {have: "0:ready-old 1:stopping", want: 2, cramped: true, boot: "2", short: true},
		"which the other old one bridges":                  {have: "0:ready-old 2:booting", want: 2, cramped: true, short: true},
		"and so on":                                        {have: "0:ready-old 2:ready", want: 2, cramped: true, retire: "0", short: true},
		"the only one goes too":                            {have: "0:ready-old", want: 1, cramped: true, retire: "0", short: true},
		"and is made anew":                                 {have: "0:stopping", want: 1, cramped: true, boot: "1", short: true},
		"in want of room nothing goes for what is there":   {have: "0:ready 1:ready", want: 2, cramped: true},
	} {
		t.Run(name, func(t *testing.T) {
			got := decide(candidates(t, tc.have), tc.want, tc.cramped)
			want := plan{
				boot: strings.Fields(tc.boot), surge: tc.surge, retire: strings.Fields(tc.retire),
				short: tc.short, replanting: tc.replanting,
			}
			got.boot, got.retire = append([]string{}, got.boot...), append([]string{}, got.retire...)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(plan{})); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDecide_rolls carries plans out until nothing is left to do, and checks that
// enough sandboxes serve at every moment and that there are never too many.
func TestDecide_rolls(t *testing.T) {
	for _, want := range []int{1, 2, 3, 64} {
		for _, cramped := range []bool{false, true} {
			t.Run(strconv.Itoa(want)+" cramped "+strconv.FormatBool(cramped), func(t *testing.T) {
				var have []candidate
				for n := range want {
					have = append(have, candidates(t, strconv.Itoa(n)+":ready-old")...)
				}
				for step := 0; ; step++ {
					p := decide(have, want, cramped)
					if len(p.boot) == 0 && len(p.retire) == 0 && !anyBooting(have) {
						break
					}
					if step > 4*want+4 {
						t.Fatalf("it does not end: %+v", have)
					}
					have = carryOut(have, p)
					checkRoll(t, have, want, cramped)
				}
				if len(have) != want || count(have, func(c candidate) bool { return c.serving }) != want {
					t.Errorf("in the end there are %+v", have)
				}
			})
		}
	}
}

func anyBooting(list []candidate) bool {
	return count(list, func(c candidate) bool { return !c.ready() }) > 0
}

// carryOut lets what boots be ready, removes what shall go, and begins to boot.
func carryOut(have []candidate, p plan) []candidate {
	var next []candidate
	for _, c := range have {
		if !slices.Contains(p.retire, c.Name) {
			c.State, c.serving = sandboxv1alpha1.InstanceReady, c.current
			next = append(next, c)
		}
	}
	for _, name := range p.boot {
		c := candidate{current: true}
		c.Name, c.State = name, sandboxv1alpha1.InstanceBooting
		next = append(next, c)
	}
	return next
}

func checkRoll(t *testing.T, have []candidate, want int, cramped bool) {
	t.Helper()
	least, most := want, want+maxSurge
	if cramped {
		least, most = want-1, want
	}
	if ready := count(have, candidate.ready); ready < least || len(have) > most {
		t.Fatalf("%d of %d sandboxes take calls, want %d", ready, len(have), want)
	}
}

func TestOrdinal(t *testing.T) {
	for name, want := range map[string]int{"0": 0, "12": 12, "x": 0} {
		if got := ordinal(name); got != want {
			t.Errorf("the ordinal of %q is %d, want %d", name, got, want)
		}
	}
}
