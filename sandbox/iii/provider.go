// Package iii is the sandbox provider over the sandbox::* functions of an
// iii-sandbox daemon, the real one or the embedded one
// (contracts/iii-sandbox.md).
package iii

import (
	"context"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// Deadlines of the calls. A create includes an image's first pull (§3.1).
const (
	createDeadline = 300 * time.Second
	fileDeadline   = 30 * time.Second
	stopDeadline   = 30 * time.Second
	listDeadline   = 10 * time.Second
	// execAllowance is added to a program's own timeout.
	execAllowance = 5 * time.Second
	// defaultExecTimeout is that of the daemon (§3.2).
	defaultExecTimeout = 300 * time.Second
	// uploadRate is what a large upload must reach at least, in bytes a second; it
	// adds to fileDeadline.
	uploadRate = 1 << 20
)

// Options configures a Provider.
type Options struct {
	// Client is the operator's connection to the bus, run by its owner.
	Client *bus.Client
}

// Provider implements sandbox.Provider. It keeps no state of its own.
type Provider struct{ client *bus.Client }

var _ sandbox.Provider = (*Provider)(nil)

// New returns a provider that calls over the client.
func New(o Options) *Provider { return &Provider{client: o.Client} }

// effect says what a lost answer means for a call.
type effect bool

const (
	// reads calls change nothing, so a lost answer is an unreachable daemon.
	reads effect = false
	// changes calls may have taken effect although no answer came.
	changes effect = true
)

// invoke calls one function of the daemon within a deadline and types its error.
func invoke[Res any](ctx context.Context, p *Provider, deadline time.Duration, function string, kind effect, request any) (Res, error) {
	if limit, ok := ctx.Deadline(); !ok || time.Until(limit) > deadline {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, deadline)
		defer cancel()
	}
	result, err := bus.Invoke[Res](ctx, p.client, function, request)
	return result, typed(err, kind)
}
