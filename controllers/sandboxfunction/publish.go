package sandboxfunction

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

const (
	// takenRetry is how often a function id that another worker holds is tried.
	takenRetry = 10 * time.Second
	// unconfirmedRetry is the wait before the engine is asked again.
	unconfirmedRetry = time.Second
)

// publish binds the function to its source and makes the engine list it.
func (r *Reconciler) publish(_ context.Context, sc *scope) (bool, error) {
	r.bind(sc)
	wanted, err := r.wanted(sc)
	if err != nil {
		return false, err
	}
	r.confirm(sc, wanted)
	c := sc.known.confirmed
	switch {
	case !r.Publisher.Connected():
		sc.requeueIn(spread(safetyNet))
		return sc.conclude(conditions.Waiting, sandboxv1alpha1.BusUnavailableReason,
			"the iii engine does not answer; the function is published when it does")
	case c == nil || c.key != wanted.key:
		return sc.conclude(conditions.Progressing, sandboxv1alpha1.SandboxFunctionUnconfirmedReason,
			"the engine has not confirmed the function yet")
	case c.foreign():
		sc.requeueIn(spread(takenRetry))
		return sc.conclude(conditions.Stalled, sandboxv1alpha1.SandboxFunctionConflictReason,
			fmt.Sprintf("spec.functionID: %s is taken by the bus worker %q; stop that worker or use another id",
				sc.obj.Spec.FunctionID, c.owner.WorkerName))
	case !c.owner.Ours:
		sc.requeueIn(spread(unconfirmedRetry))
		return sc.conclude(conditions.Progressing, sandboxv1alpha1.SandboxFunctionUnconfirmedReason,
			"the engine has not confirmed the function yet")
	}
	sc.published = true
	return false, nil
}

// safetyNet is how often a waiting object is looked at without being woken.
const safetyNet = 60 * time.Second

// bind switches calls to the present source and removes the former one. Calls in
// flight hold on to theirs.
func (r *Reconciler) bind(sc *scope) {
	id := sc.obj.Spec.FunctionID
	former, had := r.Table.Binding(id)
	if !had && sc.known.paused != nil {
		former, had = *sc.known.paused, true
	}
	r.Table.Bind(publish.Binding{
		FunctionID: id, Runtime: sc.runtime, Language: sc.language, SourceDigest: sc.digest,
		Handler: sc.obj.Spec.HandlerName(), Isolation: wire.Isolation(sc.obj.Spec.Isolation), Timeout: r.timeout(sc.obj),
		Limits:  limits(&sc.obj.Spec),
		Request: sc.known.schemas.request, Response: sc.known.schemas.response,
	})
	sc.known.functionID, sc.known.paused = id, nil
	sc.obj.Status.SourceDigest = sc.digest
	if had && former.SourceDigest != sc.digest {
		r.retireSource(sc, former)
	}
}

func limits(spec *sandboxv1alpha1.SandboxFunctionSpec) publish.Limits {
	return publish.Limits{
		Concurrency: int(ptr.Deref(spec.Concurrency, 0)), Queue: int(ptr.Deref(spec.QueueLimit, 0)),
	}
}

func (r *Reconciler) timeout(fn *sandboxv1alpha1.SandboxFunction) time.Duration {
	if fn.Spec.TimeoutMilliseconds == nil {
		return r.DefaultTimeout
	}
	return time.Duration(*fn.Spec.TimeoutMilliseconds) * time.Millisecond
}

// retireSource removes a replaced source once every call that may still use it
// has passed its deadline.
func (r *Reconciler) retireSource(sc *scope, former publish.Binding) {
	key := "retire/" + string(sc.obj.UID) + "/" + former.SourceDigest
	r.plants.Start(key, func(ctx context.Context) (struct{}, error) {
		select {
		case <-r.Clock.After(former.Timeout):
			r.unplant(former.Runtime, former.SourceDigest)
		case <-ctx.Done():
		}
		return struct{}{}, nil
	}, func() { r.plants.Take(key) })
}

// registration is what the engine should know of a function.
type registration struct {
	publication publish.Publication
	triggers    []publish.Trigger
	// key names the registration and the bus session it is for.
	key registrationKey
}

// registrationKey is the SHA-256 of a registration.
type registrationKey [sha256.Size]byte

func (r *Reconciler) wanted(sc *scope) (registration, error) {
	spec := &sc.obj.Spec
	reg := registration{
		publication: publish.Publication{
			FunctionID: spec.FunctionID, Description: r.description(sc),
			RequestFormat: raw(spec.RequestSchema), ResponseFormat: raw(spec.ResponseSchema), Metadata: raw(spec.Metadata),
		},
		triggers: wantedTriggers(sc.obj),
	}
	encoded, err := json.Marshal(struct {
		Session     string
		Publication publish.Publication
		Triggers    []publish.Trigger
	}{r.Publisher.Session(), reg.publication, reg.triggers})
	if err != nil {
		return reg, err
	}
	reg.key = sha256.Sum256(encoded)
	return reg, nil
}

// description is never empty, so that people and agents who read the catalog
// know what they look at (contracts/code-runner.md §4.2).
func (r *Reconciler) description(sc *scope) string {
	if sc.obj.Spec.Description != "" {
		return sc.obj.Spec.Description
	}
	return fmt.Sprintf("A %s function that %s runs in a sandbox.", sc.language, r.WorkerName)
}

func raw(j *apiextensionsv1.JSON) json.RawMessage {
	if j == nil || string(j.Raw) == "null" {
		return nil
	}
	return j.Raw
}
