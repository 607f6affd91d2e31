package sandboxrun

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/environment"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/prepare"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/redact"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/slim"
	"github.com/sandbox-operator/sandbox-operator/guest/runner"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

const (
	// referenceRetry is how often something that a run refers to is looked for.
	referenceRetry = 2 * time.Second
	// daemonGrace is how long a run of a bus caller, who waits, waits for an absent
	// daemon, which may only be restarting (contracts/code-runner.md §7.5).
	daemonGrace = 10 * time.Second
	// sandboxLease is how long the daemon lets the sandbox of a run live without
	// a sign of life, should the operator die.
	sandboxLease = 600 * time.Second
	// telemetrySwitch is the variable by which SDKs export telemetry. It is off
	// unless the spec says otherwise: exporters print and delay the exit of a program
	// (contracts/code-runner.md §14).
	telemetrySwitch = "OTEL_ENABLED"
)

// prepare resolves everything a run refers to before anything is started.
func (r *Reconciler) prepare(ctx context.Context, sc *scope) (bool, error) {
	if !r.Fleet.Snapshot().Available {
		if sc.fromBus() && r.Clock.Since(r.seen.since(sc.key)) >= daemonGrace {
			return r.finish(sc, result{failure: &failure{
				reason: sandboxv1alpha1.DaemonUnavailableReason, message: "no sandbox daemon answers on the bus; try again later",
			}})
		}
		sc.requeue = referenceRetry
		return sc.conclude(conditions.Waiting, sandboxv1alpha1.DaemonUnavailableReason,
			"the sandbox daemon does not answer on the bus; the run starts when it does")
	}
	source, problem, err := r.source(ctx, sc)
	if problem != nil {
		return r.finish(sc, result{failure: problem})
	}
	if err == nil {
		err = r.place(ctx, sc)
	}
	if err == nil && sc.outcome == nil && slim.LacksSource(sc.obj) {
		// Only now: one that waits for something else would read it time and again.
		source, err = r.readSource(ctx, sc)
	}
	if err == nil && sc.outcome == nil {
		sc.attempt.request, err = r.request(ctx, sc, source)
	}
	switch {
	case errors.Is(err, errReplaced):
		return true, nil // The cache is about to tell, which brings us here again.
	case environment.IsNotFound(err):
		sc.requeue = referenceRetry
		return sc.conclude(conditions.Waiting, sandboxv1alpha1.ReferenceNotFoundReason, "spec: "+err.Error())
	case prepare.IsInvalid(err):
		return r.finish(sc, result{failure: &failure{
			reason: sandboxv1alpha1.InvalidSpecReason, message: "spec: " + err.Error(),
		}})
	}
	return sc.outcome != nil, err
}

// errReplaced says that the object of a run has gone, or stands for another run.
var errReplaced = errors.New("the run has gone")

// readSource reads the inline code past the cache, which has none of it.
func (r *Reconciler) readSource(ctx context.Context, sc *scope) (string, error) {
	var whole sandboxv1alpha1.SandboxRun
	err := r.Reader.Get(ctx, sc.key, &whole)
	if apierrors.IsNotFound(err) || err == nil && (whole.UID != sc.obj.UID || whole.Spec.Source.Inline == nil) {
		return "", errReplaced
	}
	if err != nil {
		return "", fmt.Errorf("reading the source: %w", err)
	}
	return *whole.Spec.Source.Inline, nil
}

// source reads the code, unless it is inline and not in the cache. A transient one
// that is not in memory is gone for good.
func (r *Reconciler) source(ctx context.Context, sc *scope) (code string, problem *failure, err error) {
	from := sc.obj.Spec.Source
	switch {
	case slim.LacksSource(sc.obj):
		return "", nil, nil
	case from.Inline != nil:
		code = *from.Inline
	case from.ConfigMapKeyRef != nil:
		code, err = environment.ConfigMapKey(ctx, r.Reader, sc.obj.Namespace, from.ConfigMapKeyRef)
		if err != nil {
			return "", nil, err
		}
	default:
		kept, ok := r.Results.code(from.Transient.SHA256)
		if !ok {
			return "", &failure{
				reason:  sandboxv1alpha1.SandboxRunSourceLostReason,
				message: "the code came over the bus and the operator restarted before it ran; send it again",
			}, nil
		}
		code = string(kept)
	}
	if len(code) == 0 || len(code) > sandboxv1alpha1.MaxSourceBytes {
		return "", &failure{
			reason: sandboxv1alpha1.InvalidSpecReason,
			message: fmt.Sprintf("spec.source: the code has %d bytes; it must have 1 to %d",
				len(code), sandboxv1alpha1.MaxSourceBytes),
		}, nil
	}
	return code, nil, nil
}

// place decides where the program runs: in a slot of a SandboxRuntime, or in a
// sandbox of its own.
func (r *Reconciler) place(ctx context.Context, sc *scope) error {
	ref := sc.obj.Spec.RuntimeRef
	if ref == nil {
		return r.ownSandbox(ctx, sc)
	}
	runtime, err := r.findRuntime(ctx, types.NamespacedName{Namespace: sc.obj.Namespace, Name: ref.Name})
	if sc.fromBus() && (environment.IsNotFound(err) || err == nil && !runtime.DeletionTimestamp.IsZero()) {
		// A kept runtime never comes back, and its caller waits for the answer.
		_, err = r.finish(sc, result{failure: &failure{
			reason: sandboxv1alpha1.SandboxRunSandboxFailedReason, message: "the kept runtime is gone", lost: true,
		}})
		return err
	}
	if err != nil {
		return err
	}
	if language := sc.obj.Spec.Language; language != "" && language != runtime.Spec.Language {
		_, err = r.finish(sc, result{failure: &failure{
			reason: sandboxv1alpha1.InvalidSpecReason,
			message: fmt.Sprintf("spec.language: %s cannot be mixed with SandboxRuntime %s, which is %s",
				language, ref.Name, runtime.Spec.Language),
		}})
		return err
	}
	if sc.fromBus() {
		// A runtime that may not boot would keep its caller waiting.
		if held, err := r.holdFromBus(sc, &runtime.Spec.GuestSpec); held {
			return err
		}
	}
	if off := switchedOff(runtime); off != "" {
		sc.requeue = referenceRetry
		_, err = sc.conclude(conditions.Waiting, sandboxv1alpha1.SandboxFunctionRuntimeNotReadyReason,
			fmt.Sprintf("SandboxRuntime %s %s", ref.Name, off))
		return err
	}
	sc.attempt.secrets, err = prepare.Secrets(ctx, r.Reader, runtime.Namespace, runtime.Spec.Env, runtime.Spec.Files)
	if err != nil {
		return err
	}
	sc.attempt.language = runtime.Spec.Language
	sc.attempt.runtime = &publish.Runtime{Namespace: runtime.Namespace, Name: runtime.Name, UID: string(runtime.UID)}
	return nil
}

// findRuntime asks the API server itself for what the cache lacks: the runtime of
// a bus caller is made a moment before its first run, and may be missing in one
// cache and present in the other.
func (r *Reconciler) findRuntime(ctx context.Context, key types.NamespacedName) (*sandboxv1alpha1.SandboxRuntime, error) {
	var runtime sandboxv1alpha1.SandboxRuntime
	err := r.Client.Get(ctx, key, &runtime)
	if apierrors.IsNotFound(err) {
		err = r.Reader.Get(ctx, key, &runtime)
	}
	if apierrors.IsNotFound(err) {
		return nil, &environment.NotFoundError{Kind: "SandboxRuntime", Name: key.Name}
	}
	return &runtime, err
}

// switchedOff says why a runtime will have no sandbox until somebody changes it.
func switchedOff(runtime *sandboxv1alpha1.SandboxRuntime) string {
	switch {
	case !runtime.DeletionTimestamp.IsZero():
		return "is being deleted"
	case runtime.Spec.Suspend:
		return "is suspended"
	case runtime.Spec.Replicas != nil && *runtime.Spec.Replicas == 0:
		return "is scaled to zero"
	case conditions.IsTrue(runtime, sandboxv1alpha1.StalledCondition):
		return "is stalled"
	default:
		return ""
	}
}

func (r *Reconciler) ownSandbox(ctx context.Context, sc *scope) error {
	guest := sc.obj.Spec.Runtime
	if guest == nil {
		guest = &sandboxv1alpha1.GuestSpec{}
	}
	if held, err := r.holdFromBus(sc, guest); held {
		return err
	}
	env, err := environment.Resolve(ctx, r.Reader, sc.obj.Namespace, guest.Env)
	if err != nil {
		return err
	}
	sc.attempt.secrets = append(sc.attempt.secrets, redact.SecretValues(guest.Env, env)...)
	if sc.attempt.plan, err = r.plan(ctx, sc, guest); err != nil {
		return fmt.Errorf("runtime: %w", err)
	}
	if _, chosen := env[telemetrySwitch]; !chosen {
		env[telemetrySwitch] = "false"
	}
	nonce := sandbox.NewNonce()
	sum := sha256.Sum256([]byte(nonce))
	sc.attempt.digest = hex.EncodeToString(sum[:])
	if guest.HasBusAccess() {
		env["III_URL"] = r.guestURL(sc)
	}
	sc.attempt.language = sc.obj.Spec.Language
	sc.attempt.create = sandbox.CreateRequest{
		Image: guest.ImageFor(sc.obj.Spec.Language), CPUs: guest.CPUs(), MemoryMiB: guest.MemoryMiB(),
		Network: guest.HasNetwork(), IdleTimeout: sandboxLease, Env: env,
		Marker: sandbox.Marker{Operator: r.OperatorID, Object: sc.id(), Nonce: nonce},
	}
	return nil
}

// plan resolves what the sandbox needs before the program.
func (r *Reconciler) plan(ctx context.Context, sc *scope, guest *sandboxv1alpha1.GuestSpec) (prepare.Plan, error) {
	plan, err := prepare.Resolve(ctx, r.Reader, sc.obj.Namespace, sc.obj.Spec.Language, guest)
	if err != nil {
		return plan, err
	}
	sc.attempt.secrets = append(sc.attempt.secrets, plan.Secrets...)
	// A program of the plan may print any Secret of the sandbox.
	plan.Secrets = sc.attempt.secrets
	return plan, prepare.Check(guest, plan)
}

func (r *Reconciler) request(ctx context.Context, sc *scope, source string) (wire.RunRequest, error) {
	spec := &sc.obj.Spec
	env, err := environment.Resolve(ctx, r.Reader, sc.obj.Namespace, spec.Env)
	if err != nil {
		return wire.RunRequest{}, err
	}
	sc.attempt.secrets = append(sc.attempt.secrets, redact.SecretValues(spec.Env, env)...)
	files, secrets, err := prepare.Files(ctx, r.Reader, sc.obj.Namespace, spec.Files)
	if err != nil {
		return wire.RunRequest{}, err
	}
	sc.attempt.secrets = append(sc.attempt.secrets, secrets...)
	request := wire.RunRequest{
		Language: prepare.Language(sc.attempt.language), Source: source, Args: spec.Args, Env: env,
		Stdin: []byte(spec.Stdin), Files: files, Folder: workFolder, Token: runner.NewToken(),
		KeepFiles: sc.attempt.runtime != nil, KeepProcesses: sc.attempt.runtime != nil,
		TimeoutMs: r.timeout(spec).Milliseconds(),
		// The engine refuses a second worker of the same name.
		Bus: wire.Bus{WorkerName: r.WorkerName + ":run:" + shortID(sc.id())},
	}
	return request, nil
}

// workFolder is the working directory of programs. In a SandboxRuntime it stays
// from one run to the next.
const workFolder = "/workspace"

func shortID(uid string) string {
	sum := sha256.Sum256([]byte(uid))
	return hex.EncodeToString(sum[:4])
}

func (r *Reconciler) timeout(spec *sandboxv1alpha1.SandboxRunSpec) time.Duration {
	if spec.TimeoutMilliseconds == nil {
		return r.DefaultTimeout
	}
	return time.Duration(*spec.TimeoutMilliseconds) * time.Millisecond
}

// start announces the attempt; it begins once the announcement is written.
func (r *Reconciler) start(_ context.Context, sc *scope) (bool, error) {
	now := metav1.NewTime(r.Clock.Now())
	sc.obj.Status.Phase = sandboxv1alpha1.RunRunning
	sc.obj.Status.StartTime = &now
	sc.obj.Status.AttemptDigest = sc.attempt.digest
	sc.attempt.timeout = r.timeout(&sc.obj.Spec)
	sc.attempt.accepted = r.seen.since(sc.key)
	sc.attempt.patient = !sc.fromBus()
	sc.afterWrite = func() { r.launch(sc) }
	return sc.conclude(conditions.Progressing, sandboxv1alpha1.SandboxRunRunningReason, "the program runs")
}

func (r *Reconciler) launch(sc *scope) {
	uid, key, bus, a := sc.obj.UID, sc.key, sc.fromBus(), sc.attempt
	r.attempts.Start(string(uid), func(ctx context.Context) (result, error) {
		res := r.execute(ctx, a)
		r.Metrics.observe(res)
		// The caller of a deleted run was told of that.
		if bus && r.seen.has(key, uid) {
			r.Results.deliver(uid, res.toOutcome())
			res.delivered = true
		}
		return res, nil
	}, func() { r.settle(key, uid) })
}

// settle lets the reconciliation take the result over, or forgets it if the run
// has been deleted in the meantime.
func (r *Reconciler) settle(key types.NamespacedName, uid types.UID) {
	if !r.seen.has(key, uid) {
		r.attempts.Take(string(uid))
		return
	}
	r.waker.Wake(key)
}
