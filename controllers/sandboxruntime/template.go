package sandboxruntime

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/environment"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/prepare"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/redact"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// leaseMargin is how much longer than its own idle time the daemon lets a
// sandbox live without a sign of life, so that a dead operator leaves nothing
// for ever and a living one decides.
const leaseMargin = 600 * time.Second

// telemetrySwitch is the variable by which SDKs export telemetry. It is off unless
// the spec says otherwise: exporters print and delay the exit of a program
// (contracts/code-runner.md §14).
const telemetrySwitch = "OTEL_ENABLED"

// template resolves the spec to what makes a sandbox, and names that by a digest,
// so that a change rolls over the instances.
func (r *Reconciler) template(ctx context.Context, sc *scope) (bool, error) {
	r.tellIsolation(sc)
	if sc.wanted == 0 {
		return false, nil
	}
	if r.holdFromBus(sc) {
		return true, nil
	}
	spec := &sc.obj.Spec
	env, err := r.resolve(ctx, sc)
	if env == nil {
		return err == nil, err
	}
	if _, chosen := env[telemetrySwitch]; !chosen {
		env[telemetrySwitch] = "false"
	}
	sc.create = sandbox.CreateRequest{
		Image:       spec.ImageFor(spec.Language),
		CPUs:        spec.CPUs(),
		MemoryMiB:   spec.MemoryMiB(),
		Network:     spec.HasNetwork(),
		IdleTimeout: r.idleTimeout(spec) + leaseMargin,
		Env:         env,
	}
	sc.templateDigest, err = r.digest(sc)
	return false, err
}

// resolve reads what the spec takes from Secrets and ConfigMaps, and returns the
// environment; nil if the object has to wait for something, or for a better spec.
func (r *Reconciler) resolve(ctx context.Context, sc *scope) (map[string]string, error) {
	spec, reader := &sc.obj.Spec, environment.Once(r.Reader)
	if len(spec.SecretNames()) > 0 {
		sc.requeueIn(wait.Jitter(secretPoll, secretJitter))
	}
	env, err := environment.Resolve(ctx, reader, sc.obj.Namespace, spec.Env)
	if err == nil {
		sc.fitting, err = prepare.Resolve(ctx, reader, sc.obj.Namespace, spec.Language, &spec.GuestSpec)
	}
	if err == nil {
		sc.fitting.Secrets = append(sc.fitting.Secrets, redact.SecretValues(spec.Env, env)...)
		err = prepare.Check(&spec.GuestSpec, sc.fitting)
	}
	switch {
	case environment.IsNotFound(err):
		sc.conclude(conditions.Waiting, sandboxv1alpha1.ReferenceNotFoundReason, "spec."+err.Error())
		sc.requeueIn(referenceRetry)
		return nil, nil
	case prepare.IsInvalid(err):
		sc.conclude(conditions.Stalled, sandboxv1alpha1.InvalidSpecReason, "spec."+err.Error())
		return nil, nil
	case err != nil:
		return nil, err
	}
	return env, nil
}

const (
	// referenceRetry is how often a missing Secret is looked for; ConfigMaps wake
	// the runtime by themselves.
	referenceRetry = 10 * time.Second
	// secretPoll is how often Secrets are looked at: to be told of changes the
	// operator would have to read all Secrets there are. Runtimes look at different
	// times, and at most secretJitter later.
	secretPoll   = 50 * time.Second
	secretJitter = 0.2
)

// digest names the template. It is keyed: whoever reads the status could otherwise
// find out a short secret by trying values.
func (r *Reconciler) digest(sc *scope) (string, error) {
	create := sc.create
	create.IdleTimeout = 0 // A changed idle time needs no new sandbox.
	encoded, err := json.Marshal(struct {
		Agent           string
		Create          sandbox.CreateRequest
		Bus             string
		Files           []wire.File
		Packages, Setup []string
	}{r.Runner.AgentDigest(), create, r.busTemplate(&sc.obj.Spec), sc.fitting.Files, sc.fitting.Packages, sc.fitting.Setup})
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, r.DigestKey)
	mac.Write(encoded)
	return hex.EncodeToString(mac.Sum(nil)[:16]), nil
}
