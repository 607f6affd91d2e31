package slim

import sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"

// maxCachedSource is the size up to which the source of a run that has not ended
// stays in the cache, in bytes: that of the runs of bus callers, who would wait for
// one request more. There are as many of these as run or wait to, and they end.
const maxCachedSource = 8 << 10

// slimRun takes a large source out of a run, which is read once more before it
// starts, and out of one that has ended all that it was started with and all that
// it printed. Runs without a ttl stay for as long as users like.
func slimRun(run *sandboxv1alpha1.SandboxRun) {
	source := &run.Spec.Source
	if source.Inline != nil && (run.IsFinished() || len(*source.Inline) > maxCachedSource) {
		source.Inline = nil
	}
	if !run.IsFinished() {
		return
	}
	run.Spec.Stdin, run.Spec.Args, run.Spec.Env, run.Spec.Files = "", nil, nil, nil
	if guest := run.Spec.Runtime; guest != nil {
		guest.Env, guest.Files, guest.Setup = nil, nil, nil
	}
	run.Status.Stdout, run.Status.Stderr, run.Status.Result = "", "", nil
}

// LacksSource says that the inline source of a run was taken out: each run has one
// of three kinds of sources.
func LacksSource(run *sandboxv1alpha1.SandboxRun) bool {
	source := run.Spec.Source
	return source.Inline == nil && source.ConfigMapKeyRef == nil && source.Transient == nil
}
