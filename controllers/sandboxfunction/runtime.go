package sandboxfunction

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/index"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// ensureRuntime finds the function's runtime, makes it unless it is a referenced
// one, and leaves the bus if the runtime cannot serve.
func (r *Reconciler) ensureRuntime(ctx context.Context, sc *scope) (bool, error) {
	name := index.RuntimeName(sc.obj)
	var runtime sandboxv1alpha1.SandboxRuntime
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: sc.obj.Namespace, Name: name}, &runtime)
	if apierrors.IsNotFound(err) {
		return r.missingRuntime(ctx, sc, name)
	}
	if err != nil {
		return false, err
	}
	sc.obj.Status.RuntimeName = name
	sc.runtime = publish.Runtime{Namespace: runtime.Namespace, Name: runtime.Name, UID: string(runtime.UID)}
	sc.language, sc.env, sc.files = guestLanguage(runtime.Spec.Language), runtime.Spec.Env, runtime.Spec.Files
	switch {
	case sc.obj.Spec.Runtime != nil:
		if done, err := r.keepOwn(ctx, sc, &runtime); done || err != nil {
			return done, err
		}
	case sc.obj.Spec.RuntimeRef == nil && runtime.Labels[sandboxv1alpha1.ImplicitLabel] == "":
		return sc.conclude(conditions.Stalled, sandboxv1alpha1.InvalidSpecReason,
			fmt.Sprintf("SandboxRuntime %s exists and is not a shared one; delete it or use spec.runtimeRef", name))
	}
	if r.isBack(sc, &runtime) {
		return false, nil
	}
	sc.runtimeTrouble = trouble(&runtime)
	if reason, message := unservable(&runtime); reason != "" {
		if reason == sandboxv1alpha1.DaemonUnavailableReason {
			r.pause(sc.known)
		} else {
			r.withdraw(sc.known)
		}
		return sc.conclude(conditions.Waiting, reason, fmt.Sprintf("SandboxRuntime %s: %s", name, message))
	}
	return false, nil
}

// isBack says that the daemon has been heard of since the runtime said in its status
// that it is away. The functions of a sandbox that takes calls need not wait for
// another status.
func (r *Reconciler) isBack(sc *scope, runtime *sandboxv1alpha1.SandboxRuntime) bool {
	reason, _ := unservable(runtime)
	return reason == sandboxv1alpha1.DaemonUnavailableReason && r.DaemonAnswers() && len(r.Table.Instances(sc.runtime)) > 0
}

// unservable says why a runtime takes no calls, now and in the next seconds. One
// that is booting, or idle, does: callers wait for it.
func unservable(runtime *sandboxv1alpha1.SandboxRuntime) (reason, message string) {
	ready := conditions.Find(runtime, sandboxv1alpha1.ReadyCondition)
	switch {
	case !runtime.DeletionTimestamp.IsZero():
		return sandboxv1alpha1.SandboxFunctionRuntimeNotReadyReason, "is being deleted"
	case runtime.Spec.Suspend:
		return sandboxv1alpha1.SandboxFunctionRuntimeNotReadyReason, "is suspended"
	case runtime.Spec.Replicas != nil && *runtime.Spec.Replicas == 0:
		return sandboxv1alpha1.SandboxFunctionRuntimeNotReadyReason, "is scaled to zero"
	case ready != nil && ready.Reason == sandboxv1alpha1.DaemonUnavailableReason:
		return sandboxv1alpha1.DaemonUnavailableReason, ready.Message
	case conditions.IsTrue(runtime, sandboxv1alpha1.StalledCondition):
		return sandboxv1alpha1.SandboxFunctionRuntimeNotReadyReason, ready.Message
	default:
		return "", ""
	}
}

// trouble is why a runtime is not ready, in its own words, or nil: what it waits
// for, its functions wait for too.
func trouble(runtime *sandboxv1alpha1.SandboxRuntime) *conditions.Outcome {
	ready := conditions.Find(runtime, sandboxv1alpha1.ReadyCondition)
	if ready == nil || ready.Status != metav1.ConditionFalse || ready.ObservedGeneration != runtime.Generation {
		return nil
	}
	return &conditions.Outcome{Reason: ready.Reason, Message: fmt.Sprintf("SandboxRuntime %s: %s", runtime.Name, ready.Message)}
}

func (r *Reconciler) missingRuntime(ctx context.Context, sc *scope, name string) (bool, error) {
	if sc.obj.Spec.RuntimeRef != nil {
		r.withdraw(sc.known)
		return sc.conclude(conditions.Waiting, sandboxv1alpha1.ReferenceNotFoundReason,
			fmt.Sprintf("spec.runtimeRef: SandboxRuntime %s does not exist", name))
	}
	wanted := implicitRuntime(sc.obj, name)
	if sc.obj.Spec.Runtime != nil {
		wanted = ownRuntime(sc.obj, name)
	}
	err := r.Client.Create(ctx, wanted)
	switch {
	case apierrors.IsInvalid(err):
		return sc.conclude(conditions.Stalled, sandboxv1alpha1.InvalidSpecReason,
			fmt.Sprintf("spec.runtime: SandboxRuntime %s cannot be made: %v", name, err))
	case err != nil && !apierrors.IsAlreadyExists(err):
		return false, fmt.Errorf("creating SandboxRuntime %s: %w", name, err)
	}
	return sc.conclude(conditions.Progressing, sandboxv1alpha1.SandboxFunctionRuntimeNotReadyReason,
		fmt.Sprintf("SandboxRuntime %s is being made", name))
}

// implicitRuntime is the runtime that the functions of one id prefix and
// language share. For functions that came over the bus it has the network and
// bus access that the original worker gave.
func implicitRuntime(fn *sandboxv1alpha1.SandboxFunction, name string) *sandboxv1alpha1.SandboxRuntime {
	prefix := index.Prefix(fn.Spec.FunctionID)
	runtime := &sandboxv1alpha1.SandboxRuntime{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fn.Namespace, Name: name,
			Labels: map[string]string{
				sandboxv1alpha1.ImplicitLabel:   "true",
				sandboxv1alpha1.PrefixHashLabel: index.Hash(prefix),
			},
			Annotations: map[string]string{sandboxv1alpha1.FunctionIDAnnotation: prefix + "::"},
		},
		Spec: sandboxv1alpha1.SandboxRuntimeSpec{Language: fn.Spec.Language},
	}
	if fn.Labels[sandboxv1alpha1.OriginLabel] == sandboxv1alpha1.OriginBus {
		runtime.Spec.Network = sandboxv1alpha1.AccessEnabled
		runtime.Spec.BusAccess = sandboxv1alpha1.AccessEnabled
	}
	stampRegistration(fn, runtime)
	return runtime
}

// stampRegistration gives a runtime the exact time at which a bus caller asked for
// it, by which list_runtimes orders.
func stampRegistration(fn *sandboxv1alpha1.SandboxFunction, runtime *sandboxv1alpha1.SandboxRuntime) {
	if at, ok := fn.Annotations[sandboxv1alpha1.RegisteredAtAnnotation]; ok {
		runtime.Annotations = with(runtime.Annotations, map[string]string{sandboxv1alpha1.RegisteredAtAnnotation: at})
	}
}

func guestLanguage(l sandboxv1alpha1.Language) wire.Language {
	if l == sandboxv1alpha1.LanguagePython {
		return wire.Python
	}
	return wire.Node
}
