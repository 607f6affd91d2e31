package v1alpha1

// Condition types. Ready is always present; Reconciling and Stalled only while
// true, as kstatus expects.
const (
	// ReadyCondition says that the object is as its spec wants it.
	ReadyCondition = "Ready"
	// ReconcilingCondition says that the operator is at work on the object.
	ReconcilingCondition = "Reconciling"
	// StalledCondition says that only a change of the spec, or of what stands in
	// its way, can help.
	StalledCondition = "Stalled"

	// SandboxRuntimeBootedCondition says that the wanted sandboxes exist.
	SandboxRuntimeBootedCondition = "Booted"
	// SandboxRuntimeGuestReadyCondition says that the agent answers in them.
	SandboxRuntimeGuestReadyCondition = "GuestReady"

	// SandboxFunctionRuntimeReadyCondition says that the function's runtime takes
	// calls and the source is planted in it.
	SandboxFunctionRuntimeReadyCondition = "RuntimeReady"
	// SandboxFunctionPublishedCondition says that the engine names this operator
	// as the owner of the function id.
	SandboxFunctionPublishedCondition = "Published"
	// SandboxFunctionTriggersBoundCondition says that the engine lists every
	// trigger; absent without triggers.
	SandboxFunctionTriggersBoundCondition = "TriggersBound"

	// SandboxRunCompleteCondition says that the program exited with 0.
	SandboxRunCompleteCondition = "Complete"
	// SandboxRunFailedCondition says that the run ended in any other way.
	SandboxRunFailedCondition = "Failed"
)

// Reasons of all kinds.
const (
	// ReadyReason surfaces when an object is as it should be.
	ReadyReason = "Ready"
	// ProgressingReason surfaces while the operator works on an object.
	ProgressingReason = "Progressing"
	// SuspendedReason surfaces on objects with suspend: true.
	SuspendedReason = "Suspended"
	// DeletingReason surfaces while what an object holds is cleaned up.
	DeletingReason = "Deleting"
	// DaemonUnavailableReason surfaces while the sandbox daemon cannot be reached;
	// the object waits and goes on by itself.
	DaemonUnavailableReason = "DaemonUnavailable"
	// BusUnavailableReason surfaces while the iii engine cannot be reached; the
	// object waits and goes on by itself.
	BusUnavailableReason = "BusUnavailable"
	// BusNotIsolatedReason surfaces when guests would get bus access through a
	// listener that does not keep them apart: as a warning, and with
	// --require-bus-isolation as a refusal.
	BusNotIsolatedReason = "BusNotIsolated"
	// CapacityReason surfaces while the daemon takes no further sandbox.
	CapacityReason = "Capacity"
	// ReferenceNotFoundReason surfaces while a Secret, ConfigMap, key or
	// SandboxRuntime that the spec names does not exist.
	ReferenceNotFoundReason = "ReferenceNotFound"
	// InvalidSpecReason surfaces when the spec breaks a rule that the API server
	// cannot check.
	InvalidSpecReason = "InvalidSpec"
)

// Reasons of SandboxRuntime.
const (
	// SandboxRuntimeBootingReason surfaces while sandboxes are made.
	SandboxRuntimeBootingReason = "Booting"
	// SandboxRuntimeBootFailedReason surfaces when the daemon could not make a
	// sandbox; the attempt is repeated.
	SandboxRuntimeBootFailedReason = "BootFailed"
	// SandboxRuntimeImageRejectedReason surfaces when the daemon does not know the
	// image or may not use it.
	SandboxRuntimeImageRejectedReason = "ImageRejected"
	// SandboxRuntimeGuestFailedReason surfaces when the agent does not answer in a
	// new sandbox.
	SandboxRuntimeGuestFailedReason = "GuestFailed"
	// SandboxRuntimeFilesFailedReason surfaces when a file of the spec cannot be
	// written into a new sandbox; the attempt is repeated more and more slowly.
	SandboxRuntimeFilesFailedReason = "FilesFailed"
	// SandboxRuntimePackagesFailedReason surfaces when npm or pip cannot install the
	// packages in a new sandbox; the attempt is repeated more and more slowly.
	SandboxRuntimePackagesFailedReason = "PackagesFailed"
	// SandboxRuntimeSetupFailedReason surfaces when a setup command fails in a new
	// sandbox; the attempt is repeated more and more slowly.
	SandboxRuntimeSetupFailedReason = "SetupFailed"
	// SandboxRuntimeCrashLoopReason surfaces when sandboxes are lost again and again
	// soon after they were ready; they are replaced more and more slowly.
	SandboxRuntimeCrashLoopReason = "CrashLoop"
	// SandboxRuntimeIdleReason surfaces when sandboxes were stopped because nobody
	// called; the next call boots one.
	SandboxRuntimeIdleReason = "Idle"
	// SandboxRuntimeScaledToZeroReason surfaces with replicas: 0.
	SandboxRuntimeScaledToZeroReason = "ScaledToZero"
)

// Reasons of SandboxFunction.
const (
	// SandboxFunctionConflictReason surfaces when another object or another worker
	// on the bus holds the function id. The later one is Stalled.
	SandboxFunctionConflictReason = "FunctionIDTaken"
	// SandboxFunctionReservedReason surfaces when the id prefix belongs to the
	// operator's own worker.
	SandboxFunctionReservedReason = "ReservedPrefix"
	// SandboxFunctionPrefixTakenReason surfaces when functions of another namespace
	// hold the id prefix; it goes by itself when the last of those goes.
	SandboxFunctionPrefixTakenReason = "PrefixTaken"
	// SandboxFunctionSourceInvalidReason surfaces when the source does not parse,
	// does not load or has no handler.
	SandboxFunctionSourceInvalidReason = "SourceInvalid"
	// SandboxFunctionSourceTooLargeReason surfaces when a source from a ConfigMap
	// is empty or larger than 1 MiB.
	SandboxFunctionSourceTooLargeReason = "SourceSize"
	// SandboxFunctionRuntimeNotReadyReason surfaces while the runtime takes no
	// calls.
	SandboxFunctionRuntimeNotReadyReason = "RuntimeNotReady"
	// SandboxFunctionPlantingReason surfaces while the source is put in place.
	SandboxFunctionPlantingReason = "Planting"
	// SandboxFunctionUnconfirmedReason surfaces while the engine does not name
	// this operator as the function's owner yet.
	SandboxFunctionUnconfirmedReason = "Unconfirmed"
	// SandboxFunctionTriggersPendingReason surfaces while the engine does not list
	// a trigger, usually because the worker that provides its type is absent.
	SandboxFunctionTriggersPendingReason = "TriggersPending"
)

// Reasons of SandboxRun.
const (
	// SandboxRunRunningReason surfaces while the program runs.
	SandboxRunRunningReason = "Running"
	// SandboxRunCompletedReason surfaces on a program that exited with 0.
	SandboxRunCompletedReason = "Completed"
	// SandboxRunExitCodeReason surfaces on a program that exited with another
	// code.
	SandboxRunExitCodeReason = "NonZeroExitCode"
	// SandboxRunTimeoutReason surfaces on a program that passed its deadline.
	SandboxRunTimeoutReason = "DeadlineExceeded"
	// SandboxRunCancelledReason surfaces after cancel: true.
	SandboxRunCancelledReason = "Cancelled"
	// SandboxRunInterruptedReason surfaces when the operator restarted while the
	// program ran. It is not repeated: it may have had effects.
	SandboxRunInterruptedReason = "Interrupted"
	// SandboxRunSourceLostReason surfaces when the operator restarted before a
	// transient source was run.
	SandboxRunSourceLostReason = "SourceLost"
	// SandboxRunPrepareFailedReason surfaces when a file, package or setup command
	// of the run's own sandbox failed; the program was not started.
	SandboxRunPrepareFailedReason = "PrepareFailed"
	// SandboxRunSandboxFailedReason surfaces when no sandbox could be made or it
	// was lost.
	SandboxRunSandboxFailedReason = "SandboxFailed"
)
