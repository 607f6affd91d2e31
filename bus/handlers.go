package bus

import "sync"

// maxIdleHandlers bounds the goroutines that wait for a call.
const maxIdleHandlers = 64

// handlers runs what calls ask for, each in a goroutine of its own. Those that have
// ended their call wait for another: their stacks have grown to what a handler needs,
// which costs more than all else about a new one.
type handlers struct {
	mu sync.Mutex
	// idle wait for a job, the one that ended its last job latest at the end: what
	// it needs is most likely still in the processor's cache.
	idle   []chan func()
	closed bool
}

// run does not wait for the job.
func (h *handlers) run(job func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := len(h.idle) - 1
	if last < 0 {
		go h.work(job)
		return
	}
	next := h.idle[last]
	h.idle[last] = nil
	h.idle = h.idle[:last]
	next <- job // has room: it is idle
}

func (h *handlers) work(job func()) {
	jobs := make(chan func(), 1)
	for ok := true; ok; job, ok = <-jobs {
		job()
		if !h.rest(jobs) {
			return
		}
	}
}

// rest says whether another job may come.
func (h *handlers) rest(jobs chan func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.idle) >= maxIdleHandlers {
		return false
	}
	h.idle = append(h.idle, jobs)
	return true
}

// close ends the goroutines that wait; the others end after their jobs.
func (h *handlers) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, jobs := range h.idle {
		close(jobs)
	}
	h.idle = nil
}
