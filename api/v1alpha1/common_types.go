package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// Language is the interpreter that a guest starts.
// +kubebuilder:validation:Enum=Node;Python
type Language string

// The languages of guests.
const (
	// LanguageNode runs ES modules with node.
	LanguageNode Language = "Node"
	// LanguagePython runs programs with python3.
	LanguagePython Language = "Python"
)

// Access turns something on or off for a guest.
// +kubebuilder:validation:Enum=Disabled;Enabled
type Access string

// The values of an Access.
const (
	// AccessDisabled refuses it.
	AccessDisabled Access = "Disabled"
	// AccessEnabled allows it.
	AccessEnabled Access = "Enabled"
)

// GuestSpec describes the sandbox that code runs in.
// +kubebuilder:validation:XValidation:rule="!has(self.busAccess) || self.busAccess == 'Disabled' || (has(self.network) && self.network == 'Enabled')",message="busAccess: Enabled needs network: Enabled, since the guest reaches the bus over its network",fieldPath=".busAccess"
type GuestSpec struct {
	// image is a name from the sandbox daemon's catalog, not an image reference.
	// Defaults to the preset of the language: node or python.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`
	Image string `json:"image,omitempty"`

	// resources are the limits of each sandbox.
	// +optional
	Resources *GuestResources `json:"resources,omitempty"`

	// network gives the guest a network. Defaults to Disabled: only its own
	// loopback.
	// +optional
	Network Access `json:"network,omitempty"`

	// busAccess lets the guest be a worker on the iii bus through the global
	// `iii`. It needs network. Defaults to Disabled.
	// +optional
	BusAccess Access `json:"busAccess,omitempty"`

	// env is the environment of every program in the sandbox.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Env []EnvVar `json:"env,omitempty"`
}

// GuestResources are the limits of one sandbox.
type GuestResources struct {
	// cpu is the number of virtual processors, rounded up to a whole one.
	// Defaults to what the daemon is configured with.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0')) && !quantity(string(self)).isGreaterThan(quantity('255'))",message="cpu must be more than 0 and at most 255"
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// memory is the guest's memory, rounded up to a whole MiB. Defaults to what
	// the daemon is configured with.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!quantity(string(self)).isLessThan(quantity('1Mi')) && !quantity(string(self)).isGreaterThan(quantity('1Ti'))",message="memory must be from 1Mi to 1Ti; a number without a unit counts bytes"
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// EnvVar is one environment variable of a guest.
// +kubebuilder:validation:XValidation:rule="has(self.value) != has(self.valueFrom)",message="set exactly one of value and valueFrom"
// +kubebuilder:validation:XValidation:rule="!self.name.startsWith('III_')",message="names that begin with III_ belong to the operator",fieldPath=".name"
type EnvVar struct {
	// name of the variable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	Name string `json:"name"`
	// value, literally.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Value *string `json:"value,omitempty"`
	// valueFrom takes the value from a Secret or ConfigMap of the same namespace.
	// +optional
	ValueFrom *EnvVarSource `json:"valueFrom,omitempty"`
}

// EnvVarSource is where the value of a variable comes from.
// +kubebuilder:validation:XValidation:rule="has(self.secretKeyRef) != has(self.configMapKeyRef)",message="set exactly one of secretKeyRef and configMapKeyRef"
type EnvVarSource struct {
	// secretKeyRef selects a key of a Secret.
	// +optional
	SecretKeyRef *KeyReference `json:"secretKeyRef,omitempty"`
	// configMapKeyRef selects a key of a ConfigMap.
	// +optional
	ConfigMapKeyRef *KeyReference `json:"configMapKeyRef,omitempty"`
}

// KeyReference selects one key of a Secret or ConfigMap in the namespace of the
// object that refers to it.
type KeyReference struct {
	// name of the Secret or ConfigMap.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// key in its data.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key"`
}

// LocalReference names an object in the same namespace.
type LocalReference struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
}

// Bounds that CEL rules and the controllers share, in bytes.
const (
	// MaxInlineSourceBytes bounds source.inline; etcd and the annotation of
	// kubectl apply forbid much more.
	MaxInlineSourceBytes = 128 << 10
	// MaxSourceBytes bounds a source from anywhere
	// (contracts/code-runner.md §4.1).
	MaxSourceBytes = 1 << 20
	// MaxFunctionIDBytes bounds a function id (contracts/code-runner.md §6).
	MaxFunctionIDBytes = 256
)

// Image returns the catalog name of the guest's image.
func (g *GuestSpec) ImageFor(language Language) string {
	if g.Image != "" {
		return g.Image
	}
	if language == LanguagePython {
		return "python"
	}
	return "node"
}

// HasNetwork says whether the guest has a network.
func (g *GuestSpec) HasNetwork() bool { return g.Network == AccessEnabled }

// HasBusAccess says whether the guest may be a worker on the bus.
func (g *GuestSpec) HasBusAccess() bool { return g.BusAccess == AccessEnabled }

// CPUs is the number of virtual processors asked for; 0 leaves it to the daemon.
func (g *GuestSpec) CPUs() int {
	if g.Resources == nil || g.Resources.CPU == nil {
		return 0
	}
	return int((g.Resources.CPU.MilliValue() + 999) / 1000)
}

// MemoryMiB is the memory asked for in MiB; 0 leaves it to the daemon.
func (g *GuestSpec) MemoryMiB() int {
	if g.Resources == nil || g.Resources.Memory == nil {
		return 0
	}
	return int((g.Resources.Memory.Value() + 1<<20 - 1) >> 20)
}

// SecretNames lists the Secrets that the environment refers to.
func (g *GuestSpec) SecretNames() []string {
	var names []string
	for _, e := range g.Env {
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
			names = append(names, e.ValueFrom.SecretKeyRef.Name)
		}
	}
	return names
}
