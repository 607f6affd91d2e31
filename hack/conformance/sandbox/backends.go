package main

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
)

// tested is a back end with what the suite asks of it.
type tested interface {
	daemon.Backend
	SelfTest(ctx context.Context) error
	Layers() string
	Limits() string
	Network() string
}

// backends are those that the suite can drive, by the name that --backend takes.
var backends = map[string]func(*slog.Logger) (tested, error){
	"namespaces": func(logger *slog.Logger) (tested, error) {
		return namespaces.New(namespaces.Options{Logger: logger, Spare: true})
	},
}

func knownBackends() string {
	return strings.Join(slices.Sorted(maps.Keys(backends)), ", ")
}
