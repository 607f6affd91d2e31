package sandboxfunction

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/prepare"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/redact"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

const (
	plantTimeout = 60 * time.Second
	// busyRetry is how long planting waits for the place that is kept for upkeep.
	busyRetry = 100 * time.Millisecond
)

// plant puts the source into every sandbox of the runtime. The binding switches
// to a new source only once one sandbox has it; what was bound goes on until
// then, and goes on for good if the new source does not load.
func (r *Reconciler) plant(ctx context.Context, sc *scope) (bool, error) {
	want := check{digest: sc.digest, handler: sc.obj.Spec.HandlerName()}
	r.collectPlants(sc, want)
	if f := sc.known.failed; f != nil && f.check == want {
		return r.blame(ctx, sc, f)
	}
	instances := r.Table.Instances(sc.runtime)
	missing := r.Table.Unplanted(sc.runtime, sc.digest)
	if sc.known.checked != want {
		// The source may be there for another handler, which says nothing of this.
		missing = instances
	}
	r.startPlants(sc, missing, want)
	if len(instances) == 0 {
		r.readAhead(sc)
	}
	if len(instances) > len(missing) || isVerified(sc, want) {
		sc.runtimeReady = true
		return false, nil
	}
	if len(missing) == 0 {
		r.Table.Want(sc.runtime)
		if trouble := sc.runtimeTrouble; trouble != nil {
			return sc.conclude(conditions.Waiting, trouble.Reason, trouble.Message)
		}
		return sc.conclude(conditions.Progressing, sandboxv1alpha1.SandboxFunctionRuntimeNotReadyReason,
			fmt.Sprintf("SandboxRuntime %s boots a sandbox", sc.runtime.Name))
	}
	return sc.conclude(conditions.Progressing, sandboxv1alpha1.SandboxFunctionPlantingReason,
		"the source is being put in place and checked")
}

// isVerified says that this very source and handler were proved good before, by
// this process or, as the status tells, by a former one. A runtime that is idle,
// or has a new sandbox, need not prove them again: calls wait until the source is
// in place.
func isVerified(sc *scope, want check) bool {
	if sc.known.checked != (check{}) {
		return sc.known.checked == want
	}
	status := &sc.obj.Status
	ready := conditions.Find(sc.obj, sandboxv1alpha1.ReadyCondition)
	return status.SourceDigest == want.digest && status.ObservedGeneration == sc.obj.Generation &&
		ready != nil && ready.Reason != sandboxv1alpha1.SandboxFunctionSourceInvalidReason
}

// provedIn says that a sandbox of the same template has proved the source good, so
// that a call which wakes the runtime need not wait for that again.
func (m *functionMemory) provedIn(p planting) bool {
	return p.template != "" && m.checked == p.check && m.checkedIn == p.template
}

func (r *Reconciler) startPlants(sc *scope, missing []publish.Instance, want check) {
	if wait := sc.known.plantAfter.Sub(r.Clock.Now()); len(missing) > 0 && wait > 0 {
		sc.requeueIn(wait)
		return
	}
	for _, instance := range missing {
		r.startPlant(sc, instance, want)
	}
}

func (r *Reconciler) startPlant(sc *scope, instance publish.Instance, want check) {
	p := planting{check: want, runtime: sc.runtime, instance: instance.Name, id: instance.ID, template: instance.Template}
	if _, runs := sc.known.plants[p]; runs {
		return
	}
	request := wire.PlantRequest{Language: sc.language, SourceDigest: want.digest, Handler: want.handler,
		Isolation: wire.Isolation(sc.obj.Spec.Isolation), Known: sc.known.provedIn(p)}
	operation, key, uid := "plant/"+uuid.NewString(), sc.key, sc.obj.UID
	visit := visit{runtime: sc.runtime, id: instance.ID, functionID: sc.obj.Spec.FunctionID}
	started := r.plants.Start(operation, func(ctx context.Context) (struct{}, error) {
		err := r.plantInTurn(ctx, key, uid, visit, request)
		if err == nil {
			r.Table.MarkPlanted(p.runtime, instance, want.digest)
		}
		return struct{}{}, err
	}, func() {
		if !r.memory.has(key, uid) {
			r.plants.Take(operation)
			return
		}
		r.waker.Wake(key)
	})
	if !started {
		return
	}
	if sc.known.plants == nil {
		sc.known.plants = map[planting]string{}
	}
	sc.known.plants[p] = operation
}

// plantInTurn waits until few others plant in the sandbox; only then does its
// time begin, and only then is the source read.
func (r *Reconciler) plantInTurn(
	ctx context.Context, key types.NamespacedName, uid types.UID, visit visit, request wire.PlantRequest,
) error {
	leave, err := r.gates.enter(ctx, visit)
	if err != nil {
		return err
	}
	defer leave()
	if !r.memory.has(key, uid) {
		return errNotWanted
	}
	ctx, cancel := context.WithTimeout(ctx, plantTimeout)
	defer cancel()
	if request.Source, err = r.source(ctx, key, uid, request.SourceDigest); err != nil {
		return err
	}
	return r.plantWhenFree(ctx, visit.id, request)
}

// plantWhenFree repeats while all places of the sandbox are taken.
func (r *Reconciler) plantWhenFree(ctx context.Context, id sandbox.ID, request wire.PlantRequest) error {
	for {
		err := prepare.WithAgent(ctx, r.Runner, id, func() error { return r.Runner.Plant(ctx, id, request) })
		if !sandbox.IsBusy(err) {
			return err
		}
		select {
		case <-r.Clock.After(busyRetry):
		case <-ctx.Done():
			return err
		}
	}
}

// collectPlants takes over what finished plants brought. One of a source that is
// no longer wanted proves nothing about the one that is.
func (r *Reconciler) collectPlants(sc *scope, want check) {
	for p, operation := range sc.known.plants {
		done, ok := r.plants.Take(operation)
		if !ok {
			continue
		}
		delete(sc.known.plants, p)
		r.collectPlant(sc, p, want, done.Err)
	}
	if len(sc.known.plants) == 0 {
		sc.known.plants = nil
	}
}

func (r *Reconciler) collectPlant(sc *scope, p planting, want check, err error) {
	var failure *wire.Failure
	switch {
	case err == nil:
		if p.check == want {
			sc.known.checked, sc.known.checkedIn = want, p.template
		}
	case errors.As(err, &failure) && blamesSource(failure.Kind):
		if p.check == want && !r.spare(sc, want, failure) {
			sc.known.failed = &plantFailure{check: want, failure: failure}
		}
	case sandbox.IsNotFound(err), sandbox.IsDead(err):
		r.lose(p)
	case errors.Is(err, errNotWanted):
		// The cache is about to show what replaced it.
		sc.known.plantAfter = r.Clock.Now().Add(busyRetry)
	default:
		sc.known.plantAfter = r.Clock.Now().Add(plantRetry)
	}
}

// maxSlowPlants is how often a source may take too long to load before it is
// blamed for it.
const maxSlowPlants = 3

// spare lets a source that took too long try again, a few times.
func (r *Reconciler) spare(sc *scope, want check, failure *wire.Failure) bool {
	if failure.Kind != wire.TimedOut {
		return false
	}
	if sc.known.slow.check != want {
		sc.known.slow = doubt{check: want}
	}
	sc.known.slow.times++
	if sc.known.slow.times >= maxSlowPlants {
		return false
	}
	sc.known.plantAfter = r.Clock.Now().Add(plantRetry)
	return true
}

// lose takes a sandbox out of service that a plant found gone, unless another has
// taken its place already.
func (r *Reconciler) lose(p planting) {
	for _, i := range r.Table.Instances(p.runtime) {
		if i.Name == p.instance && i.ID == p.id {
			r.Table.RemoveInstance(p.runtime, i.Name)
			r.Lost(p.runtime, i)
		}
	}
}

// plantRetry is the wait after a plant that failed for no fault of the source.
const plantRetry = 2 * time.Second

func blamesSource(kind wire.FailureKind) bool {
	switch kind {
	case wire.LoadFailed, wire.HandlerMissing, wire.TimedOut, wire.NoResult, wire.Thrown:
		return true
	default:
		return false
	}
}

// blame says what is wrong with the source. The source could read the Secrets of
// the runtime and put them into its error, so these are taken out.
func (r *Reconciler) blame(ctx context.Context, sc *scope, f *plantFailure) (bool, error) {
	if f.message == "" {
		secrets, err := prepare.Secrets(ctx, r.Reader, sc.obj.Namespace, sc.env, sc.files)
		if err != nil {
			return false, err
		}
		f.message = redact.Text(sourceMessage(f.failure), secrets)
	}
	return sc.conclude(conditions.Stalled, sandboxv1alpha1.SandboxFunctionSourceInvalidReason, f.message)
}

// sourceMessage says what is wrong with a source, and where.
func sourceMessage(f *wire.Failure) string {
	if f.Line > 0 {
		return fmt.Sprintf("spec.source: line %d: %s", f.Line, f.Error())
	}
	return "spec.source: " + f.Error()
}
