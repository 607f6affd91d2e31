package wire

// Isolation says what the calls of one function share.
type Isolation string

const (
	// PerCall gives every call a process of its own. It is what an empty
	// Isolation means.
	PerCall Isolation = "PerCall"
	// Shared lets a process serve many calls, one after the other, so that what
	// a handler keeps in memory is there at the next call. Only warm calls share.
	Shared Isolation = "Shared"
)

// How the process of a call came about.
const (
	// StartCold: an interpreter was started for this call.
	StartCold = "cold"
	// StartReady: a process for one call was waiting, its handler loaded.
	StartReady = "ready"
	// StartForked: a process that has the handler loaded was forked for this call.
	StartForked = "forked"
	// StartShared: the process serves other calls as well.
	StartShared = "shared"
)
