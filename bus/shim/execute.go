package shim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

const (
	// maxStoredCodeBytes is the largest code that is written into the object;
	// larger code is offered in memory, which spares etcd.
	maxStoredCodeBytes = 8 << 10
	// bootAllowance is what a run may take beside its program
	// (contracts/code-runner.md §8: the deadline of sandbox::create).
	bootAllowance = 300 * time.Second
	// runTTLSeconds removes runs whose deletion failed for good.
	runTTLSeconds = 60
)

// execute creates the run, waits for its outcome and deletes it. The error is a
// *Failure, a *callError or that of an ended ctx.
func (s *Shim) execute(ctx context.Context, spec v1alpha1.SandboxRunSpec, code string, timeout time.Duration) (Outcome, error) {
	source, forget := s.sourceOf(code)
	defer forget()
	spec.Source = source
	spec.TimeoutMilliseconds = ptr.To(int32(timeout.Milliseconds()))
	spec.TTLSecondsAfterFinished = ptr.To[int32](runTTLSeconds)
	run := &v1alpha1.SandboxRun{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: "run-" + uuid.NewString(), Labels: busLabels(), Annotations: ownedBy(ctx),
		},
		Spec: spec,
	}
	// Deleting ends a run that is still under way, so it serves a caller who went
	// away too; and a creation whose answer was lost may have happened.
	defer s.deleteLater(run)
	if err := s.Client.Create(ctx, run); err != nil {
		return Outcome{}, apiError("creating the run", err)
	}
	return s.await(ctx, run, timeout+bootAllowance)
}

// sourceOf decides whether the API server sees the code.
func (s *Shim) sourceOf(code string) (source v1alpha1.RunSource, forget func()) {
	if len(code) <= maxStoredCodeBytes {
		return v1alpha1.RunSource{Inline: &code}, func() {}
	}
	sum := sha256.Sum256([]byte(code))
	digest := hex.EncodeToString(sum[:])
	return v1alpha1.RunSource{Transient: &v1alpha1.TransientSource{SHA256: digest}}, s.Results.Offer(digest, []byte(code))
}

// await bounds the whole run; its own limits should end it long before.
func (s *Shim) await(ctx context.Context, run *v1alpha1.SandboxRun, limit time.Duration) (Outcome, error) {
	bounded, cancel := withTimeout(ctx, s.Clock, limit)
	defer cancel()
	outcome, err := s.Results.Await(bounded, run.UID)
	var failure *Failure
	switch {
	case err == nil && outcome.Failure != nil:
		return Outcome{}, outcome.Failure
	case err == nil, errors.As(err, &failure):
		return outcome, err
	case ctx.Err() != nil:
		return Outcome{}, context.Cause(ctx)
	case bounded.Err() != nil:
		return Outcome{}, &Failure{Code: FailureTimeout}
	}
	return Outcome{}, err
}
