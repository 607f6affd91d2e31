package sandboxruntime

import (
	"slices"
	"strconv"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// plan is what to do about the instances of a runtime.
type plan struct {
	// boot names the instances to make.
	boot []string
	// surge names the one of them that comes before an old one goes, if any.
	surge string
	// retire names the instances to drain and stop.
	retire []string
	// short is true while fewer instances of the present template are ready than
	// are wanted.
	short bool
	// replanting is true while old instances stay for functions whose source is not
	// in enough new ones yet.
	replanting bool
}

// candidate is what a plan has to know of an instance.
type candidate struct {
	sandboxv1alpha1.InstanceStatus
	// current is true if it was made from the present template.
	current bool
	// serving is true if it is ready and has every source that is being served.
	serving bool
	// draining is true if it takes no new calls.
	draining bool
	// inUse is the number of calls and runs in it.
	inUse int
}

func (c candidate) ready() bool { return c.State == sandboxv1alpha1.InstanceReady }

// maxSurge is how many sandboxes more than wanted there may be while new ones
// replace old ones.
const maxSurge = 1

// decide compares the instances with what is wanted. Instances from an older
// template go one by one, each when a new one serves in its stead, so that a
// change of the template costs no call. While the daemon has no room for one more
// (cramped), an old one goes first.
func decide(all []candidate, want int, cramped bool) plan {
	var p plan
	current, outdated, useless := split(all)
	ready, serving := count(current, candidate.ready), count(current, func(c candidate) bool { return c.serving })
	surge, keep := maxSurge, max(want-serving, 0)
	missing := max(want-len(current), 0)
	if cramped && missing > 0 {
		surge = 0
		if serving == len(current) {
			// Nothing is on its way that an old one has to bridge.
			keep = min(keep, missing-1)
		}
	}
	total := len(current) + len(outdated) + len(useless)
	for n := range max(min(missing, want+surge-total), 0) {
		name := freeName(all, p.boot)
		p.boot = append(p.boot, name)
		if total+n >= want {
			p.surge = name
		}
	}
	p.retire = slices.Concat(beyond(current, want, byWorth), names(useless), beyond(outdated, keep, byRecency))
	p.short = ready < want
	p.replanting = serving < ready && len(outdated) > 0
	return p
}

// split sorts the instances: those of the present template, ready ones of an older
// one, and those of an older one that will never take a call. What is stopping
// already counts for nothing.
func split(all []candidate) (current, outdated, useless []candidate) {
	for _, c := range all {
		switch {
		case c.State == sandboxv1alpha1.InstanceStopping:
		case c.current:
			current = append(current, c)
		case c.ready():
			outdated = append(outdated, c)
		default:
			useless = append(useless, c)
		}
	}
	return current, outdated, useless
}

func count(list []candidate, is func(candidate) bool) int {
	n := 0
	for _, c := range list {
		if is(c) {
			n++
		}
	}
	return n
}

func names(list []candidate) []string {
	var all []string
	for _, c := range list {
		all = append(all, c.Name)
	}
	return all
}

// beyond names the instances that are left over when so many of the best stay.
func beyond(list []candidate, stay int, better func(a, b candidate) int) []string {
	slices.SortStableFunc(list, better)
	return names(list[min(stay, len(list)):])
}

// byWorth puts first what should stay: instances that are ready, then those that
// are not on their way out, then the busiest, then the oldest.
func byWorth(a, b candidate) int {
	switch {
	case a.ready() != b.ready():
		return first(a.ready())
	case a.draining != b.draining:
		return first(b.draining)
	case a.inUse != b.inUse:
		return b.inUse - a.inUse
	case !a.CreatedAt.Equal(&b.CreatedAt):
		return first(a.CreatedAt.Before(&b.CreatedAt))
	default:
		return byOrdinal(a.Name, b.Name)
	}
}

// byRecency is byWorth for instances of older templates, of which the newest stay: a
// template that cannot be had must not bring back the one before the last.
func byRecency(a, b candidate) int {
	if a.ready() == b.ready() && a.draining == b.draining && !a.CreatedAt.Equal(&b.CreatedAt) {
		return first(b.CreatedAt.Before(&a.CreatedAt))
	}
	return byWorth(a, b)
}

// first is the order of two of which the former, or else the latter, comes first.
func first(former bool) int {
	if former {
		return -1
	}
	return 1
}

func byOrdinal(a, b string) int { return ordinal(a) - ordinal(b) }

// ordinal is the number that an instance is named by.
func ordinal(name string) int {
	n, err := strconv.Atoi(name)
	if err != nil {
		return 0
	}
	return n
}

// freeName returns the smallest number that names no instance.
func freeName(all []candidate, taken []string) string {
	for n := 0; ; n++ {
		name := strconv.Itoa(n)
		used := slices.Contains(taken, name) || slices.ContainsFunc(all, func(c candidate) bool { return c.Name == name })
		if !used {
			return name
		}
	}
}
