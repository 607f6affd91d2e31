package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/qemu"
)

const (
	selfTestTimeout = 30 * time.Second
	// imagesTimeout is for a back end whose first start makes its images.
	imagesTimeout = 10 * time.Minute
)

// backend is what isolates guests, with what the log says of it.
type backend interface {
	daemon.Backend
	// SelfTest boots a guest and stops it.
	SelfTest(ctx context.Context) error
	// Layers, Limits and Network are in words.
	Layers() string
	Limits() string
	Network() string
}

func newBackend(config daemon.Config, logger *slog.Logger) (backend, error) {
	if config.Backend == daemon.BackendQEMU {
		return qemu.New(qemu.Options{Logger: logger, Root: config.QEMURoot, Cache: config.QEMUCache})
	}
	return namespaces.New(namespaces.Options{Logger: logger, Spare: true})
}

func selfTest(ctx context.Context, config daemon.Config, b backend) error {
	timeout := selfTestTimeout
	if config.Backend == daemon.BackendQEMU {
		timeout = imagesTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := b.SelfTest(ctx); err != nil {
		return fmt.Errorf("this machine cannot isolate guests: %w", err)
	}
	return nil
}
