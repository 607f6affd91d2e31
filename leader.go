package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	// leaseName is the lease that replicas compete for.
	leaseName = "sandbox-operator.sandbox.iii.dev"
	// leaseDuration is how long a leader that does not renew its lease keeps it,
	// renewDeadline how long it tries to renew it before it ends itself.
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	// leaseRetry is how often the lease is looked at. Nobody serves the bus between
	// the release of a lease and the next look, so it is half of what is usual.
	leaseRetry = time.Second
)

// errLeaseLost answers writes of a process that leads no longer.
var errLeaseLost = errors.New("the lease of the leader has run out; another replica may lead")

// fence refuses writes to the API server, and the bus (bus.Options.Permit), once
// this process may not be the leader any more. The leader election ends such a
// process, but a process that was paused for long, or starved, runs on for a moment
// first, with timers that are all due and a memory that is old.
type fence struct {
	// renewed is when the last successful renewal was sent, nil before this process
	// leads. What a replica writes until then belongs to nobody.
	renewed atomic.Pointer[time.Time]
	now     func() time.Time
}

func newFence() *fence { return &fence{now: time.Now} }

// open says that no other replica can lead: each waits for leaseDuration from when
// it saw a renewal, which is later than when that was sent.
func (f *fence) open() bool {
	renewed := f.renewed.Load()
	return renewed == nil || f.now().Sub(*renewed) < leaseDuration
}

// protect has the clients of this configuration ask the fence before they write.
func (f *fence) protect(config *rest.Config) *rest.Config {
	protected := rest.CopyConfig(config)
	protected.Wrap(func(next http.RoundTripper) http.RoundTripper { return fencedTransport{f, next} })
	return protected
}

type fencedTransport struct {
	fence *fence
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t fencedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet || t.fence.open() {
		return t.next.RoundTrip(request)
	}
	if request.Body != nil {
		_ = request.Body.Close()
	}
	return nil, errLeaseLost
}

// fencedLock is the lease, whose renewals the fence hears of.
type fencedLock struct {
	resourcelock.Interface
	fence *fence
}

// newLock makes the lock of this process. The configuration must not be
// protected by the fence: a renewal is what opens it.
func (f *fence) newLock(config *rest.Config, namespace string) (resourcelock.Interface, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, leaseName,
		resourcelock.ResourceLockConfig{Identity: host + "_" + uuid.NewString()}, config, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("making the lease of the leader: %w", err)
	}
	return fencedLock{lock, f}, nil
}

// Create implements resourcelock.Interface.
func (l fencedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.renew(record, func() error { return l.Interface.Create(ctx, record) })
}

// Update implements resourcelock.Interface.
func (l fencedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.renew(record, func() error { return l.Interface.Update(ctx, record) })
}

func (l fencedLock) renew(record resourcelock.LeaderElectionRecord, write func() error) error {
	sent := l.fence.now()
	err := write()
	if err == nil && record.HolderIdentity == l.Identity() {
		l.fence.renewed.Store(&sent)
	}
	return err
}
