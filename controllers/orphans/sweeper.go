// Package orphans destroys sandboxes of this operator that no object speaks of:
// late twins of creates whose answer was lost, and what a dead operator left. It
// never touches the sandboxes of strangers.
package orphans

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// Namespaces are those that may be read; empty stands for all. A sandbox whose
	// object is in another one is an orphan.
	Namespaces []string
	// Held are the sandboxes of a runtime that take calls. Of several with the same
	// marker, as when the bus repeats a request, the others are orphans.
	Held     func(*sandboxv1alpha1.SandboxRuntime) []sandbox.ID
	Provider sandbox.Provider
	Fleet    Fleet
	Clock    clock.WithTicker
	// Destroyed counts what was destroyed; nil counts nothing.
	Destroyed prometheus.Counter

	// suspects are the orphans of the last sweep, with the reading that showed them
	// first.
	suspects map[sandbox.ID]time.Time
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
	list := all(snapshot)
	orphans, err := s.unknown(ctx, s.Client, list, list)
	if err == nil && len(orphans) > 0 {
		orphans, err = s.unknown(ctx, s.Reader, orphans, list)
	}
	if err != nil {
		return err
	}
	suspects := map[sandbox.ID]time.Time{}
	for _, o := range orphans {
		first, again := s.suspects[o.Info.ID]
		switch {
		case !again:
			suspects[o.Info.ID] = snapshot.Time
		case snapshot.Time.After(first):
			s.destroy(ctx, o)
			suspects[o.Info.ID] = first
		default:
			suspects[o.Info.ID] = first
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

// unknown returns those candidates of the list whose attempt no object names, or
// that share it with the one that is in use.
func (s *Sweeper) unknown(ctx context.Context, reader client.Reader, candidates, list []fleet.Instance) ([]fleet.Instance, error) {
	if len(candidates) == 0 {
		return nil, nil
	}
	known, err := s.announced(ctx, reader)
	if err != nil {
		return nil, err
	}
	var unknown []fleet.Instance
	for _, i := range candidates {
		sum := sha256.Sum256([]byte(i.Marker.Nonce))
		holders, named := known[attempt{i.Marker.Object, hex.EncodeToString(sum[:])}]
		if !named || isTwin(i, list, holders) {
			unknown = append(unknown, i)
		}
	}
	return unknown, nil
}

// isTwin says that another sandbox with the same marker is the one in use. While
// none of them is, as during a boot, nobody can tell which one will be.
func isTwin(i fleet.Instance, list []fleet.Instance, held []sandbox.ID) bool {
	return !slices.Contains(held, i.Info.ID) && slices.ContainsFunc(list, func(other fleet.Instance) bool {
		return other.Marker == i.Marker && slices.Contains(held, other.Info.ID)
	})
}

// attempt is one try to make a sandbox of an object.
type attempt struct{ object, digest string }

// announced are the attempts that objects name: instances of runtimes, with the
// sandboxes that the runtime uses, and runs that have not ended.
func (s *Sweeper) announced(ctx context.Context, reader client.Reader) (map[attempt][]sandbox.ID, error) {
	namespaces := s.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	known := map[attempt][]sandbox.ID{}
	for _, namespace := range namespaces {
		if err := s.announcedIn(ctx, reader, namespace, known); err != nil {
			return nil, err
		}
	}
	return known, nil
}

func (s *Sweeper) announcedIn(ctx context.Context, reader client.Reader, namespace string, known map[attempt][]sandbox.ID) error {
	var runtimes sandboxv1alpha1.SandboxRuntimeList
	if err := reader.List(ctx, &runtimes, client.InNamespace(namespace)); err != nil {
		return err
	}
	var runs sandboxv1alpha1.SandboxRunList
	if err := reader.List(ctx, &runs, client.InNamespace(namespace)); err != nil {
		return err
	}
	for i := range runtimes.Items {
		runtime := &runtimes.Items[i]
		for _, instance := range runtime.Status.Instances {
			known[attempt{string(runtime.UID), instance.Digest}] = s.Held(runtime)
		}
	}
	for i := range runs.Items {
		if run := &runs.Items[i]; !run.IsFinished() && run.Status.AttemptDigest != "" {
			known[attempt{string(run.UID), run.Status.AttemptDigest}] = nil
		}
	}
	return nil
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
