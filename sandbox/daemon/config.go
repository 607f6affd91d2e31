package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"sigs.k8s.io/yaml"
)

// Config is the daemon's configuration, with the keys and defaults of
// contracts/iii-sandbox.md §8 and those marked as ours. Unknown keys are
// ignored.
type Config struct {
	// AutoInstall decides only whether a missing image counts as a failed
	// installation or as absent: this daemon pulls nothing.
	AutoInstall bool `json:"auto_install"`
	// ImageAllowlist names the images that may be used; empty denies all.
	ImageAllowlist []string `json:"image_allowlist"`
	// DefaultIdleTimeoutSecs is in seconds.
	DefaultIdleTimeoutSecs uint64 `json:"default_idle_timeout_secs"`
	// MaxConcurrentSandboxes counts booting sandboxes too.
	MaxConcurrentSandboxes int `json:"max_concurrent_sandboxes"`
	// MaxConcurrentExecPerSandbox is read as 1 when it is 0.
	MaxConcurrentExecPerSandbox int `json:"max_concurrent_exec_per_sandbox"`
	// MaxExecTimeoutMs is the ceiling of an exec's timeout, in milliseconds.
	MaxExecTimeoutMs uint64 `json:"max_exec_timeout_ms"`
	DefaultCPUs      int    `json:"default_cpus"`
	// DefaultMemoryMiB is in MiB.
	DefaultMemoryMiB int `json:"default_memory_mb"`
	// PerImageCaps bounds what one sandbox of an image may ask for.
	PerImageCaps map[string]ImageCap `json:"per_image_caps"`
	// CustomImages maps catalog names to image references.
	CustomImages map[string]string `json:"custom_images"`
	// Backend is ours: what isolates guests, BackendNamespaces or BackendQEMU;
	// empty is the former.
	Backend string `json:"backend"`
	// QEMURoot is ours: where the packages of BackendQEMU were installed or
	// unpacked; empty is the root.
	QEMURoot string `json:"qemu_root"`
	// QEMUCache is ours: a folder for images and saved states; empty is one in the
	// user's cache.
	QEMUCache string `json:"qemu_cache"`
	// GuestHostPorts is ours: the loopback ports of the host that guests with a
	// network reach through their gateway. The real daemon opens all of them.
	GuestHostPorts []int `json:"guest_host_ports"`
	// ImageMounts is ours: folders of the host that belong to an image, by its
	// name, for what the real images have built in.
	ImageMounts map[string][]Mount `json:"image_mounts"`
}

// The values of Config.Backend.
const (
	BackendNamespaces = "namespaces"
	BackendQEMU       = "qemu"
)

// ImageCap bounds one sandbox of an image; zero fields do not bound.
type ImageCap struct {
	MaxCPUs int `json:"max_cpus"`
	// MaxMemoryMiB is in MiB.
	MaxMemoryMiB int `json:"max_memory_mb"`
}

// DefaultConfig returns the defaults of the contract. They allow no image.
func DefaultConfig() Config {
	return Config{
		AutoInstall:                 true,
		DefaultIdleTimeoutSecs:      300,
		MaxConcurrentSandboxes:      32,
		MaxConcurrentExecPerSandbox: 4,
		MaxExecTimeoutMs:            300_000,
		DefaultCPUs:                 1,
		DefaultMemoryMiB:            512,
	}
}

// ParseConfig reads a configuration file over the defaults.
func ParseConfig(text []byte) (Config, error) {
	var keys map[string]json.RawMessage
	if err := yaml.Unmarshal(text, &keys); err != nil {
		return Config{}, fmt.Errorf("configuration is not a YAML mapping: %w", err)
	}
	if _, wrapped := keys["sandbox"]; wrapped {
		return Config{}, errors.New("configuration: the keys stand at the top, without a wrapping sandbox key")
	}
	config := DefaultConfig()
	if err := yaml.Unmarshal(text, &config); err != nil {
		return Config{}, fmt.Errorf("configuration: %w", err)
	}
	return config, config.Validate()
}

// Validate reports the first key that cannot be used.
func (c Config) Validate() error {
	switch {
	case c.MaxConcurrentSandboxes < 0:
		return errors.New("configuration: max_concurrent_sandboxes is negative")
	case c.MaxConcurrentExecPerSandbox < 0:
		return errors.New("configuration: max_concurrent_exec_per_sandbox is negative")
	case c.DefaultCPUs < 1:
		return errors.New("configuration: default_cpus must be at least 1")
	case c.DefaultMemoryMiB < 1:
		return errors.New("configuration: default_memory_mb must be at least 1")
	case !slices.Contains([]string{"", BackendNamespaces, BackendQEMU}, c.Backend):
		return fmt.Errorf("configuration: backend %q is not one of %s, %s", c.Backend, BackendNamespaces, BackendQEMU)
	}
	for key, folder := range map[string]string{"qemu_root": c.QEMURoot, "qemu_cache": c.QEMUCache} {
		if folder != "" && !filepath.IsAbs(folder) {
			return fmt.Errorf("configuration: %s %q is not an absolute path", key, folder)
		}
	}
	if err := c.validateImages(); err != nil {
		return err
	}
	if err := c.validateMounts(); err != nil {
		return err
	}
	return validatePorts(c.GuestHostPorts)
}

func (c Config) validateMounts() error {
	for image, mounts := range c.ImageMounts {
		for _, m := range mounts {
			if !filepath.IsAbs(m.Source) {
				return fmt.Errorf("configuration: image_mounts: %q: source %q is not an absolute path", image, m.Source)
			}
			if !path.IsAbs(m.Target) || path.Clean(m.Target) != m.Target || m.Target == "/" {
				return fmt.Errorf("configuration: image_mounts: %q: target %q is not a clean absolute path below the root", image, m.Target)
			}
		}
	}
	return nil
}

func (c Config) validateImages() error {
	for name := range c.CustomImages {
		if name == "" {
			return errors.New("configuration: custom_images has an empty name")
		}
		if _, taken := presets[name]; taken {
			return fmt.Errorf("configuration: custom_images: %q is the name of a preset", name)
		}
	}
	for name, limit := range c.PerImageCaps {
		if limit.MaxCPUs < 0 || limit.MaxMemoryMiB < 0 {
			return fmt.Errorf("configuration: per_image_caps: %q has a negative limit", name)
		}
	}
	return nil
}

func validatePorts(ports []int) error {
	sorted := append([]int(nil), ports...)
	sort.Ints(sorted)
	for i, port := range sorted {
		if port < 1 || port > 65535 {
			return fmt.Errorf("configuration: guest_host_ports: %d is not a port", port)
		}
		if i > 0 && sorted[i-1] == port {
			return fmt.Errorf("configuration: guest_host_ports: %d is there twice", port)
		}
	}
	return nil
}

// execSlots is the number of programs that one sandbox runs at once.
func (c Config) execSlots() int { return max(1, c.MaxConcurrentExecPerSandbox) }

func (c Config) maxExecTimeout() time.Duration { return millis(c.MaxExecTimeoutMs) }

// maxUnits keeps products with a time unit inside a time.Duration; requests may
// carry any 64-bit number, and very long idle times are allowed (§5).
const maxUnits = uint64(100 * 365 * 24 * 3600)

func seconds(n uint64) time.Duration { return time.Duration(min(n, maxUnits)) * time.Second }

func millis(n uint64) time.Duration { return time.Duration(min(n, maxUnits*1000)) * time.Millisecond }
