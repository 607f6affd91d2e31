package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
)

// createRequest is that of sandbox::create (contracts/iii-sandbox.md §3.1).
type createRequest struct {
	Image           string       `json:"image" jsonschema_description:"Name of an image of the catalog."`
	CPUs            *uint32      `json:"cpus,omitempty" jsonschema_description:"Virtual processors."`
	MemoryMiB       *uint32      `json:"memory_mb,omitempty" jsonschema_description:"Memory in MiB."`
	Name            *string      `json:"name,omitempty" jsonschema_description:"Label; not a key."`
	Network         bool         `json:"network,omitempty" jsonschema_description:"Gives the guest a network."`
	IdleTimeoutSecs *uint64      `json:"idle_timeout_secs,omitempty" jsonschema_description:"Seconds without use until the sandbox is removed."`
	Env             *environment `json:"env,omitempty"`
}

type createResponse struct {
	SandboxID string `json:"sandbox_id"`
	Image     string `json:"image"`
}

// create boots a sandbox. Unlike in the original the cap holds in bursts too,
// because a booting sandbox counts.
func (d *Daemon) create(ctx context.Context, req createRequest) (createResponse, error) {
	if err := d.registry.reserve(); err != nil {
		return createResponse{}, err
	}
	e, err := d.boot(ctx, req)
	if err != nil {
		d.registry.release()
		return createResponse{}, err
	}
	if !d.registry.add(e) {
		err := e.machine.Stop(context.WithoutCancel(ctx))
		d.registry.release()
		return createResponse{}, errors.Join(newFault(codeBoot, "VM boot failed: the daemon is shutting down"), err)
	}
	return createResponse{SandboxID: e.id, Image: req.Image}, nil
}

func (d *Daemon) boot(ctx context.Context, req createRequest) (*entry, error) {
	spec, err := d.bootSpec(req)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, d.bootTimeout())
	defer cancel()
	machine, err := d.backend.Boot(ctx, spec)
	if err != nil {
		return nil, newFault(codeBoot, "VM boot failed: %v", err)
	}
	return d.entry(req, machine), nil
}

// bootTimeout is the contract's (§9), unless the back end needs another.
func (d *Daemon) bootTimeout() time.Duration {
	if patient, ok := d.backend.(PatientBackend); ok {
		return patient.BootTimeout()
	}
	return bootTimeout
}

// bootSpec checks a request in the order of §3.1.
func (d *Daemon) bootSpec(req createRequest) (BootSpec, error) {
	if !d.config.allowed(req.Image) {
		return BootSpec{}, newFault(codeImage, "image '%s' not in catalog", req.Image)
	}
	spec := BootSpec{
		Image: req.Image, Network: req.Network, Mounts: d.config.ImageMounts[req.Image],
		CPUs:      int(orDefault(req.CPUs, uint32(d.config.DefaultCPUs))),
		MemoryMiB: int(orDefault(req.MemoryMiB, uint32(d.config.DefaultMemoryMiB))),
	}
	if err := d.config.checkCaps(req.Image, spec.CPUs, spec.MemoryMiB); err != nil {
		return BootSpec{}, err
	}
	if err := d.checkImage(req.Image); err != nil {
		return BootSpec{}, err
	}
	env := orDefault(req.Env, environment{})
	if err := env.check(); err != nil {
		return BootSpec{}, err
	}
	spec.Env = env.values
	if spec.CPUs < 1 || spec.MemoryMiB < 1 {
		return BootSpec{}, newFault(codeBoot, "VM boot failed: cpus and memory_mb must be at least 1")
	}
	if req.Network {
		spec.Env = forGuest(env.values)
		spec.HostPorts = d.config.GuestHostPorts
	}
	return spec, nil
}

// checkImage says that an image is absent where nothing may be installed, and
// that its installation failed where it may: this daemon cannot pull (§2.2).
func (d *Daemon) checkImage(image string) error {
	err := d.backend.CheckImage(image)
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrNoImage) && !d.config.AutoInstall {
		return newFault(codeRootMissing, "rootfs missing on disk for image '%s'", image)
	}
	return newFault(codeInstall, "auto-install failed for image '%s': %v", image, err)
}

func (d *Daemon) entry(req createRequest, machine Machine) *entry {
	return &entry{
		id: uuid.NewString(), name: req.Name, image: req.Image, machine: machine,
		idleTimeout: seconds(orDefault(req.IdleTimeoutSecs, d.config.DefaultIdleTimeoutSecs)),
	}
}

func orDefault[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}
