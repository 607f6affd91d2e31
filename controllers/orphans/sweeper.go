// Package orphans destroys sandboxes of this operator that no object speaks of:
// late twins of creates whose answer was lost, and what a dead operator left. It
// never touches the sandboxes of strangers.
package orphans

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fleet"
)

const (
	// interval is the distance of sweeps.
	interval = 3 * time.Second
	// stopTimeout bounds the stop of one orphan.
	stopTimeout = 30 * time.Second
)

// Fleet is the back end's list as it was last read.
type Fleet interface {
	Snapshot() fleet.Snapshot
	Poke()
}

// Sweeper compares the back end's list with the objects. All fields are
// required.
type Sweeper struct {
	// Client reads the cache, Reader the API server.
	Client, Reader client.Reader
	Provider       sandbox.Provider
	Fleet          Fleet
	Clock          clock.WithTicker
	// Destroyed counts what was destroyed; nil counts nothing.
	Destroyed prometheus.Counter

	// suspects are the orphans of the last sweep, by nonce, with the reading that
	// showed them first.
	suspects map[string]time.Time
}

// Start implements manager.Runnable; it sweeps until the context ends.
func (s *Sweeper) Start(ctx context.Context) error {
	ticker := s.Clock.NewTicker(interval)
	defer ticker.Stop()
	for {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "Sweeping for orphaned sandboxes")
		}
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return nil
		}
	}
}

// Sweep destroys the sandboxes that neither the cache nor the API server knows,
// if an earlier reading of the list showed them too: an object may be newer than
// one reading, but not than two.
func (s *Sweeper) Sweep(ctx context.Context) error {
	snapshot := s.Fleet.Snapshot()
	if !snapshot.Available {
		return nil
	}
	orphans, err := s.unknown(ctx, s.Client, all(snapshot))
	if err == nil && len(orphans) > 0 {
		orphans, err = s.unknown(ctx, s.Reader, orphans)
	}
	if err != nil {
		return err
	}
	suspects := map[string]time.Time{}
	for _, o := range orphans {
		first, again := s.suspects[o.Marker.Nonce]
		switch {
		case !again:
			suspects[o.Marker.Nonce] = snapshot.Time
		case snapshot.Time.After(first):
			s.destroy(ctx, o)
			suspects[o.Marker.Nonce] = first
		default:
			suspects[o.Marker.Nonce] = first
		}
	}
	s.suspects = suspects
	return nil
}

func all(snapshot fleet.Snapshot) []fleet.Instance {
	var list []fleet.Instance
	for _, instances := range snapshot.Ours {
		list = append(list, instances...)
	}
	return list
}

// unknown returns the sandboxes whose attempt no object names.
func (s *Sweeper) unknown(ctx context.Context, reader client.Reader, list []fleet.Instance) ([]fleet.Instance, error) {
	if len(list) == 0 {
		return nil, nil
	}
	digests, err := announced(ctx, reader)
	if err != nil {
		return nil, err
	}
	var unknown []fleet.Instance
	for _, i := range list {
		sum := sha256.Sum256([]byte(i.Marker.Nonce))
		if !digests[i.Marker.Object+"/"+hex.EncodeToString(sum[:])] {
			unknown = append(unknown, i)
		}
	}
	return unknown, nil
}

// announced are the attempts that objects name: instances of runtimes, and runs
// that have not ended.
func announced(ctx context.Context, reader client.Reader) (map[string]bool, error) {
	var runtimes sandboxv1alpha1.SandboxRuntimeList
	if err := reader.List(ctx, &runtimes); err != nil {
		return nil, err
	}
	var runs sandboxv1alpha1.SandboxRunList
	if err := reader.List(ctx, &runs); err != nil {
		return nil, err
	}
	digests := map[string]bool{}
	for i := range runtimes.Items {
		for _, instance := range runtimes.Items[i].Status.Instances {
			digests[string(runtimes.Items[i].UID)+"/"+instance.Digest] = true
		}
	}
	for i := range runs.Items {
		if run := &runs.Items[i]; !run.IsFinished() && run.Status.AttemptDigest != "" {
			digests[string(run.UID)+"/"+run.Status.AttemptDigest] = true
		}
	}
	return digests, nil
}

func (s *Sweeper) destroy(ctx context.Context, orphan fleet.Instance) {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	log := ctrl.LoggerFrom(ctx).WithValues("object", orphan.Marker.Object)
	if err := sandbox.IgnoreNotFound(s.Provider.Stop(ctx, orphan.Info.ID)); err != nil {
		log.Error(err, "Destroying an orphaned sandbox")
		return
	}
	log.Info("Destroyed an orphaned sandbox")
	if s.Destroyed != nil {
		s.Destroyed.Inc()
	}
	s.Fleet.Poke()
}
