package guestaccess

import (
	"context"
	"log/slog"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
)

func TestProber(t *testing.T) {
	for name, tc := range map[string]struct {
		policy  *engine.Policy
		trusted bool
		reason  string
	}{
		"a guarded listener":           {policy: guarded()},
		"the operator's own":           {policy: guarded(), trusted: true, reason: reasonSameListener},
		"one without RBAC":             {reason: reasonOpen},
		"one that asks nobody":         {policy: &engine.Policy{AllowFunctionRegistration: true}, reason: reasonOpen},
		"one with another's token":     {policy: &engine.Policy{Token: "x"}, reason: reasonRefusesAll},
		"one with an absent authority": {policy: &engine.Policy{AuthFunctionID: "nobody::auth"}, reason: reasonRefusesAll},
		"one that exposes the daemon":  {policy: exposing("sandbox::*"), reason: ""},
		"one without function hooks":   {policy: &engine.Policy{AuthFunctionID: workerName + AuthorizeGuest}, reason: reasonNotAsked},
		"one without a hook for triggers": {policy: &engine.Policy{
			AuthFunctionID: workerName + AuthorizeGuest, OnFunctionRegistrationFunctionID: workerName + AuthorizeRegistration,
		}, reason: reasonTriggersFree},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := listen(t, tc.policy)
			access, busURL := l.access(true), l.engine.URL("trusted")
			if tc.trusted {
				busURL = l.engine.URL("guests")
			}
			p := NewProber(Prober{Access: access, Service: l.service, BusURL: busURL, Logger: slog.New(slog.DiscardHandler)})
			found := p.probe(t.Context())
			if found.Reason != tc.reason || found.Isolated != (tc.reason == "") {
				t.Errorf("found %+v, want %q", found, tc.reason)
			}
			if l.has(workerName + "::probe") {
				t.Error("the probe left a function")
			}
		})
	}
}

// exposing has the forbidden ids' word against the listener's exposure.
func exposing(pattern string) *engine.Policy {
	policy := guarded()
	policy.ExposeFunctions = []string{pattern}
	return policy
}

func TestProber_unreachable(t *testing.T) {
	l := listen(t, guarded())
	access, err := NewAccess("ws://127.0.0.1:1", l.service.Authority, false)
	if err != nil {
		t.Fatal(err)
	}
	p := NewProber(Prober{Access: access, Service: l.service, BusURL: l.engine.URL("trusted"), Logger: slog.New(slog.DiscardHandler)})
	if found := p.probe(t.Context()); found.Isolated || found.Reason != reasonUnreachable {
		t.Errorf("found %+v", found)
	}
}

// Findings follow the pokes, are told once, and decide who boots.
func TestProber_run(t *testing.T) {
	l := listen(t, guarded())
	access, told := l.access(true), make(chan Isolation, 8)
	p := NewProber(Prober{
		Access: access, Service: l.service, BusURL: l.engine.URL("trusted"), Logger: slog.New(slog.DiscardHandler),
		Changed: func(context.Context) { told <- access.Isolation() },
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	expect := func(want Verdict) {
		t.Helper()
		if got, _ := access.Admit(); got != want {
			t.Errorf("verdict %d, want %d", got, want)
		}
	}
	expect(Wait)
	p.Poke()
	if found := <-told; !found.Isolated {
		t.Errorf("found %+v", found)
	}
	expect(Admit)
	access.Doubt()
	expect(Wait)
	p.Poke()
	<-told
	expect(Admit)
	access.Found(Isolation{Known: true, Reason: "it is open"})
	expect(Refuse)
}
