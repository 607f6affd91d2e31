package sandboxrun

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/shim"
)

// resultTTL is how long a result waits for its caller.
const resultTTL = 60 * time.Second

// Results passes code and whole results between bus callers and runs, in memory
// only. It implements shim.Results.
type Results struct {
	clock clock.Clock

	mu       sync.Mutex
	offers   map[string]*offer
	outcomes map[types.UID]*pending
}

type offer struct {
	code  []byte
	count int
}

type pending struct {
	done    chan struct{}
	outcome shim.Outcome
	ended   bool
	since   time.Time
	waiting int
}

var _ shim.Results = (*Results)(nil)

// NewResults returns an empty exchange.
func NewResults(clk clock.Clock) *Results {
	return &Results{clock: clk, offers: map[string]*offer{}, outcomes: map[types.UID]*pending{}}
}

// Offer implements shim.Results.
func (r *Results) Offer(sha256 string, code []byte) (forget func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, ok := r.offers[sha256]
	if !ok {
		o = &offer{code: bytes.Clone(code)}
		r.offers[sha256] = o
	}
	o.count++
	return sync.OnceFunc(func() { r.takeBack(sha256) })
}

func (r *Results) takeBack(sha256 string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.offers[sha256]
	if o.count--; o.count == 0 {
		delete(r.offers, sha256)
	}
}

func (r *Results) code(sha256 string) ([]byte, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, ok := r.offers[sha256]
	if !ok {
		return nil, false
	}
	return o.code, true
}

// Await implements shim.Results.
func (r *Results) Await(ctx context.Context, uid types.UID) (shim.Outcome, error) {
	r.mu.Lock()
	p := r.entry(uid)
	p.waiting++
	r.mu.Unlock()
	defer r.leave(uid, p)
	select {
	case <-p.done:
		return p.outcome, nil
	case <-ctx.Done():
		return shim.Outcome{}, ctx.Err()
	}
}

func (r *Results) leave(uid types.UID, p *pending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.waiting--; p.waiting == 0 && r.outcomes[uid] == p {
		delete(r.outcomes, uid)
	}
}

// deliver hands a run's outcome to its caller; only the first counts.
func (r *Results) deliver(uid types.UID, outcome shim.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prune()
	p := r.entry(uid)
	if p.ended {
		return
	}
	p.outcome, p.ended, p.since = outcome, true, r.clock.Now()
	close(p.done)
}

// drop tells whoever waits for a run that it was deleted.
func (r *Results) drop(uid types.UID) {
	r.mu.Lock()
	_, known := r.outcomes[uid]
	r.mu.Unlock()
	if known {
		r.deliver(uid, shim.Outcome{Failure: &shim.Failure{
			Code: shim.FailureCancelled, Message: "the run was deleted before it ended",
		}})
	}
}

// entry returns the place of a run and makes it if need be. The caller holds the
// lock.
func (r *Results) entry(uid types.UID) *pending {
	p, ok := r.outcomes[uid]
	if !ok {
		p = &pending{done: make(chan struct{}), since: r.clock.Now()}
		r.outcomes[uid] = p
	}
	return p
}

// prune forgets results that nobody fetched. The caller holds the lock.
func (r *Results) prune() {
	for uid, p := range r.outcomes {
		if p.ended && p.waiting == 0 && r.clock.Since(p.since) > resultTTL {
			delete(r.outcomes, uid)
		}
	}
}

// toOutcome is a result as bus callers get it, whole.
func (res result) toOutcome() shim.Outcome {
	o := shim.Outcome{ExitCode: -1, Duration: res.took, Result: res.value, Timings: res.timings}
	if run := res.run; run != nil {
		o.Stdout, o.Stderr = run.Stdout, run.Stderr
		o.TruncatedStdout, o.TruncatedStderr = run.StdoutTruncated, run.StderrTruncated
		o.ExitCode, o.Success = run.ExitCode, run.ExitCode == 0 && !run.TimedOut
	}
	switch f := res.failure; {
	case f != nil:
		o.Failure = &shim.Failure{Code: f.code(), Message: f.message}
	case res.run != nil && res.run.OutOfMemory:
		o.Failure = &shim.Failure{
			Code: shim.FailureExhausted, Message: "the program was killed because the sandbox ran out of memory; use less of it",
		}
	}
	if o.Failure != nil {
		o.Failure.PartialStdout, o.Failure.PartialStderr = o.Stdout, o.Stderr
	}
	return o
}

// diskFull is how Linux words ENOSPC, in whatever text it comes.
const diskFull = "no space left on device"

func (f *failure) code() shim.FailureCode {
	switch {
	case f.lost:
		return shim.FailureGone
	case f.reason == sandboxv1alpha1.SandboxRunTimeoutReason:
		return shim.FailureTimeout
	case f.reason == sandboxv1alpha1.CapacityReason:
		return shim.FailureCapacity
	case f.reason == sandboxv1alpha1.SandboxRunCancelledReason:
		return shim.FailureCancelled
	case f.reason == sandboxv1alpha1.InvalidSpecReason:
		return shim.FailureInvalid
	case strings.Contains(strings.ToLower(f.message), diskFull):
		return shim.FailureExhausted
	default:
		return shim.FailureEngine
	}
}
