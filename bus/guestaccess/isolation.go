package guestaccess

// Isolation says whether the listener keeps guests apart. Its zero value is not
// knowing.
type Isolation struct {
	// Known is true once a probe came to a finding.
	Known bool
	// Isolated is true if strangers are refused, and guests may neither call what
	// is forbidden nor register without being asked about.
	Isolated bool
	// Reason says what is missing; empty when isolated.
	Reason string
	// Doubted is true between a lost connection and the next probe.
	Doubted bool
}

// Status is status.busIsolated: nil while nothing is known.
func (i Isolation) Status() *bool {
	if !i.Known {
		return nil
	}
	return &i.Isolated
}

// Verdict is what becomes of a guest that wants bus access.
type Verdict int

// The verdicts.
const (
	// Admit lets it boot.
	Admit Verdict = iota
	// Wait lets it wait for the next finding.
	Wait
	// Refuse boots nothing until the listener or the spec changes.
	Refuse
)

// Admit decides on guests that want bus access.
func (a *Access) Admit() (Verdict, Isolation) {
	found := a.Isolation()
	switch {
	case !a.required:
		return Admit, found
	case !found.Known, found.Doubted:
		return Wait, found
	case !found.Isolated:
		return Refuse, found
	default:
		return Admit, found
	}
}
