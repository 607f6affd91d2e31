package guestaccess

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
)

// ask connects as the engine tells it: with a token in the query.
func ask(t *testing.T, s *Service, token string) (policy, error) {
	t.Helper()
	data, err := json.Marshal(map[string]any{
		"headers": map[string]string{"host": "h"}, "query_params": map[string][]string{"token": {token}}, "ip_address": "10.0.0.1",
	})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.authorizeGuest(t.Context(), bus.Invocation{Data: data})
	if err != nil {
		return policy{}, err
	}
	var granted policy
	if err := json.Unmarshal(answer, &granted); err != nil {
		t.Fatal(err)
	}
	return granted, nil
}

func TestAuthorizeGuest(t *testing.T) {
	open, listed, closed := runtimeOnBus("open"), runtimeOnBus("listed"), runtimeOnBus("closed")
	listed.Spec.BusAllow = []string{"shop::price", "stock::*"}
	closed.Spec.BusAccess = v1alpha1.AccessDisabled
	run, done := runOnBus("run"), runOnBus("done")
	done.Status.Phase = v1alpha1.RunSucceeded
	plain := runOnBus("plain", func(r *v1alpha1.SandboxRun) { r.Spec.Runtime = nil })
	api := newClient(t, open, listed, closed, run, done, plain)
	s := newService(t, &listedBus{}, api, api)
	stranger := instanceOf(open, "digest-0")
	stranger.UID = "another"
	moved := instanceOf(open, "digest-0")
	moved.Namespace = "elsewhere"
	for name, tc := range map[string]struct {
		guest Guest
		want  []string
		err   string
	}{
		"a ready instance":                     {instanceOf(open, "digest-0"), []string{`match("*")`}, ""},
		"one that boots":                       {instanceOf(open, "digest-1"), []string{`match("*")`}, ""},
		"one that is being stopped":            {instanceOf(open, "digest-2"), nil, "ended"},
		"one that is not listed any more":      {instanceOf(open, "digest-9"), nil, "ended"},
		"one of an earlier object of the name": {stranger, nil, "ended"},
		"one of an object that has gone":       {moved, nil, "ended"},
		"what busAllow lists":                  {instanceOf(listed, "digest-0"), []string{"shop::price", `match("stock::*")`}, ""},
		"a runtime that lost its access":       {instanceOf(closed, "digest-0"), nil, "ended"},
		"the attempt of a run":                 {attemptOf(run, "attempt"), []string{`match("shop::*")`}, ""},
		"an earlier attempt":                   {attemptOf(run, "former"), nil, "ended"},
		"an attempt with no digest":            {attemptOf(run, ""), nil, "ended"},
		"a run that has ended":                 {attemptOf(done, "attempt"), nil, "ended"},
		"a run without access":                 {attemptOf(plain, "attempt"), nil, "ended"},
		"a probe that nobody makes":            {Guest{Kind: kindProbe, Instance: "i"}, nil, "ended"},
		"a kind of a later version":            {Guest{Kind: "Other", Namespace: "shop", Name: "open"}, nil, "ended"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ask(t, s, s.Authority.Issue(tc.guest).Reveal())
			if tc.err != "" {
				if bus.RemoteCode(err) != "AUTH_ERROR" || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string][]string{"default": tc.want}, got.Namespaces); diff != "" {
				t.Errorf("grants (-want +got):\n%s", diff)
			}
			if got.Context.Guest != tc.guest {
				t.Errorf("the hooks are told of %+v", got.Context.Guest)
			}
		})
	}
}

func TestAuthorizeGuest_credentials(t *testing.T) {
	runtime := runtimeOnBus("open")
	api := newClient(t, runtime)
	s := newService(t, &listedBus{}, api, api)
	good := s.Authority.Issue(instanceOf(runtime, "digest-0")).Reveal()
	foreign := authorityOf(t, 2).Issue(instanceOf(runtime, "digest-0")).Reveal()
	for name, tc := range map[string]struct {
		data string
		in   bool
	}{
		"in the query":                    {`{"query_params":{"token":["` + good + `"]}}`, true},
		"in a header":                     {`{"headers":{"authorization":"Bearer ` + good + `"}}`, true},
		"in a header, whatever its case":  {`{"headers":{"Authorization":"Bearer ` + good + `"},"query_params":{}}`, true},
		"of another key":                  {`{"query_params":{"token":["` + foreign + `"]}}`, false},
		"a wrong header is not passed by": {`{"headers":{"authorization":"Bearer x"},"query_params":{"token":["` + good + `"]}}`, false},
		"two of them":                     {`{"query_params":{"token":["` + foreign + `","` + good + `"]}}`, false},
		"none":                            {`{"headers":{},"query_params":{}}`, false},
		"no handshake":                    {`null`, false},
		"something else":                  {`[1]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.authorizeGuest(t.Context(), bus.Invocation{Data: json.RawMessage(tc.data)})
			if (err == nil) != tc.in {
				t.Errorf("got %v, want in: %t", err, tc.in)
			}
			if err != nil && (strings.Contains(err.Error(), good) || strings.Contains(err.Error(), foreign)) {
				t.Error("the refusal repeats the credential")
			}
		})
	}
}

// A sandbox may be up before the cache knows of it, but credentials of ended ones
// must not become a load on the API server.
func TestAuthorizeGuest_readsPastTheCache(t *testing.T) {
	runtime := runtimeOnBus("open")
	s := newService(t, &listedBus{}, newClient(t), newClient(t, runtime))
	if _, err := ask(t, s, s.Authority.Issue(instanceOf(runtime, "digest-0")).Reveal()); err != nil {
		t.Errorf("a sandbox that the cache lacks: %v", err)
	}
	for range directReadsAtOnce {
		s.direct.TryAccept()
	}
	_, err := ask(t, s, s.Authority.Issue(instanceOf(runtime, "digest-9")).Reveal())
	if err == nil || !strings.Contains(err.Error(), "try again") {
		t.Errorf("one question too many: %v", err)
	}
}

// Who cannot be told what is forbidden is not let in.
func TestAuthorizeGuest_failsClosed(t *testing.T) {
	runtime := runtimeOnBus("open")
	api := newClient(t, runtime)
	engine := &listedBus{err: errors.New("the engine's secret trouble")}
	s := newService(t, engine, api, api)
	token := s.Authority.Issue(instanceOf(runtime, "digest-0")).Reveal()
	if _, err := ask(t, s, token); err == nil || strings.Contains(err.Error(), "secret trouble") {
		t.Errorf("got %v", err)
	}
	engine.err = nil
	if _, err := ask(t, s, token); err != nil {
		t.Errorf("a passing failure stays: %v", err)
	}
}

func TestCatalog_isReadAgain(t *testing.T) {
	engine, now := &listedBus{}, clocktesting.NewFakePassiveClock(time.Now())
	c := catalog{bus: engine, clock: now}
	counts := []int32{}
	for _, step := range []time.Duration{0, catalogAge / 2, catalogAge} {
		now.SetTime(now.Now().Add(step))
		if _, err := c.list(t.Context()); err != nil {
			t.Fatal(err)
		}
		counts = append(counts, engine.calls.Load())
	}
	if counts[0] == 0 || counts[1] != counts[0] || counts[2] != 2*counts[0] {
		t.Errorf("calls after each look: %v", counts)
	}
}

func TestAuthorizeGuest_deletedRun(t *testing.T) {
	run := runOnBus("run", func(r *v1alpha1.SandboxRun) {
		r.Finalizers = []string{"example.com/hold"}
		r.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	})
	api := newClient(t, run)
	s := newService(t, &listedBus{}, api, api)
	if _, err := ask(t, s, s.Authority.Issue(attemptOf(run, "attempt")).Reveal()); err == nil {
		t.Error("a deleted run is let in")
	}
}
