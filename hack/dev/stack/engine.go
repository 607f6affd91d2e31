package stack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/bus/guestaccess"
	"github.com/sandbox-operator/sandbox-operator/bus/shim"
)

// Names of the engine's worker ports.
const (
	trustedListener = "workers"
	guestListener   = "guests"
)

// guestPolicy lets the operator decide who connects from inside a sandbox, what
// it may call and what it may register. Nobody gets in while the operator is away.
func guestPolicy() *engine.Policy {
	return &engine.Policy{
		AuthFunctionID:                   shim.DefaultWorkerName + guestaccess.AuthorizeGuest,
		OnFunctionRegistrationFunctionID: shim.DefaultWorkerName + guestaccess.AuthorizeRegistration,
		OnTriggerRegistrationFunctionID:  shim.DefaultWorkerName + guestaccess.AuthorizeTrigger,
	}
}

// engineStopper ends the engine that runs inside this process.
type engineStopper struct {
	engine *engine.Engine
	log    *os.File
}

func (e engineStopper) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	return errors.Join(e.engine.Close(ctx), e.log.Close())
}

// ended never is: the engine cannot end without this process.
func (e engineStopper) ended() <-chan struct{} { return nil }

// startEngine opens the ports of the bus. A second start takes the same ports,
// so that workers find the bus again.
func (s *Stack) startEngine(ctx context.Context) (stopper, string, error) {
	log, err := os.OpenFile(s.LogPath(Engine), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, "", err
	}
	e, err := engine.New(engine.Config{
		Listeners: []engine.Listener{
			{Name: trustedListener, Address: s.busAddress},
			{Name: guestListener, Address: s.guestAddress, Policy: guestPolicy()},
		},
		HTTPAddress: s.httpAddress,
		Logger:      slog.New(slog.NewTextHandler(log, nil)),
	})
	if err == nil {
		err = e.Start(ctx)
	}
	if err != nil {
		return nil, "", errors.Join(err, log.Close())
	}
	s.BusURL, s.GuestBusURL, s.HTTPURL = e.URL(trustedListener), e.URL(guestListener), e.HTTPURL()
	s.busAddress, s.guestAddress, s.httpAddress = hostOf(s.BusURL), hostOf(s.GuestBusURL), hostOf(s.HTTPURL)
	return engineStopper{e, log}, s.BusURL, nil
}

func hostOf(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return parsed.Host
}

func portOf(address string) (int, error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return 0, err
	}
	port, err := strconv.Atoi(parsed.Port())
	if err != nil {
		return 0, fmt.Errorf("%s has no port", address)
	}
	return port, nil
}
