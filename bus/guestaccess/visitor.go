package guestaccess

import (
	"context"
	"errors"
	"net"
	"net/url"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// visitor is a short-lived worker of the prober.
type visitor struct {
	client *bus.Client
	// refused gets the engine's first refusal.
	refused chan error
}

// connect starts a worker, which is gone when end returns.
func (p *Prober) connect(ctx context.Context, address string, g Guest) (v *visitor, end func(), err error) {
	client, err := bus.New(bus.Options{
		URL: address, Name: p.Service.WorkerName + ":probe:" + g.Instance, CallTimeout: probePatience,
		DrainTimeout: time.Millisecond, RetryNameConflict: true,
	})
	if err != nil {
		return nil, nil, err
	}
	v = &visitor{client: client, refused: make(chan error, 1)}
	client.Subscribe(func(e bus.Event) {
		if e.Kind == bus.WorkerRejected {
			select {
			case v.refused <- e.Err:
			default: // one is enough
			}
		}
	})
	running, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = client.Run(running) // it ends when it is told to, and reports by events
	}()
	return v, func() {
		cancel()
		<-ended
	}, nil
}

// await returns nil once the listener has let the worker in, or its refusal.
func (v *visitor) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	connected := make(chan error, 1)
	go func() { connected <- v.client.WaitConnected(ctx) }()
	select {
	case err := <-connected:
		return err
	case err := <-v.refused:
		return err
	}
}

// isForbidden says that the engine itself refuses a call. Any other answer means
// that the call got further than it should; an error, that there was none.
func (v *visitor) isForbidden(ctx context.Context, id string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	_, err := v.client.Call(ctx, bus.Call{FunctionID: id})
	var answer *bus.RemoteError
	if err == nil || errors.As(err, &answer) {
		return bus.RemoteCode(err) == protocol.CodeForbidden, nil
	}
	return false, err
}

// sameListener compares addresses; the loopback has several names.
func sameListener(guests url.URL, trusted string) bool {
	other, err := url.Parse(trusted)
	if err != nil {
		return false
	}
	return guests.Port() == other.Port() && hostName(guests.Hostname()) == hostName(other.Hostname())
}

func hostName(host string) string {
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified()) {
		return "localhost"
	}
	return host
}
