package plan

// Shrink looks for a smaller plan that still fails: it tries halves, then quarters,
// and so on, and then the plan without each of them. It asks at most tries times,
// and returns the smallest plan that failed, p itself if none did.
func Shrink(p Plan, tries int, fails func(Plan) bool) Plan {
	for parts := 2; len(p.Faults) > 1 && tries > 0; {
		parts = min(parts, len(p.Faults))
		smaller, found := shrinkOnce(p, parts, &tries, fails)
		switch {
		case found:
			p, parts = smaller, 2
		case parts == len(p.Faults):
			return p
		default:
			parts *= 2
		}
	}
	return p
}

func shrinkOnce(p Plan, parts int, tries *int, fails func(Plan) bool) (Plan, bool) {
	for _, candidate := range candidates(p, parts) {
		if *tries == 0 {
			return p, false
		}
		*tries--
		if fails(candidate) {
			return candidate, true
		}
	}
	return p, false
}

// candidates are each of the parts alone, and then, where that is something else,
// all but each of them.
func candidates(p Plan, parts int) []Plan {
	var alone, without []Plan
	for i := range parts {
		from, to := i*len(p.Faults)/parts, (i+1)*len(p.Faults)/parts
		one, rest := p, p
		one.Faults = p.Faults[from:to:to]
		rest.Faults = append(append([]Fault(nil), p.Faults[:from]...), p.Faults[to:]...)
		alone, without = append(alone, one), append(without, rest)
	}
	if parts == 2 {
		return alone
	}
	return append(alone, without...)
}
