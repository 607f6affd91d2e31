// Package plan draws from a seed what goes wrong in a storm, and when. The same
// seed always gives the same plan.
package plan

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fault is one thing that goes wrong.
type Fault struct {
	// Number is its place in the whole plan, from 1; it stays when others are left
	// out.
	Number int
	// At is when it begins, counted from the storm's begin; For is how long it lasts.
	At, For time.Duration
	Kind    Kind
	// Seed is for what is left to chance while it lasts.
	Seed uint64
}

// Plan is a storm.
type Plan struct {
	Seed  uint64
	Short bool
	// Span is how long calls and edits go on.
	Span   time.Duration
	Faults []Fault
	// whole is the number of faults before some were left out.
	whole int
}

const (
	shortSpan, shortFaults = 24 * time.Second, 8
	fullSpan, fullFaults   = 140 * time.Second, 30
	// calm is left at the begin and at the end of the span.
	calm = time.Second
	// resolution keeps printed plans readable.
	resolution = 100 * time.Millisecond
	// stream tells this use of a seed from others.
	stream = 0x5a4db0c5
)

// Draw makes the plan of a seed. In a full one every kind occurs.
func Draw(seed uint64, short bool) Plan {
	random := rand.New(rand.NewPCG(seed, stream))
	p := Plan{Seed: seed, Short: short, Span: fullSpan}
	count := fullFaults
	if short {
		p.Span, count = shortSpan, shortFaults
	}
	for _, kind := range drawKinds(random, count, short) {
		p.Faults = append(p.Faults, drawFault(random, kind, p.Span))
	}
	p.Faults = untangle(p.Faults, p.Span)
	for i := range p.Faults {
		p.Faults[i].Number = i + 1
	}
	p.whole = len(p.Faults)
	return p
}

// drawKinds deals kinds like cards, so that none comes twice before all others
// came once.
func drawKinds(random *rand.Rand, count int, short bool) []Kind {
	var kinds []Kind
	for len(kinds) < count {
		for _, i := range random.Perm(len(natures)) {
			if n := natures[i]; !short || !n.inFullOnly {
				kinds = append(kinds, n.kind)
			}
		}
	}
	return kinds[:count]
}

func drawFault(random *rand.Rand, kind Kind, span time.Duration) Fault {
	n := natureOf(kind)
	length := between(random, n.shortest, n.longest)
	return Fault{Kind: kind, For: length, At: between(random, calm, span-calm-length), Seed: random.Uint64()}
}

func between(random *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(random.Int64N(int64((high-low)/resolution)+1))*resolution
}

// untangle moves faults until no two of one lane overlap, and then orders them.
// The first of a lane keep their place; one for which there is none is dropped.
func untangle(faults []Fault, span time.Duration) []Fault {
	var placed []Fault
	for _, f := range faults {
		if f, ok := place(f, placed, span); ok {
			placed = append(placed, f)
		}
	}
	slices.SortStableFunc(placed, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return placed
}

// place finds the first free time at or after the one that was drawn, and goes on
// from the begin of the storm.
func place(f Fault, placed []Fault, span time.Duration) (Fault, bool) {
	slots := int((span - 2*calm - f.For) / resolution)
	first := int((f.At - calm) / resolution)
	for i := range slots + 1 {
		f.At = calm + time.Duration((first+i)%(slots+1))*resolution
		if !slices.ContainsFunc(placed, f.tangles) {
			return f, true
		}
	}
	return f, false
}

func (f Fault) tangles(other Fault) bool {
	return natureOf(f.Kind).lane == natureOf(other.Kind).lane && f.At <= other.At+other.For && other.At <= f.At+f.For
}

// Keep leaves out all faults but those of these numbers.
func (p Plan) Keep(numbers []int) (Plan, error) {
	kept := p
	kept.Faults = nil
	for _, f := range p.Faults {
		if slices.Contains(numbers, f.Number) {
			kept.Faults = append(kept.Faults, f)
		}
	}
	for _, number := range numbers {
		if number < 1 || number > p.whole {
			return p, fmt.Errorf("the plan has no fault %d; it has %d", number, p.whole)
		}
	}
	return kept, nil
}

// Numbers are those of the faults.
func (p Plan) Numbers() []int {
	var numbers []int
	for _, f := range p.Faults {
		numbers = append(numbers, f.Number)
	}
	return numbers
}

// ParseNumbers reads a list such as "3,7".
func ParseNumbers(list string) ([]int, error) {
	var numbers []int
	for text := range strings.SplitSeq(list, ",") {
		number, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("%q is not a number of a fault", text)
		}
		numbers = append(numbers, number)
	}
	return numbers, nil
}

// Command is what replays the plan.
func (p Plan) Command() string {
	command := fmt.Sprintf("make chaos SEED=%d", p.Seed)
	if p.Short {
		command += " SHORT=1"
	}
	if len(p.Faults) < p.whole {
		command += " KEEP=" + joined(p.Numbers())
	}
	return command
}

func joined(numbers []int) string {
	var texts []string
	for _, number := range numbers {
		texts = append(texts, strconv.Itoa(number))
	}
	return strings.Join(texts, ",")
}

// String is a table of the faults.
func (p Plan) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %d faults in %s\n", p.Command(), len(p.Faults), p.Span)
	for _, f := range p.Faults {
		fmt.Fprintf(&text, "  %3d  at %6.1f s for %4.1f s  %s\n", f.Number, f.At.Seconds(), f.For.Seconds(), f.Kind)
	}
	return text.String()
}
