package shim

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// identify adds a runtime to an event: its reference, and under open
// capabilities the ids that are known.
func (s *Shim) identify(e event, runtime *v1alpha1.SandboxRuntime) event {
	e.Reference = referenceOf(runtime)
	e.RuntimeID = s.openID(runtime)
	return e
}

func (s *Shim) openID(runtime *v1alpha1.SandboxRuntime) string {
	return s.ids.shownTo("", runtime.Name, s.OpenCapabilities)
}

func (s *Shim) tellCreated(runtime *v1alpha1.SandboxRuntime) func() {
	return func() {
		s.events.emit(s.identify(event{
			Kind: eventRuntimeCreated, Language: languageWords[runtime.Spec.Language], SandboxID: s.openSandbox(runtime.UID),
		}, runtime))
	}
}

func (s *Shim) tellTeardown(runtime *v1alpha1.SandboxRuntime) func(requested bool) {
	return func(requested bool) {
		s.events.emit(s.identify(event{Kind: eventTeardown, Outcome: howItEnded(requested)}, runtime))
	}
}

func (s *Shim) tellUnregistered(f *v1alpha1.SandboxFunction) func(requested bool) {
	return func(requested bool) {
		s.events.emit(event{
			Kind: eventFunctionUnregistered, FunctionID: f.Spec.FunctionID,
			Language: languageWords[languageOf(f)], Outcome: howItEnded(requested),
		})
	}
}

func howItEnded(requested bool) string {
	if requested {
		return outcomeTornDown
	}
	return outcomeGone
}

// tellKept tells of a runtime that its caller now has the id of, before its
// first run.
func (s *Shim) tellKept(runtime *v1alpha1.SandboxRuntime, o Outcome) {
	settled := func() { s.tellSettled(runtime.Spec.Language, runtime, o) }
	s.lifetimes.begin(runtime.UID, func() {
		s.tellCreated(runtime)()
		settled()
	}, s.tellTeardown(runtime))
}

// tellSettled is for runs that answered. runtime is nil for one that is gone
// with its run.
func (s *Shim) tellSettled(language v1alpha1.Language, runtime *v1alpha1.SandboxRuntime, o Outcome) {
	e := event{Kind: eventRunSettled, Language: languageWords[language], Outcome: outcomeFailure}
	if o.Success {
		e.Outcome = outcomeSuccess
	}
	if runtime != nil {
		e = s.identify(e, runtime)
	}
	s.events.emit(e)
}

// tellFailed is for runs that ended in an error, whose code is the outcome.
func (s *Shim) tellFailed(language v1alpha1.Language, runtime *v1alpha1.SandboxRuntime, err error) {
	e := event{Kind: eventRunFailed, Language: languageWords[language], Outcome: codeOf(err)}
	if runtime != nil {
		e = s.identify(e, runtime)
	}
	s.events.emit(e)
}

// tellRegistered tells of a function, and before that of its runtime unless that
// is known (contracts/code-runner.md §15).
func (s *Shim) tellRegistered(ctx context.Context, f *v1alpha1.SandboxFunction, outcome string) {
	e := event{
		Kind: eventFunctionRegistered, FunctionID: f.Spec.FunctionID, Language: languageWords[languageOf(f)], Outcome: outcome,
	}
	if runtime := s.runtimeOf(ctx, f); runtime != nil {
		s.lifetimes.begin(runtime.UID, s.tellCreated(runtime), s.tellTeardown(runtime))
		e = s.identify(e, runtime)
	}
	if outcome == outcomeReplaced {
		s.lifetimes.adopt(f.UID)
		s.events.emit(e)
		return
	}
	s.lifetimes.begin(f.UID, func() { s.events.emit(e) }, s.tellUnregistered(f))
}

// runtimeOf is nil if the runtime cannot be found.
func (s *Shim) runtimeOf(ctx context.Context, f *v1alpha1.SandboxFunction) *v1alpha1.SandboxRuntime {
	if f.Status.RuntimeName == "" {
		return nil
	}
	runtime := &v1alpha1.SandboxRuntime{}
	key := client.ObjectKey{Namespace: f.Namespace, Name: f.Status.RuntimeName}
	if s.Client.Get(ctx, key, runtime) != nil && s.Reader.Get(ctx, key, runtime) != nil {
		return nil
	}
	return runtime
}

// openSandbox is the sandbox of an object, under open capabilities and once the
// daemon has listed it.
func (s *Shim) openSandbox(uid types.UID) string {
	if instances := s.Fleet.Snapshot().Ours[string(uid)]; s.OpenCapabilities && len(instances) > 0 {
		return instances[0].Info.ID.Reveal()
	}
	return ""
}
