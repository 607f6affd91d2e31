package v1alpha1

// Labels and annotations.
const (
	// OriginLabel says where an object comes from; OriginBus marks those that the
	// bus shim made.
	OriginLabel = "sandbox.iii.dev/origin"
	// OriginBus is the value of OriginLabel on objects made for a bus caller.
	OriginBus = "bus"
	// ImplicitLabel marks runtimes that exist for the functions of one id prefix
	// and language.
	ImplicitLabel = "sandbox.iii.dev/implicit"
	// OwnLabel marks runtimes that were made for one function alone, from its
	// spec.runtime, and go with it.
	OwnLabel = "sandbox.iii.dev/own"
	// PrefixHashLabel holds a short hash of the id prefix that an implicit or own
	// runtime or a bus-made function belongs to.
	PrefixHashLabel = "sandbox.iii.dev/prefix-hash"
	// FunctionIDAnnotation holds the id of the function or the id prefix on
	// objects whose name is a slug of it.
	FunctionIDAnnotation = "sandbox.iii.dev/function-id"
	// RegisteredAtAnnotation holds when a bus caller registered a function or kept a
	// runtime, on it and on the runtime that was made for it: UTC with nanoseconds,
	// since creation times have whole seconds.
	RegisteredAtAnnotation = "sandbox.iii.dev/registered-at"
	// ReconcileRequestAnnotation makes the operator look at an object at once when
	// its value changes.
	ReconcileRequestAnnotation = "reconcile.sandbox.iii.dev/requestedAt"
	// RuntimeFinalizer holds a SandboxRuntime until its sandboxes are gone.
	RuntimeFinalizer = "sandbox.iii.dev/sandboxes"
	// FunctionFinalizer holds a SandboxFunction until it is off the bus.
	FunctionFinalizer = "sandbox.iii.dev/publication"
)
