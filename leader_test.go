package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// memoryLock is a lease that nobody else looks at.
type memoryLock struct {
	resourcelock.Interface
	err error
}

func (m memoryLock) Identity() string { return "us" }
func (m memoryLock) Create(context.Context, resourcelock.LeaderElectionRecord) error {
	return m.err
}
func (m memoryLock) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	return m.err
}

func TestFence(t *testing.T) {
	renewal := resourcelock.LeaderElectionRecord{HolderIdentity: "us"}
	for name, tc := range map[string]struct {
		// lead is what happens to the lease; passed is the time after that.
		lead    func(lock fencedLock) error
		passed  time.Duration
		method  string
		wantErr error
	}{
		"a replica that never led writes what it needs to start": {
			passed: time.Hour, method: http.MethodPost,
		},
		"a leader writes": {
			lead:   func(lock fencedLock) error { return lock.Create(t.Context(), renewal) },
			passed: leaseDuration - time.Second, method: http.MethodDelete,
		},
		"a leader that was paused past its lease does not": {
			lead:   func(lock fencedLock) error { return lock.Create(t.Context(), renewal) },
			passed: leaseDuration, method: http.MethodDelete, wantErr: errLeaseLost,
		},
		"it may read": {
			lead:   func(lock fencedLock) error { return lock.Create(t.Context(), renewal) },
			passed: time.Hour, method: http.MethodGet,
		},
		"a renewal that failed does not count": {
			lead: func(lock fencedLock) error {
				if err := lock.Create(t.Context(), renewal); err != nil {
					return err
				}
				now := lock.fence.now
				lock.fence.now = func() time.Time { return now().Add(leaseDuration) }
				lock.Interface = memoryLock{err: errors.New("conflict")}
				if lock.Update(t.Context(), renewal) == nil {
					return errors.New("the renewal succeeded")
				}
				return nil
			},
			method: http.MethodPatch, wantErr: errLeaseLost,
		},
		"giving the lease up is no renewal": {
			lead: func(lock fencedLock) error {
				if err := lock.Create(t.Context(), renewal); err != nil {
					return err
				}
				now := lock.fence.now
				lock.fence.now = func() time.Time { return now().Add(leaseDuration) }
				return lock.Update(t.Context(), resourcelock.LeaderElectionRecord{})
			},
			method: http.MethodPut, wantErr: errLeaseLost,
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			defer server.Close()
			start := time.Now()
			f := &fence{now: func() time.Time { return start }}
			if tc.lead != nil {
				if err := tc.lead(fencedLock{memoryLock{}, f}); err != nil {
					t.Fatal(err)
				}
			}
			now := f.now()
			f.now = func() time.Time { return now.Add(tc.passed) }
			client, err := rest.HTTPClientFor(f.protect(&rest.Config{Host: server.URL}))
			if err != nil {
				t.Fatal(err)
			}
			request, err := http.NewRequestWithContext(t.Context(), tc.method, server.URL, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			response, err := client.Do(request)
			if err == nil {
				defer func() { _ = response.Body.Close() }()
			}
			if diff := cmp.Diff(tc.wantErr, err, cmpopts.EquateErrors()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
