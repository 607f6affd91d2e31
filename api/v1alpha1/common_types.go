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
// +kubebuilder:validation:XValidation:rule="!has(self.busAllow) || (has(self.busAccess) && self.busAccess == 'Enabled')",message="busAllow needs busAccess: Enabled",fieldPath=".busAllow"
// +kubebuilder:validation:XValidation:rule="!has(self.packages) || (has(self.network) && self.network == 'Enabled')",message="packages needs network: Enabled, since they are fetched from inside the guest",fieldPath=".packages"
// +kubebuilder:validation:XValidation:rule="(has(self.env) ? self.env.map(e, has(e.value) ? size(bytes(e.value)) : 0).sum() : 0) + (has(self.files) ? self.files.map(f, has(f.content) ? size(bytes(f.content)) : 0).sum() : 0) <= 1048576",message="values of env and contents of files must have at most 1048576 bytes together; take large ones from Secrets or ConfigMaps",fieldPath=".files"
type GuestSpec struct {
	// image is a name from the sandbox daemon's catalog, not an image reference.
	// Defaults to the preset of the language: node or python.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$')",message="image must be a name from the sandbox daemon's catalog, such as node, not an image reference"
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

	// busAllow lists the function ids that the guest may call on the bus: exact
	// ids such as shop::price, or patterns such as shop::* in which each * stands
	// for any text. An empty list allows none. Unset allows every function that
	// is not the engine's or the sandbox daemon's management.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	BusAllow []string `json:"busAllow,omitzero"`

	// env is the environment of every program in the sandbox.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Env []EnvVar `json:"env,omitempty"`

	// files are written into every sandbox before packages and setup.
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(f, f.path.startsWith('/'))",message="path must be absolute"
	// +kubebuilder:validation:XValidation:rule="self.all(f, !self.exists(g, g.path.startsWith(f.path + '/')))",message="a path must not be the folder of another one"
	Files []File `json:"files,omitempty"`

	// packages are requirements of npm or pip, by language, such as left-pad@^1.3
	// or requests>=2,<3. They are installed in every sandbox and need network.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9@~][ -~]*$`
	// +kubebuilder:validation:XValidation:rule="self.all(p, !p.contains('://') && !p.contains(' @ '))",message="packages are names with a version, not addresses or paths"
	Packages []string `json:"packages,omitempty"`

	// setup are commands that /bin/sh runs in every sandbox, in order, after
	// packages. A sandbox in which one fails takes no calls.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule=`self.all(c, !c.contains('\u0000'))`,message="setup commands must have no NUL character"
	Setup []string `json:"setup,omitempty"`
}

// File is a file in a guest.
// +kubebuilder:validation:XValidation:rule="has(self.content) != has(self.contentFrom)",message="set exactly one of content and contentFrom"
type File struct {
	// path of the file; missing folders are made.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.endsWith('/') && !self.contains('//') && !self.split('/').exists(s, s == '..' || s == '.')",message="path must name a file and have no empty, . or .. segment"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^/(proc|sys|dev|sandbox-operator)(/|$)')",message="path must not be below /proc, /sys, /dev or /sandbox-operator"
	// +kubebuilder:validation:XValidation:rule=`!self.contains('\u0000') && !self.matches('[^/]{256}')`,message="path must have no NUL character and no segment of more than 255 characters"
	// +kubebuilder:validation:XValidation:rule="size(bytes(self)) == size(self) || size(bytes(self)) <= 255 || !self.matches('[^/]{64}')",message="path with other than ASCII characters must have at most 255 bytes, or no segment of more than 63 characters"
	Path string `json:"path"`
	// content, literally, of at most 32768 bytes.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 32768",message="content must have at most 32768 bytes; use contentFrom for a larger one"
	Content *string `json:"content,omitempty"`
	// contentFrom takes the content from a Secret or ConfigMap of the same
	// namespace.
	// +optional
	ContentFrom *KeySource `json:"contentFrom,omitempty"`
	// mode are the permission bits in octal: in YAML a text in quotes, such as
	// "0755". Defaults to "0644".
	// +optional
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:Pattern=`^0[0-7]{3}$`
	// +kubebuilder:validation:XValidation:rule="self.matches('^0[0-7]{3}$')",message="mode must be four octal digits of which the first is 0, such as 0755 in quotes"
	Mode string `json:"mode,omitempty"`
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
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_]*$')",message="name must be of letters, digits and _ and must not begin with a digit, such as API_TOKEN"
	Name string `json:"name"`
	// value, literally, of at most 8192 bytes.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 8192",message="value must have at most 8192 bytes; take a larger one from a file"
	// +kubebuilder:validation:XValidation:rule=`!self.contains('\u0000')`,message="value must have no NUL character, which no environment can hold"
	Value *string `json:"value,omitempty"`
	// valueFrom takes the value from a Secret or ConfigMap of the same namespace.
	// +optional
	ValueFrom *KeySource `json:"valueFrom,omitempty"`
}

// KeySource is a key of a Secret or of a ConfigMap.
// +kubebuilder:validation:XValidation:rule="has(self.secretKeyRef) != has(self.configMapKeyRef)",message="set exactly one of secretKeyRef and configMapKeyRef"
type KeySource struct {
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
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')`,message="name must be that of an object in this namespace: of a-z, 0-9, - and dots, such as shop-code"
	Name string `json:"name"`
	// key in its data.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="key must be of letters, digits, -, _ and dots, such as main.py"
	// +kubebuilder:validation:XValidation:rule="self != '.' && !self.startsWith('..')",message="key must not be . or begin with two dots; no Secret or ConfigMap has such a key"
	Key string `json:"key"`
}

// LocalReference names an object in the same namespace.
type LocalReference struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')`,message="name must be that of an object in this namespace: of a-z, 0-9, - and dots, such as shop-code"
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

// SecretNames lists the Secrets that the environment and the files refer to, in
// the order of the spec; a name may be there more than once.
func (g *GuestSpec) SecretNames() []string {
	var names []string
	for _, source := range g.keySources() {
		if source.SecretKeyRef != nil {
			names = append(names, source.SecretKeyRef.Name)
		}
	}
	return names
}

// ConfigMapNames lists the ConfigMaps that the environment and the files refer
// to, in the order of the spec; a name may be there more than once.
func (g *GuestSpec) ConfigMapNames() []string {
	var names []string
	for _, source := range g.keySources() {
		if source.ConfigMapKeyRef != nil {
			names = append(names, source.ConfigMapKeyRef.Name)
		}
	}
	return names
}

func (g *GuestSpec) keySources() []*KeySource {
	var sources []*KeySource
	for _, e := range g.Env {
		if e.ValueFrom != nil {
			sources = append(sources, e.ValueFrom)
		}
	}
	for _, f := range g.Files {
		if f.ContentFrom != nil {
			sources = append(sources, f.ContentFrom)
		}
	}
	return sources
}
