package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SandboxFunctionSpec describes a bus function that should exist.
// +kubebuilder:validation:XValidation:rule="[has(self.language), has(self.runtimeRef), has(self.runtime)].filter(x, x).size() == 1",message="set exactly one of language (a runtime shared with the functions of the same id prefix), runtimeRef and runtime (one of its own)"
// +kubebuilder:validation:XValidation:rule="has(self.language) == has(oldSelf.language) && has(self.runtimeRef) == has(oldSelf.runtimeRef)",message="a function cannot move between language, runtimeRef and runtime; delete it and make a new one"
// +kubebuilder:validation:XValidation:rule="!has(self.schemaPolicy) || self.schemaPolicy == 'Publish' || has(self.requestSchema) || has(self.responseSchema)",message="schemaPolicy: Enforce needs requestSchema or responseSchema",fieldPath=".schemaPolicy"
// +kubebuilder:validation:XValidation:rule="!has(self.handler) || !self.handler.contains('$') || !(has(self.language) && self.language == 'Python' || has(self.runtime) && self.runtime.language == 'Python')",message="handler must have no $ in Python, where no name has one",fieldPath=".handler"
type SandboxFunctionSpec struct {
	// functionID is the id on the bus: a prefix, two colons and a name, such as
	// shop::price. It cannot be changed.
	// +required
	// +kubebuilder:validation:MinLength=4
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[a-z0-9_-][a-z0-9._-]*::.+$`
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9_-][a-z0-9._-]*::.+$')",message="functionID must be a prefix of a-z, 0-9, dot, _ and - that does not begin with a dot, then ::, then a name, such as shop::price"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="functionID cannot be changed; delete the function and make a new one"
	// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 256",message="functionID must have at most 256 bytes"
	// +kubebuilder:validation:XValidation:rule="size(self.split('::', 2)[0]) <= 64 && !self.split('::', 2)[0].contains('..')",message="the id prefix (before the first ::) must have at most 64 characters and no two dots in a row"
	// +kubebuilder:validation:XValidation:rule="!(self.split('::', 2)[0] in ['engine', 'sandbox', 'sandbox-code-runner', 'state', 'stream', 'iii'])",message="the id prefix belongs to the engine or to the sandbox; use another one"
	FunctionID string `json:"functionID"`

	// language puts the function into a runtime that all functions of this
	// namespace with the same id prefix and language share. The runtime is made
	// and removed for them.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="language cannot be changed; delete the function and make a new one"
	Language Language `json:"language,omitempty"`

	// runtimeRef puts the function into a SandboxRuntime of this namespace.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="runtimeRef cannot be changed; delete the function and make a new one"
	RuntimeRef *LocalReference `json:"runtimeRef,omitempty"`

	// runtime describes a SandboxRuntime that is made for this function alone and
	// goes with it.
	// +optional
	Runtime *FunctionRuntime `json:"runtime,omitempty"`

	// source is the code, which defines the handler.
	// +required
	Source FunctionSource `json:"source"`

	// handler is the name of the callable in the source. Defaults to handler.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z_$][A-Za-z0-9_$]*$`
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_$][A-Za-z0-9_$]*$')",message="handler must be the name of a function in the source: of letters, digits and _, or $ in Node, not beginning with a digit"
	Handler string `json:"handler,omitempty"`

	// description is shown in the bus catalog.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Description string `json:"description,omitempty"`

	// timeoutMilliseconds bounds a call from its arrival to its answer, queueing
	// and boot included. Defaults to the operator's --default-timeout.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=290000
	TimeoutMilliseconds *int32 `json:"timeoutMilliseconds,omitempty"`

	// requestSchema is the JSON Schema of the payload, shown in the bus catalog.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	RequestSchema *apiextensionsv1.JSON `json:"requestSchema,omitempty"`

	// responseSchema is the JSON Schema of the result, shown in the bus catalog.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	ResponseSchema *apiextensionsv1.JSON `json:"responseSchema,omitempty"`

	// schemaPolicy says what the schemas do. Defaults to Publish. With Enforce a
	// payload or result that does not match is refused; both must then be schemas
	// of draft 4 to 2020-12 without references to other documents.
	// +optional
	SchemaPolicy SchemaPolicy `json:"schemaPolicy,omitempty"`

	// metadata is published beside the function in the bus catalog.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Metadata *apiextensionsv1.JSON `json:"metadata,omitempty"`

	// triggers are what calls the function besides its callers on the bus.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Triggers []FunctionTrigger `json:"triggers,omitempty"`

	// isolation is what calls of the function share. Defaults to PerCall. Shared
	// keeps global variables, open connections and background work from call to
	// call, for a handler that can bear what former callers left behind.
	// +optional
	Isolation FunctionIsolation `json:"isolation,omitempty"`

	// concurrency is how many calls of the function go on at once, over all
	// sandboxes; others wait. Unset leaves that to the runtime.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	Concurrency *int32 `json:"concurrency,omitempty"`

	// queueLimit is how many calls of the function may wait; more are refused at
	// once with the code capacity. Defaults to what the runtime's queue has room
	// for: 256, shared by its functions.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	QueueLimit *int32 `json:"queueLimit,omitempty"`

	// suspend takes the function off the bus until it is false again.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// SchemaPolicy is what the schemas of a function do.
// +kubebuilder:validation:Enum=Publish;Enforce
type SchemaPolicy string

// The values of a SchemaPolicy.
const (
	// SchemaPublish shows the schemas in the bus catalog.
	SchemaPublish SchemaPolicy = "Publish"
	// SchemaEnforce also refuses payloads and results that do not match.
	SchemaEnforce SchemaPolicy = "Enforce"
)

// FunctionIsolation is what calls of a function share.
// +kubebuilder:validation:Enum=PerCall;Shared
type FunctionIsolation string

// The values of a FunctionIsolation.
const (
	// IsolationPerCall gives every call a process of its own, which has loaded the
	// source and served nobody before.
	IsolationPerCall FunctionIsolation = "PerCall"
	// IsolationShared keeps processes for many calls, one call at a time each, and
	// as many processes as calls go on at once.
	IsolationShared FunctionIsolation = "Shared"
)

// FunctionRuntime describes the runtime of one function.
// +kubebuilder:validation:XValidation:rule="!has(self.idle) || !has(self.idle.action) || self.idle.action != 'Delete'",message="idle.action: Delete is for runtimes that the bus keeps; use Stop",fieldPath=".idle.action"
// +kubebuilder:validation:XValidation:rule=`self.language != 'Node' || !has(self.packages) || self.packages.all(p, p.matches('^(@[a-z0-9~][a-z0-9._~-]*/)?[a-z0-9~][a-z0-9._~-]*(@[A-Za-z0-9^~<>=|*._+ -]{1,128})?$'))`,message="packages of a Node runtime are those of npm: name or name@range",fieldPath=".packages"
// +kubebuilder:validation:XValidation:rule=`self.language != 'Python' || !has(self.packages) || self.packages.all(p, p.matches('^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?( ?\\[ ?[A-Za-z0-9._-]+( ?, ?[A-Za-z0-9._-]+)* ?\\])?( ?(===|==|~=|!=|<=|>=|<|>) ?[A-Za-z0-9][A-Za-z0-9._*+!-]*( ?, ?(===|==|~=|!=|<=|>=|<|>) ?[A-Za-z0-9][A-Za-z0-9._*+!-]*)*)?$'))`,message="packages of a Python runtime are those of pip: name, name[extra] or name==version",fieldPath=".packages"
type FunctionRuntime struct {
	// language is the interpreter. It cannot be changed.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="language cannot be changed; delete the function and make a new one"
	Language Language `json:"language"`

	GuestSpec `json:",inline"`

	RuntimeScale `json:",inline"`
}

// FunctionSource is where the code of a function comes from.
// +kubebuilder:validation:XValidation:rule="has(self.inline) != has(self.configMapKeyRef)",message="set exactly one of inline and configMapKeyRef"
type FunctionSource struct {
	// inline is the code itself, of 1 to 131072 bytes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=131072
	// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 131072",message="inline must have at most 131072 bytes; put a larger source into a ConfigMap"
	Inline *string `json:"inline,omitempty"`
	// configMapKeyRef takes the code from a ConfigMap.
	// +optional
	ConfigMapKeyRef *KeyReference `json:"configMapKeyRef,omitempty"`
}

// FunctionTrigger binds the function to a trigger type of the bus.
type FunctionTrigger struct {
	// name tells the triggers of a function apart.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="name must be of a-z, 0-9 and - and must not begin or end with -, such as every-hour"
	Name string `json:"name"`
	// type is the trigger type, such as http or cron.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Type string `json:"type"`
	// config of the trigger, as its type defines it.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Config *apiextensionsv1.JSON `json:"config,omitempty"`
	// metadata is handed to the function with each call of the trigger.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Metadata *apiextensionsv1.JSON `json:"metadata,omitempty"`
}

// FunctionTriggerStatus is what became of one trigger.
type FunctionTriggerStatus struct {
	// name of the trigger.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// registered is true once the engine lists the trigger.
	// +required
	Registered bool `json:"registered"`
	// message says what the trigger waits for.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// SandboxFunctionStatus is what the operator observed.
type SandboxFunctionStatus struct {
	// observedGeneration is the generation that was last handled.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready always; RuntimeReady, Published and TriggersBound;
	// Reconciling and Stalled only while true.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// sourceDigest is the SHA-256 of the source that answers calls.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	SourceDigest string `json:"sourceDigest,omitempty"`
	// runtimeName is the SandboxRuntime that the function runs in.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	RuntimeName string `json:"runtimeName,omitempty"`
	// triggers are the states of spec.triggers.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Triggers []FunctionTriggerStatus `json:"triggers,omitempty"`
}

// SandboxFunction is code that answers calls on the iii bus.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=sbf,categories=sandbox
// +kubebuilder:printcolumn:name="Function",type=string,JSONPath=`.spec.functionID`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Runtime",type=string,JSONPath=`.status.runtimeName`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name must have at most 63 characters"
type SandboxFunction struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what should exist.
	// +required
	Spec SandboxFunctionSpec `json:"spec"`
	// status is what the operator observed. Until it has, the generation is one that
	// no object has, so that nobody takes a new object for a ready one.
	// +kubebuilder:default:={"observedGeneration":-1}
	// +optional
	Status SandboxFunctionStatus `json:"status,omitzero"`
}

// SandboxFunctionList is a list of functions.
// +kubebuilder:object:root=true
type SandboxFunctionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SandboxFunction `json:"items"`
}

// GetConditions returns the conditions of the status.
func (f *SandboxFunction) GetConditions() []metav1.Condition { return f.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (f *SandboxFunction) SetConditions(c []metav1.Condition) { f.Status.Conditions = c }

// GetObservedGeneration returns the generation that was handled; -1 before the
// operator has looked at the object.
func (f *SandboxFunction) GetObservedGeneration() int64 { return f.Status.ObservedGeneration }

// SetObservedGeneration records the generation that was handled.
func (f *SandboxFunction) SetObservedGeneration(g int64) { f.Status.ObservedGeneration = g }

// HandlerName is the callable that answers calls.
func (s *SandboxFunctionSpec) HandlerName() string {
	if s.Handler == "" {
		return "handler"
	}
	return s.Handler
}
