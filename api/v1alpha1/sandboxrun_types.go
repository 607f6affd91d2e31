package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SandboxRunSpec describes one execution. Only cancel can be changed.
// +kubebuilder:validation:XValidation:rule="has(self.language) || has(self.runtimeRef)",message="set language, or runtimeRef to run in a SandboxRuntime"
// +kubebuilder:validation:XValidation:rule="!(has(self.runtime) && has(self.runtimeRef))",message="set at most one of runtime and runtimeRef"
// +kubebuilder:validation:XValidation:rule="has(self.language) == has(oldSelf.language)",message="a run cannot be changed, only cancelled; create a new one",fieldPath=".language"
// +kubebuilder:validation:XValidation:rule="has(self.runtimeRef) == has(oldSelf.runtimeRef)",message="a run cannot be changed, only cancelled; create a new one",fieldPath=".runtimeRef"
// +kubebuilder:validation:XValidation:rule="has(self.runtime) == has(oldSelf.runtime)",message="a run cannot be changed, only cancelled; create a new one",fieldPath=".runtime"
// +kubebuilder:validation:XValidation:rule="has(self.stdin) == has(oldSelf.stdin)",message="a run cannot be changed, only cancelled; create a new one",fieldPath=".stdin"
// +kubebuilder:validation:XValidation:rule="has(self.args) == has(oldSelf.args)",message="a run cannot be changed, only cancelled; create a new one",fieldPath=".args"
// +kubebuilder:validation:XValidation:rule="has(self.env) == has(oldSelf.env)",message="a run cannot be changed, only cancelled; create a new one",fieldPath=".env"
// +kubebuilder:validation:XValidation:rule="has(self.files) == has(oldSelf.files)",message="a run cannot be changed, only cancelled; create a new one",fieldPath=".files"
// +kubebuilder:validation:XValidation:rule="has(self.timeoutMilliseconds) == has(oldSelf.timeoutMilliseconds)",message="a run cannot be changed, only cancelled; create a new one",fieldPath=".timeoutMilliseconds"
// +kubebuilder:validation:XValidation:rule="has(self.ttlSecondsAfterFinished) == has(oldSelf.ttlSecondsAfterFinished)",message="a run cannot be changed, only cancelled; create a new one",fieldPath=".ttlSecondsAfterFinished"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.cancel) && oldSelf.cancel) || (has(self.cancel) && self.cancel)",message="a cancelled run stays cancelled",fieldPath=".cancel"
// +kubebuilder:validation:XValidation:rule=`!has(self.language) || self.language != 'Node' || !has(self.runtime) || !has(self.runtime.packages) || self.runtime.packages.all(p, p.matches('^(@[a-z0-9~][a-z0-9._~-]*/)?[a-z0-9~][a-z0-9._~-]*(@[A-Za-z0-9^~<>=|*._+ -]{1,128})?$'))`,message="packages of a Node runtime are those of npm: name or name@range",fieldPath=".runtime.packages"
// +kubebuilder:validation:XValidation:rule=`!has(self.language) || self.language != 'Python' || !has(self.runtime) || !has(self.runtime.packages) || self.runtime.packages.all(p, p.matches('^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?( ?\\[ ?[A-Za-z0-9._-]+( ?, ?[A-Za-z0-9._-]+)* ?\\])?( ?(===|==|~=|!=|<=|>=|<|>) ?[A-Za-z0-9][A-Za-z0-9._*+!-]*( ?, ?(===|==|~=|!=|<=|>=|<|>) ?[A-Za-z0-9][A-Za-z0-9._*+!-]*)*)?$'))`,message="packages of a Python runtime are those of pip: name, name[extra] or name==version",fieldPath=".runtime.packages"
// +kubebuilder:validation:XValidation:rule="(has(self.source.inline) ? size(bytes(self.source.inline)) : 0) + (has(self.stdin) ? size(bytes(self.stdin)) : 0) + (has(self.args) ? self.args.map(a, size(bytes(a))).sum() : 0) + (has(self.env) ? self.env.map(e, has(e.value) ? size(bytes(e.value)) : 0).sum() : 0) + (has(self.files) ? self.files.map(f, has(f.content) ? size(bytes(f.content)) : 0).sum() : 0) + (has(self.runtime) ? (has(self.runtime.env) ? self.runtime.env.map(e, has(e.value) ? size(bytes(e.value)) : 0).sum() : 0) + (has(self.runtime.files) ? self.runtime.files.map(f, has(f.content) ? size(bytes(f.content)) : 0).sum() : 0) : 0) <= 1048576",message="source, stdin, args, env and files must have at most 1048576 bytes together; take large ones from Secrets or ConfigMaps"
type SandboxRunSpec struct {
	// language is the interpreter. With runtimeRef it may be left out, or must be
	// that of the runtime.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a run cannot be changed, only cancelled; create a new one"
	Language Language `json:"language,omitempty"`

	// source is the program, run as if started directly.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a run cannot be changed, only cancelled; create a new one"
	Source RunSource `json:"source"`

	// runtimeRef runs the program in a SandboxRuntime of this namespace, whose
	// files stay for the next run.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a run cannot be changed, only cancelled; create a new one"
	RuntimeRef *LocalReference `json:"runtimeRef,omitempty"`

	// runtime describes the sandbox that is made for this run and destroyed after
	// it.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a run cannot be changed, only cancelled; create a new one"
	Runtime *GuestSpec `json:"runtime,omitempty"`

	// stdin is the program's standard input.
	// +optional
	// +kubebuilder:validation:MaxLength=131072
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a run cannot be changed, only cancelled; create a new one"
	Stdin string `json:"stdin,omitempty"`

	// args are the program's arguments.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule=`self.all(a, size(bytes(a)) <= 4096 && !a.contains('\u0000'))`,message="each of args must have at most 4096 bytes and no NUL character"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a run cannot be changed, only cancelled; create a new one"
	Args []string `json:"args,omitempty"`

	// env is added to the environment of the sandbox for this program.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a run cannot be changed, only cancelled; create a new one"
	Env []EnvVar `json:"env,omitempty"`

	// files are put in place before the program starts: relative paths in the
	// folder of the program, which goes after it, absolute ones anywhere.
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(f, !self.exists(g, g.path.startsWith(f.path + '/')))",message="a path must not be the folder of another one"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a run cannot be changed, only cancelled; create a new one"
	Files []File `json:"files,omitempty"`

	// timeoutMilliseconds bounds the program. Defaults to the operator's
	// --default-timeout.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=290000
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a run cannot be changed, only cancelled; create a new one"
	TimeoutMilliseconds *int32 `json:"timeoutMilliseconds,omitempty"`

	// cancel ends the run; it cannot be taken back.
	// +optional
	Cancel bool `json:"cancel,omitempty"`

	// ttlSecondsAfterFinished deletes the run that long after its end. Unset
	// keeps it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=31536000
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a run cannot be changed, only cancelled; create a new one"
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// RunSource is where the code of a run comes from.
// +kubebuilder:validation:XValidation:rule="[has(self.inline), has(self.configMapKeyRef), has(self.transient)].filter(x, x).size() == 1",message="set exactly one of inline, configMapKeyRef and transient"
type RunSource struct {
	// inline is the code itself, of 1 to 131072 bytes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=131072
	// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 131072",message="inline must have at most 131072 bytes; put a larger source into a ConfigMap"
	Inline *string `json:"inline,omitempty"`
	// configMapKeyRef takes the code from a ConfigMap.
	// +optional
	ConfigMapKeyRef *KeyReference `json:"configMapKeyRef,omitempty"`
	// transient says that the code came over the bus and is only in the memory of
	// the operator. Such a run fails if the operator restarts before it begins.
	// +optional
	Transient *TransientSource `json:"transient,omitempty"`
}

// TransientSource stands for code that is not stored.
type TransientSource struct {
	// sha256 of the code, in hexadecimal.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{64}$')",message="sha256 must be 64 hexadecimal digits in lower case"
	// +kubebuilder:validation:MaxLength=64
	SHA256 string `json:"sha256"`
}

// RunPhase is where a run stands.
// +kubebuilder:validation:Enum=Pending;Running;Succeeded;Failed
type RunPhase string

// The values of a RunPhase.
const (
	// RunPending has not begun: it waits for a sandbox or a place in one.
	RunPending RunPhase = "Pending"
	// RunRunning has begun; from here on it is never begun again.
	RunRunning RunPhase = "Running"
	// RunSucceeded exited with 0.
	RunSucceeded RunPhase = "Succeeded"
	// RunFailed ended in any other way.
	RunFailed RunPhase = "Failed"
)

// RunTimings are the lengths of a run's stages, in milliseconds.
type RunTimings struct {
	// queueMilliseconds from acceptance to the first act.
	// +optional
	QueueMilliseconds int64 `json:"queueMilliseconds,omitempty"`
	// bootMilliseconds for making the sandbox, 0 in a SandboxRuntime.
	// +optional
	BootMilliseconds int64 `json:"bootMilliseconds,omitempty"`
	// plantMilliseconds for the agent.
	// +optional
	PlantMilliseconds int64 `json:"plantMilliseconds,omitempty"`
	// execMilliseconds for the program.
	// +optional
	ExecMilliseconds int64 `json:"execMilliseconds,omitempty"`
	// cleanupMilliseconds for destroying the sandbox.
	// +optional
	CleanupMilliseconds int64 `json:"cleanupMilliseconds,omitempty"`
}

// Bounds of what a run's status holds, in bytes.
const (
	MaxStatusStreamBytes = 16 << 10
	MaxStatusResultBytes = 32 << 10
)

// SandboxRunStatus is what the operator observed.
type SandboxRunStatus struct {
	// observedGeneration is the generation that was last handled.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready always; Complete or Failed at the end; Reconciling and
	// Stalled only while true.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// phase sums the conditions up for people.
	// +optional
	Phase RunPhase `json:"phase,omitempty"`
	// attemptDigest is the digest of the attempt's nonce, written before the
	// program starts, so that it never runs twice.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	AttemptDigest string `json:"attemptDigest,omitempty"`
	// startTime is when the attempt began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime is when the run ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// exitCode of the program, unset if it did not exit by itself.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`
	// success is true if the program exited with 0.
	// +optional
	Success *bool `json:"success,omitempty"`
	// stdout is the end of what the program printed.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	Stdout string `json:"stdout,omitempty"`
	// stderr is the end of what the program printed as errors.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	Stderr string `json:"stderr,omitempty"`
	// truncated is true if stdout, stderr or result are not whole.
	// +optional
	Truncated bool `json:"truncated,omitempty"`
	// result is the program's value: the default export in Node, the variable
	// result in Python.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Result *apiextensionsv1.JSON `json:"result,omitempty"`
	// timings of the stages.
	// +optional
	Timings *RunTimings `json:"timings,omitempty"`
}

// SandboxRun is one short-lived execution of a program, which answers with its
// output and goes.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=sbn,categories=sandbox
// +kubebuilder:printcolumn:name="Language",type=string,JSONPath=`.spec.language`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Exit",type=integer,JSONPath=`.status.exitCode`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type SandboxRun struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what to run.
	// +required
	Spec SandboxRunSpec `json:"spec"`
	// status is what the operator observed. Until it has, the generation is one that
	// no object has, so that nobody takes a new object for a ready one.
	// +kubebuilder:default:={"observedGeneration":-1}
	// +optional
	Status SandboxRunStatus `json:"status,omitzero"`
}

// SandboxRunList is a list of runs.
// +kubebuilder:object:root=true
type SandboxRunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SandboxRun `json:"items"`
}

// GetConditions returns the conditions of the status.
func (r *SandboxRun) GetConditions() []metav1.Condition { return r.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (r *SandboxRun) SetConditions(c []metav1.Condition) { r.Status.Conditions = c }

// GetObservedGeneration returns the generation that was handled; -1 before the
// operator has looked at the object.
func (r *SandboxRun) GetObservedGeneration() int64 { return r.Status.ObservedGeneration }

// SetObservedGeneration records the generation that was handled.
func (r *SandboxRun) SetObservedGeneration(g int64) { r.Status.ObservedGeneration = g }

// IsFinished says whether the run has ended.
func (r *SandboxRun) IsFinished() bool {
	return r.Status.Phase == RunSucceeded || r.Status.Phase == RunFailed
}
