package daemon

import (
	"context"
	"maps"
	"slices"
)

// presets are the images every daemon knows (contracts/iii-sandbox.md §8).
var presets = map[string]string{
	"python": "iiidev/python:latest",
	"node":   "iiidev/node:latest",
}

// presetOrder is the order in which a catalog lists them (§3.7).
var presetOrder = []string{"python", "node"}

const (
	kindPreset = "preset"
	kindCustom = "custom"
)

// allowed says whether sandboxes may be made of an image: it must be in the
// catalog and in the allowlist (§2.2, S100).
func (c Config) allowed(image string) bool {
	_, preset := presets[image]
	_, custom := c.CustomImages[image]
	return (preset || custom) && slices.Contains(c.ImageAllowlist, image)
}

// checkCaps refuses what is over the image's own limits (§3.1, S400).
func (c Config) checkCaps(image string, cpus, memoryMiB int) error {
	limit := c.PerImageCaps[image]
	if limit.MaxCPUs > 0 && cpus > limit.MaxCPUs {
		return newFault(codeCapacity, "resource limit exceeded: image '%s' allows %d cpus, %d were asked for",
			image, limit.MaxCPUs, cpus)
	}
	if limit.MaxMemoryMiB > 0 && memoryMiB > limit.MaxMemoryMiB {
		return newFault(codeCapacity, "resource limit exceeded: image '%s' allows %d MiB, %d were asked for",
			image, limit.MaxMemoryMiB, memoryMiB)
	}
	return nil
}

type catalogRequest struct{}

type catalogImage struct {
	Name   string `json:"name"`
	OCIRef string `json:"oci_ref"`
	Kind   string `json:"kind"`
}

// catalogResponse has two fields that the real daemon does not send.
type catalogResponse struct {
	Images []catalogImage `json:"images"`
	// PrivateImages says that no two sandboxes share a writable byte.
	PrivateImages bool `json:"private_images"`
	// Isolation is the word for what separates guests from the host.
	Isolation string `json:"isolation"`
}

// catalog answers sandbox::catalog::list, which the allowlist does not filter.
func (d *Daemon) catalog(context.Context, catalogRequest) (catalogResponse, error) {
	response := catalogResponse{PrivateImages: true, Isolation: d.backend.Isolation()}
	for _, name := range presetOrder {
		response.Images = append(response.Images, catalogImage{name, presets[name], kindPreset})
	}
	for _, name := range slices.Sorted(maps.Keys(d.config.CustomImages)) {
		response.Images = append(response.Images, catalogImage{name, d.config.CustomImages[name], kindCustom})
	}
	return response, nil
}
