package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SandboxRuntimeSpec describes sandboxes that should exist.
// +kubebuilder:validation:XValidation:rule="!has(self.idle) || !has(self.idle.action) || self.idle.action != 'Delete' || !has(self.replicas) || self.replicas <= 1",message="idle.action: Delete goes with at most one replica",fieldPath=".idle.action"
// +kubebuilder:validation:XValidation:rule=`self.language != 'Node' || !has(self.packages) || self.packages.all(p, p.matches('^(@[a-z0-9~][a-z0-9._~-]*/)?[a-z0-9~][a-z0-9._~-]*(@[A-Za-z0-9^~<>=|*._+ -]{1,128})?$'))`,message="packages of a Node runtime are those of npm: name or name@range",fieldPath=".packages"
// +kubebuilder:validation:XValidation:rule=`self.language != 'Python' || !has(self.packages) || self.packages.all(p, p.matches('^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?( ?\\[ ?[A-Za-z0-9._-]+( ?, ?[A-Za-z0-9._-]+)* ?\\])?( ?(===|==|~=|!=|<=|>=|<|>) ?[A-Za-z0-9][A-Za-z0-9._*+!-]*( ?, ?(===|==|~=|!=|<=|>=|<|>) ?[A-Za-z0-9][A-Za-z0-9._*+!-]*)*)?$'))`,message="packages of a Python runtime are those of pip: name, name[extra] or name==version",fieldPath=".packages"
type SandboxRuntimeSpec struct {
	// language is the interpreter of the functions and runs of this runtime. It
	// cannot be changed.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="language cannot be changed; make a new SandboxRuntime"
	Language Language `json:"language"`

	GuestSpec `json:",inline"`

	RuntimeScale `json:",inline"`

	// suspend stops all sandboxes and takes the functions of the runtime off the
	// bus until it is false again.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// RuntimeScale says how many sandboxes a runtime has, and when.
type RuntimeScale struct {
	// replicas is the number of sandboxes. Defaults to 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=64
	Replicas *int32 `json:"replicas,omitempty"`

	// concurrency is how many programs run at the same time in one sandbox. The
	// daemon's own cap applies too, less one place that is kept for upkeep.
	// Defaults to that cap.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	Concurrency *int32 `json:"concurrency,omitempty"`

	// idle says what becomes of sandboxes that nobody calls.
	// +optional
	Idle *IdlePolicy `json:"idle,omitempty"`
}

// IdleAction is what happens to a runtime that nobody calls.
// +kubebuilder:validation:Enum=Stop;Keep;Delete
type IdleAction string

// The values of an IdleAction.
const (
	// IdleStop stops the sandboxes; functions stay on the bus and the next call
	// boots a sandbox again.
	IdleStop IdleAction = "Stop"
	// IdleKeep leaves the sandboxes running.
	IdleKeep IdleAction = "Keep"
	// IdleDelete deletes the SandboxRuntime. Only runtimes that the bus made obey
	// it; any other treats it as Stop.
	IdleDelete IdleAction = "Delete"
)

// IdlePolicy says what becomes of sandboxes that nobody calls.
type IdlePolicy struct {
	// timeoutSeconds is the time since the last call or run. Defaults to 900.
	// +optional
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=604800
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// action to take. Defaults to Stop.
	// +optional
	Action IdleAction `json:"action,omitempty"`
}

// InstanceState is where one sandbox of a runtime stands.
// +kubebuilder:validation:Enum=Booting;Ready;Stopping
type InstanceState string

// The values of an InstanceState.
const (
	// InstanceBooting is being made; its agent has not answered yet.
	InstanceBooting InstanceState = "Booting"
	// InstanceReady takes calls.
	InstanceReady InstanceState = "Ready"
	// InstanceStopping takes no calls any more and is being destroyed.
	InstanceStopping InstanceState = "Stopping"
)

// InstanceStatus is one sandbox of a runtime. Its handle is never shown.
type InstanceStatus struct {
	// name tells the instances of a runtime apart.
	// +required
	// +kubebuilder:validation:MaxLength=16
	Name string `json:"name"`
	// state of the sandbox.
	// +required
	State InstanceState `json:"state"`
	// digest of the secret-free nonce of the attempt that made the sandbox. It is
	// written before the attempt, so that a restarted operator knows its sandbox
	// again and destroys those of forgotten attempts.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Digest string `json:"digest"`
	// templateDigest is the digest of the spec that the sandbox was booted from.
	// +required
	// +kubebuilder:validation:MaxLength=64
	TemplateDigest string `json:"templateDigest"`
	// createdAt is when the attempt began.
	// +required
	CreatedAt metav1.Time `json:"createdAt"`
}

// SandboxRuntimeStatus is what the operator observed.
type SandboxRuntimeStatus struct {
	// observedGeneration is the generation that was last handled.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready always; Booted and GuestReady; Reconciling and Stalled
	// only while true.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// replicas is the number of sandboxes that exist, for the scale subresource.
	// +optional
	Replicas int32 `json:"replicas"`
	// readyReplicas is how many of them take calls.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// selector selects nothing that exists as a Pod; the scale subresource
	// requires one.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Selector string `json:"selector,omitempty"`
	// functions is the number of SandboxFunctions that use the runtime.
	// +optional
	Functions int32 `json:"functions"`
	// isolation is what separates the guests from the host, as the daemon says.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Isolation string `json:"isolation,omitempty"`
	// busIsolated says whether the guests reach the bus only through a listener
	// that knows who they are and what they may call; unset without busAccess.
	// +optional
	BusIsolated *bool `json:"busIsolated,omitempty"`
	// instances are the sandboxes.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Instances []InstanceStatus `json:"instances,omitempty"`
}

// SandboxRuntime is a set of like sandboxes in which functions and runs live.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=sbr,categories=sandbox
// +kubebuilder:printcolumn:name="Language",type=string,JSONPath=`.spec.language`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Sandboxes",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Functions",type=integer,JSONPath=`.status.functions`
// +kubebuilder:printcolumn:name="Isolation",type=string,JSONPath=`.status.isolation`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name must have at most 63 characters"
type SandboxRuntime struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what should exist.
	// +required
	Spec SandboxRuntimeSpec `json:"spec"`
	// status is what the operator observed. Until it has, the generation is one that
	// no object has, so that nobody takes a new object for a ready one.
	// +kubebuilder:default:={"observedGeneration":-1,"replicas":0,"readyReplicas":0,"functions":0}
	// +optional
	Status SandboxRuntimeStatus `json:"status,omitzero"`
}

// SandboxRuntimeList is a list of runtimes.
// +kubebuilder:object:root=true
type SandboxRuntimeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SandboxRuntime `json:"items"`
}

// GetConditions returns the conditions of the status.
func (r *SandboxRuntime) GetConditions() []metav1.Condition { return r.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (r *SandboxRuntime) SetConditions(c []metav1.Condition) { r.Status.Conditions = c }

// GetObservedGeneration returns the generation that was handled; -1 before the
// operator has looked at the object.
func (r *SandboxRuntime) GetObservedGeneration() int64 { return r.Status.ObservedGeneration }

// SetObservedGeneration records the generation that was handled.
func (r *SandboxRuntime) SetObservedGeneration(g int64) { r.Status.ObservedGeneration = g }
