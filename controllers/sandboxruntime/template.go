package sandboxruntime

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/environment"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// leaseMargin is how much longer than its own idle time the daemon lets a
// sandbox live without a sign of life, so that a dead operator leaves nothing
// for ever and a living one decides.
const leaseMargin = 600 * time.Second

// template resolves the spec to the request that makes a sandbox, and names it
// by a digest, so that a change rolls over the instances. The digest covers
// values of Secrets only as a hash.
func (r *Reconciler) template(ctx context.Context, sc *scope) (bool, error) {
	if sc.wanted == 0 {
		return false, nil
	}
	spec := &sc.obj.Spec
	env, err := environment.Resolve(ctx, r.Reader, sc.obj.Namespace, spec.Env)
	if environment.IsNotFound(err) {
		sc.conclude(conditions.Waiting, sandboxv1alpha1.ReferenceNotFoundReason, "spec."+err.Error())
		sc.requeueIn(referenceRetry)
		return true, nil
	}
	if err != nil {
		return false, err
	}
	env["OTEL_ENABLED"] = "false"
	if spec.HasBusAccess() {
		env["III_URL"] = r.GuestBusURL
	}
	sc.create = sandbox.CreateRequest{
		Image:       spec.ImageFor(spec.Language),
		CPUs:        spec.CPUs(),
		MemoryMiB:   spec.MemoryMiB(),
		Network:     spec.HasNetwork(),
		IdleTimeout: r.idleTimeout(spec) + leaseMargin,
		Env:         env,
	}
	sc.templateDigest, err = digestTemplate(sc.create, r.Runner.AgentDigest())
	return false, err
}

// referenceRetry is how often a missing Secret is looked for; ConfigMaps wake
// the runtime by themselves.
const referenceRetry = 10 * time.Second

func digestTemplate(create sandbox.CreateRequest, agentDigest string) (string, error) {
	// A changed idle time needs no new sandbox.
	create.IdleTimeout = 0
	encoded, err := json.Marshal(struct {
		Agent  string
		Create sandbox.CreateRequest
	}{agentDigest, create})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:16]), nil
}
