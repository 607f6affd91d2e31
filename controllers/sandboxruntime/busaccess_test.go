package sandboxruntime

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/guestaccess"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

func testAuthority(t *testing.T) *guestaccess.Authority {
	t.Helper()
	authority, err := guestaccess.NewAuthority(make([]byte, guestaccess.KeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func guestBus(t *testing.T, required bool) *guestaccess.Access {
	t.Helper()
	access, err := guestaccess.NewAccess("ws://127.0.0.1:1", testAuthority(t), required)
	if err != nil {
		t.Fatal(err)
	}
	return access
}

// credentialIn is whom the credential of a III_URL was issued for.
func credentialIn(t *testing.T, address string) guestaccess.Guest {
	t.Helper()
	parsed, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	guest, err := testAuthority(t).Verify(parsed.Query().Get("token"))
	if err != nil {
		t.Fatal(err)
	}
	return guest
}

func onBus(allow ...string) func(*sandboxv1alpha1.SandboxRuntime) {
	return func(obj *sandboxv1alpha1.SandboxRuntime) {
		obj.Spec.Network, obj.Spec.BusAccess = sandboxv1alpha1.AccessEnabled, sandboxv1alpha1.AccessEnabled
		obj.Spec.BusAllow = allow
	}
}

func TestBusAccess_eachInstanceHasACredentialOfItsOwn(t *testing.T) {
	obj := newRuntime(onBus())
	obj.Spec.Replicas = ptr.To[int32](2)
	w := newWorld(t, obj)
	w.settle()
	var got []string
	for _, c := range w.provider.Calls(fake.Create) {
		got = append(got, credentialIn(t, c.Create.Env["III_URL"]).Instance)
	}
	var want []string
	for _, i := range w.get().Status.Instances {
		want = append(want, i.Digest)
		if strings.Contains(i.TemplateDigest, "sog") {
			t.Error("the template shows a credential")
		}
	}
	// Both boot at the same time.
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || len(want) != 2 {
		t.Errorf("credentials are for (-status +sent):\n%s", diff)
	}
}

func TestBusAccess_changedRightsReplaceTheSandbox(t *testing.T) {
	w := newWorld(t, newRuntime(onBus()))
	w.settle()
	before := w.get().Status.Instances
	for _, allow := range [][]string{{"shop::*"}, {}, nil} {
		w.edit(func(obj *sandboxv1alpha1.SandboxRuntime) { obj.Spec.BusAllow = allow })
		w.settle()
		after := w.get().Status.Instances
		if len(after) != 1 || after[0].Digest == before[0].Digest {
			t.Errorf("after busAllow %#v the sandbox is %+v", allow, after)
		}
		before = after
	}
}

func TestBusAccess_isolationIsTold(t *testing.T) {
	for name, tc := range map[string]struct {
		found guestaccess.Isolation
		want  *bool
		warns int
	}{
		"nothing is known":     {guestaccess.Isolation{}, nil, 0},
		"an isolated listener": {guestaccess.Isolation{Known: true, Isolated: true}, ptr.To(true), 0},
		"an open one warns":    {guestaccess.Isolation{Known: true, Reason: "it is open"}, ptr.To(false), 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newRuntime(onBus()))
			w.bus.Found(tc.found)
			w.settle()
			w.reconcile()
			w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
			if diff := cmp.Diff(tc.want, w.get().Status.BusIsolated); diff != "" {
				t.Errorf("busIsolated (-want +got):\n%s", diff)
			}
			warned := 0
			for _, e := range w.events() {
				if strings.Contains(e, sandboxv1alpha1.BusNotIsolatedReason) {
					warned++
				}
			}
			if warned != tc.warns {
				t.Errorf("%d warnings, want %d", warned, tc.warns)
			}
		})
	}
}

func TestBusAccess_isolationIsNotToldWithoutAccess(t *testing.T) {
	w := newWorld(t, newRuntime(onBus()))
	w.bus.Found(guestaccess.Isolation{Known: true, Isolated: true})
	w.settle()
	w.edit(func(obj *sandboxv1alpha1.SandboxRuntime) { obj.Spec.BusAccess = "" })
	w.settle()
	if got := w.get().Status.BusIsolated; got != nil {
		t.Errorf("busIsolated is %t", *got)
	}
	if env := w.provider.Calls(fake.Create); env[len(env)-1].Create.Env["III_URL"] != "" {
		t.Error("a guest without access got a URL")
	}
}

func TestBusAccess_required(t *testing.T) {
	w := newWorld(t, newRuntime(onBus()))
	w.bus = guestBus(t, true)
	w.restart()
	w.settle()
	w.expectReady(metav1.ConditionFalse, sandboxv1alpha1.BusUnavailableReason)
	w.bus.Found(guestaccess.Isolation{Known: true, Reason: "it is open"})
	w.settle()
	w.expectReady(metav1.ConditionFalse, sandboxv1alpha1.BusNotIsolatedReason)
	if w.creates() != 0 {
		t.Error("a sandbox was made all the same")
	}
	w.bus.Found(guestaccess.Isolation{Known: true, Isolated: true})
	w.settle()
	w.expectReady(metav1.ConditionTrue, sandboxv1alpha1.ReadyReason)
}
