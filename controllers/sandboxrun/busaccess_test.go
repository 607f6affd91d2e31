package sandboxrun

import (
	"net/url"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/guestaccess"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
)

func newGuestBus(t *testing.T, required bool, found guestaccess.Isolation) (*guestaccess.Access, *guestaccess.Authority) {
	t.Helper()
	authority, err := guestaccess.NewAuthority(make([]byte, guestaccess.KeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	access, err := guestaccess.NewAccess("ws://127.0.0.1:1", authority, required)
	if err != nil {
		t.Fatal(err)
	}
	access.Found(found)
	return access, authority
}

func newRunScope() *scope {
	key := types.NamespacedName{Namespace: "shop", Name: "once"}
	return &scope{key: key, obj: &sandboxv1alpha1.SandboxRun{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "uid"}}}
}

func TestHoldFromBus(t *testing.T) {
	open := guestaccess.Isolation{Known: true, Reason: "it is open"}
	for name, tc := range map[string]struct {
		required bool
		found    guestaccess.Isolation
		access   sandboxv1alpha1.Access
		held     bool
		state    conditions.State
		reason   string
	}{
		"an open listener is taken as it is":   {found: open, access: sandboxv1alpha1.AccessEnabled},
		"unless isolation is required":         {true, open, sandboxv1alpha1.AccessEnabled, true, conditions.Stalled, sandboxv1alpha1.BusNotIsolatedReason},
		"what is not known is waited for":      {true, guestaccess.Isolation{}, sandboxv1alpha1.AccessEnabled, true, conditions.Waiting, sandboxv1alpha1.BusUnavailableReason},
		"an isolated one lets guests in":       {required: true, found: guestaccess.Isolation{Known: true, Isolated: true}, access: sandboxv1alpha1.AccessEnabled},
		"a run without access is not affected": {required: true, found: open},
	} {
		t.Run(name, func(t *testing.T) {
			access, _ := newGuestBus(t, tc.required, tc.found)
			r := New(Options{GuestBus: access, Clock: clock.RealClock{}})
			sc := newRunScope()
			held, err := r.holdFromBus(sc, &sandboxv1alpha1.GuestSpec{BusAccess: tc.access})
			if err != nil || held != tc.held {
				t.Fatalf("held: %t, %v", held, err)
			}
			if tc.held && (sc.outcome.State != tc.state || sc.outcome.Reason != tc.reason) {
				t.Errorf("outcome %+v", sc.outcome)
			}
			if sc.failed != (tc.state == conditions.Stalled && tc.held) {
				t.Errorf("failed: %t", sc.failed)
			}
		})
	}
}

func TestGuestURL_namesTheAttempt(t *testing.T) {
	access, authority := newGuestBus(t, false, guestaccess.Isolation{})
	sc := newRunScope()
	sc.attempt.digest = strings.Repeat("d", 64)
	address, err := url.Parse(New(Options{GuestBus: access}).guestURL(sc))
	if err != nil {
		t.Fatal(err)
	}
	got, err := authority.Verify(address.Query().Get("token"))
	want := guestaccess.Guest{Kind: guestaccess.KindRun, Namespace: "shop", Name: "once", UID: "uid", Instance: sc.attempt.digest}
	if err != nil || got != want {
		t.Errorf("issued for %+v, %v", got, err)
	}
}
