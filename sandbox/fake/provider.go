// Package fake has a sandbox.Provider in memory: for tests of decisions and of
// faults that a real back end does not show on demand.
package fake

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// ExecSlots is the number of programs that a sandbox of a new Provider runs at
// once.
const ExecSlots = 4

// Provider keeps sandboxes in memory. Its methods may be called
// concurrently.
type Provider struct {
	mu        sync.Mutex
	sandboxes map[string]*box
	calls     []Call
	faults    map[Method][]error
	execFunc  ExecFunc
	promises  sandbox.Capabilities
	now       func() time.Time
	// limit is the most sandboxes at the same time, limits the most of an image.
	limit  int
	limits map[string]int
}

var _ sandbox.Provider = (*Provider)(nil)

// ExecFunc answers an exec in place of a guest. It runs without the provider's
// lock, so it may block and may call the provider.
type ExecFunc func(ctx context.Context, info sandbox.Info, req sandbox.ExecRequest) (sandbox.ExecResult, error)

// Method names a method of a Provider.
type Method string

// The methods of sandbox.Provider.
const (
	Create       Method = "Create"
	List         Method = "List"
	Exec         Method = "Exec"
	WriteFile    Method = "WriteFile"
	ReadFile     Method = "ReadFile"
	Stop         Method = "Stop"
	Touch        Method = "Touch"
	Capabilities Method = "Capabilities"
)

// Call is one recorded call.
type Call struct {
	Method Method
	// ID is zero for Create, List and Capabilities.
	ID sandbox.ID
	// Create and Exec are what those methods got.
	Create sandbox.CreateRequest
	Exec   sandbox.ExecRequest
	// Path is that of the file methods.
	Path string
}

type box struct {
	info    sandbox.Info
	created time.Time
	files   map[string][]byte
}

// New returns a provider without sandboxes whose execs succeed with no output.
func New() *Provider {
	return &Provider{
		sandboxes: map[string]*box{}, faults: map[Method][]error{}, now: time.Now,
		limit: math.MaxInt, limits: map[string]int{},
		execFunc: func(context.Context, sandbox.Info, sandbox.ExecRequest) (sandbox.ExecResult, error) {
			return sandbox.ExecResult{}, nil
		},
	}
}

// OnExec sets what answers execs from now on.
func (p *Provider) OnExec(f ExecFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.execFunc = f
}

// Promise sets the answer of Capabilities.
func (p *Provider) Promise(c sandbox.Capabilities) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.promises = c
}

// Limit sets how many sandboxes there may be at the same time; further creates
// are CapacityErrors.
func (p *Provider) Limit(sandboxes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = sandboxes
}

// LimitImage is Limit for the sandboxes of one image.
func (p *Provider) LimitImage(image string, sandboxes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits[image] = sandboxes
}

// room fails if a further sandbox of an image is one too many. The lock is held.
func (p *Provider) room(image string) error {
	if len(p.sandboxes) >= p.limit {
		return sandbox.NewCapacityError(fmt.Sprintf("resource limit exceeded: %d sandboxes", p.limit))
	}
	limit, limited := p.limits[image]
	for _, b := range p.sandboxes {
		if b.info.Image == image {
			limit--
		}
	}
	if limited && limit <= 0 {
		return sandbox.NewCapacityError("resource limit exceeded: " + image)
	}
	return nil
}

// FailNext makes the next call of a method fail with err, and the one after it
// with the next error given, before they have any effect.
func (p *Provider) FailNext(method Method, errs ...error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[method] = append(p.faults[method], errs...)
}

// NextCreateErr makes the next Create fail.
func (p *Provider) NextCreateErr(err error) { p.FailNext(Create, err) }

// NextExecErr makes the next Exec fail.
func (p *Provider) NextExecErr(err error) { p.FailNext(Exec, err) }

// Lose lets a sandbox vanish, as when its machine died. It reports whether the
// sandbox existed.
func (p *Provider) Lose(id sandbox.ID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, existed := p.sandboxes[id.Reveal()]
	delete(p.sandboxes, id.Reveal())
	return existed
}

// Adopt adds a sandbox that nobody created through this provider, such as the
// late twin of a create whose answer was lost, or one of a stranger.
func (p *Provider) Adopt(name, image string) sandbox.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.add(name, image)
}

// Calls returns the calls so far, oldest first; with methods only those.
func (p *Provider) Calls(methods ...Method) []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(methods) == 0 {
		return slices.Clone(p.calls)
	}
	return slices.DeleteFunc(slices.Clone(p.calls), func(c Call) bool { return !slices.Contains(methods, c.Method) })
}

// File returns a file that was written to a sandbox.
func (p *Provider) File(id sandbox.ID, path string) ([]byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, known := p.sandboxes[id.Reveal()]
	if !known {
		return nil, false
	}
	content, there := b.files[path]
	return bytes.Clone(content), there
}

// add makes a sandbox. The lock is held.
func (p *Provider) add(name, image string) sandbox.ID {
	id := uuid.NewString()
	p.sandboxes[id] = &box{
		info:    sandbox.Info{ID: sandbox.NewID(id), Name: name, Image: image, ExecSlotsFree: ExecSlots},
		created: p.now(), files: map[string][]byte{},
	}
	return sandbox.NewID(id)
}

// begin records a call and returns its fault, if one waits. The lock is held.
func (p *Provider) begin(ctx context.Context, call Call) error {
	p.calls = append(p.calls, call)
	if err := ctx.Err(); err != nil {
		return sandbox.NewUnavailableError(err)
	}
	waiting := p.faults[call.Method]
	if len(waiting) == 0 {
		return nil
	}
	p.faults[call.Method] = waiting[1:]
	return waiting[0]
}

// beginIn is begin for a call about one sandbox.
func (p *Provider) beginIn(ctx context.Context, call Call) (*box, error) {
	if err := p.begin(ctx, call); err != nil {
		return nil, err
	}
	b, known := p.sandboxes[call.ID.Reveal()]
	if !known {
		return nil, sandbox.NewNotFoundError()
	}
	return b, nil
}
