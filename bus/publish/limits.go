package publish

// Limits bound the calls of one function in a runtime; zero leaves a bound out.
type Limits struct {
	// Concurrency is how many calls go on at the same time.
	Concurrency int
	// Queue is how many calls wait; more are refused at once.
	Queue int
}

// demand is what somebody wants a slot for.
type demand struct {
	digest string
	// functionID is empty for a run.
	functionID string
	limits     Limits
	// nested calls come from inside a handler; see standing.
	nested bool
}

// admits says whether the limits of the function leave room for one call more to
// begin. The caller holds the lock.
func (s *runtimeState) admits(d demand) bool {
	return d.limits.Concurrency == 0 || s.running[d.functionID] < d.limits.Concurrency
}

// queueIsFull says whether as many calls of the function wait as may. The caller holds
// the lock.
func (s *runtimeState) queueIsFull(d demand) bool {
	if d.limits.Queue == 0 {
		return false
	}
	waiting := 0
	for _, w := range s.waiting {
		if w.functionID == d.functionID {
			waiting++
		}
	}
	return waiting >= d.limits.Queue
}

// began and ended count the calls of functions that go on. The caller holds the
// lock.
func (s *runtimeState) began(functionID string) {
	s.inFlight++
	if functionID != "" {
		s.running[functionID]++
	}
}

func (s *runtimeState) ended(functionID string) {
	s.inFlight--
	if functionID == "" {
		return
	}
	if s.running[functionID]--; s.running[functionID] == 0 {
		delete(s.running, functionID)
	}
}
