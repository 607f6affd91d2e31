package sandboxfunction

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

func functionOf(uid string, created time.Time, digest string) *sandboxv1alpha1.SandboxFunction {
	return &sandboxv1alpha1.SandboxFunction{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), CreationTimestamp: metav1.NewTime(created)},
		Status:     sandboxv1alpha1.SandboxFunctionStatus{SourceDigest: digest},
	}
}

func TestOlder(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		first, second *sandboxv1alpha1.SandboxFunction
	}{
		"the earlier one is older":               {functionOf("z", now, ""), functionOf("a", now.Add(time.Second), "")},
		"serving does not make it older":         {functionOf("z", now, ""), functionOf("a", now.Add(time.Second), "digest")},
		"within a second the one that serves is": {functionOf("z", now, "digest"), functionOf("a", now, "")},
		"else the uid decides":                   {functionOf("a", now, ""), functionOf("b", now, "")},
		"of two that served the uid decides":     {functionOf("a", now, "x"), functionOf("b", now, "y")},
	} {
		t.Run(name, func(t *testing.T) {
			if !older(tc.first, tc.second) || older(tc.second, tc.first) {
				t.Error("the order is wrong or none")
			}
			if older(tc.first, tc.first) {
				t.Error("older than itself")
			}
		})
	}
}

func TestUnservable(t *testing.T) {
	condition := func(kind, reason string) []metav1.Condition {
		return []metav1.Condition{
			{Type: sandboxv1alpha1.ReadyCondition, Status: metav1.ConditionFalse, Reason: reason, Message: "why", ObservedGeneration: 1},
			{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: "why", ObservedGeneration: 1},
		}
	}
	for name, tc := range map[string]struct {
		change          func(*sandboxv1alpha1.SandboxRuntime)
		reason, message string
	}{
		"a new runtime serves soon": {change: func(*sandboxv1alpha1.SandboxRuntime) {}},
		"a booting runtime serves soon": {change: func(r *sandboxv1alpha1.SandboxRuntime) {
			r.Status.Conditions = condition(sandboxv1alpha1.ReconcilingCondition, sandboxv1alpha1.SandboxRuntimeBootingReason)
		}},
		"one that goes does not": {
			change: func(r *sandboxv1alpha1.SandboxRuntime) { r.DeletionTimestamp = ptr.To(metav1.Now()) },
			reason: sandboxv1alpha1.SandboxFunctionRuntimeNotReadyReason, message: "is being deleted",
		},
		"a suspended one does not": {
			change: func(r *sandboxv1alpha1.SandboxRuntime) { r.Spec.Suspend = true },
			reason: sandboxv1alpha1.SandboxFunctionRuntimeNotReadyReason, message: "is suspended",
		},
		"one of no replicas does not": {
			change: func(r *sandboxv1alpha1.SandboxRuntime) { r.Spec.Replicas = ptr.To[int32](0) },
			reason: sandboxv1alpha1.SandboxFunctionRuntimeNotReadyReason, message: "is scaled to zero",
		},
		"without the daemon none does": {
			change: func(r *sandboxv1alpha1.SandboxRuntime) {
				r.Status.Conditions = condition(sandboxv1alpha1.ReconcilingCondition, sandboxv1alpha1.DaemonUnavailableReason)
			},
			reason: sandboxv1alpha1.DaemonUnavailableReason, message: "why",
		},
		"a stalled one does not": {
			change: func(r *sandboxv1alpha1.SandboxRuntime) {
				r.Status.Conditions = condition(sandboxv1alpha1.StalledCondition, sandboxv1alpha1.SandboxRuntimeImageRejectedReason)
			},
			reason: sandboxv1alpha1.SandboxFunctionRuntimeNotReadyReason, message: "why",
		},
		"one that was stalled before its spec changed may": {change: func(r *sandboxv1alpha1.SandboxRuntime) {
			r.Status.Conditions = condition(sandboxv1alpha1.StalledCondition, sandboxv1alpha1.SandboxRuntimeImageRejectedReason)
			r.Generation = 2
		}},
	} {
		t.Run(name, func(t *testing.T) {
			runtime := &sandboxv1alpha1.SandboxRuntime{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
			tc.change(runtime)
			reason, message := unservable(runtime)
			if reason != tc.reason || message != tc.message {
				t.Errorf("got %q, %q", reason, message)
			}
		})
	}
}

func TestSourceMessage(t *testing.T) {
	for name, tc := range map[string]struct {
		failure wire.Failure
		want    string
	}{
		"a known line is named": {wire.Failure{Type: "SyntaxError", Message: "bad", Line: 7}, "spec.source: line 7: SyntaxError: bad"},
		"an unknown one is not": {wire.Failure{Type: "Error", Message: "bad"}, "spec.source: Error: bad"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sourceMessage(&tc.failure); got != tc.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestWantedTriggers(t *testing.T) {
	fn := functionOf("uid", time.Now(), "")
	fn.Spec.FunctionID = "a::b"
	fn.Spec.Triggers = []sandboxv1alpha1.FunctionTrigger{
		{Name: "web", Type: "http", Config: &apiextensionsv1.JSON{Raw: []byte(`{"x":1}`)}, Metadata: &apiextensionsv1.JSON{Raw: []byte("null")}},
		{Name: "tick", Type: "cron"},
	}
	got := wantedTriggers(fn)
	want := []publish.Trigger{
		{ID: got[0].ID, Type: "http", FunctionID: "a::b", Config: json.RawMessage(`{"x":1}`)},
		{ID: got[1].ID, Type: "cron", FunctionID: "a::b", Config: json.RawMessage(`{}`)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("triggers (-want +got):\n%s", diff)
	}
	if got[0].ID == got[1].ID {
		t.Error("two triggers share an id")
	}
	if got[0].ID != "b30aef58-e788-5af0-b84c-b999d27164dc" {
		t.Errorf("the id %s is not the one of former versions, whose bindings it must replace", got[0].ID)
	}
	other := functionOf("other", time.Now(), "")
	if triggerID(other, "web") == got[0].ID {
		t.Error("triggers of two functions share an id")
	}
}

func TestCutMessage(t *testing.T) {
	long := strings.Repeat("ä", maxTriggerMessage)
	if got := cutMessage(long); got != long {
		t.Error("what fits was cut")
	}
	if got := []rune(cutMessage(long + "x")); len(got) != maxTriggerMessage || got[len(got)-1] != '…' {
		t.Errorf("got %d characters", len(got))
	}
}

func TestImplicitRuntime(t *testing.T) {
	for name, tc := range map[string]struct {
		origin string
		access sandboxv1alpha1.Access
	}{
		"a function of kubectl gets no network":                   {},
		"a function of the bus has what the original worker gave": {sandboxv1alpha1.OriginBus, sandboxv1alpha1.AccessEnabled},
	} {
		t.Run(name, func(t *testing.T) {
			fn := functionOf("uid", time.Now(), "")
			fn.Namespace, fn.Labels = "ns", map[string]string{sandboxv1alpha1.OriginLabel: tc.origin}
			fn.Spec.FunctionID, fn.Spec.Language = "shop::price", sandboxv1alpha1.LanguagePython
			got := implicitRuntime(fn, "name")
			if got.Namespace != "ns" || got.Name != "name" || got.Labels[sandboxv1alpha1.ImplicitLabel] == "" ||
				got.Annotations[sandboxv1alpha1.FunctionIDAnnotation] != "shop::" {
				t.Errorf("metadata: %+v", got.ObjectMeta)
			}
			want := sandboxv1alpha1.SandboxRuntimeSpec{Language: sandboxv1alpha1.LanguagePython}
			want.Network, want.BusAccess = tc.access, tc.access
			if diff := cmp.Diff(want, got.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRuntimes_timeOfRegistration(t *testing.T) {
	const at = "2030-01-02T03:04:05.678000000Z"
	fn := &sandboxv1alpha1.SandboxFunction{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{sandboxv1alpha1.RegisteredAtAnnotation: at}},
		Spec: sandboxv1alpha1.SandboxFunctionSpec{
			FunctionID: "shop::price", Runtime: &sandboxv1alpha1.FunctionRuntime{Language: sandboxv1alpha1.LanguageNode},
		},
	}
	for name, runtime := range map[string]*sandboxv1alpha1.SandboxRuntime{
		"shared": implicitRuntime(fn, "name"), "own": ownRuntime(fn, "name"),
	} {
		if got := runtime.Annotations[sandboxv1alpha1.RegisteredAtAnnotation]; got != at {
			t.Errorf("%s: %q", name, got)
		}
	}
	delete(fn.Annotations, sandboxv1alpha1.RegisteredAtAnnotation)
	if _, stamped := implicitRuntime(fn, "name").Annotations[sandboxv1alpha1.RegisteredAtAnnotation]; stamped {
		t.Error("a runtime for an applied function has a time of registration")
	}
}

func TestConfirmation(t *testing.T) {
	want := registration{triggers: []publish.Trigger{{ID: "one"}, {ID: "two"}}}
	ours := publish.Owner{Found: true, Ours: true}
	for name, tc := range map[string]struct {
		c        confirmation
		complete bool
		recheck  time.Duration
	}{
		"ours with every trigger is complete": {confirmation{owner: ours, bound: map[string]bool{"one": true, "two": true}}, true, unconfirmedRetry},
		"a missing trigger is not":            {confirmation{owner: ours, bound: map[string]bool{"one": true}}, false, unconfirmedRetry},
		"nobody's is not":                     {confirmation{}, false, unconfirmedRetry},
		"another's is not, and stays so longer": {
			confirmation{owner: publish.Owner{Found: true}, bound: map[string]bool{"one": true, "two": true}}, false, takenRetry,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.c.complete(want); got != tc.complete {
				t.Errorf("complete: got %t", got)
			}
			if got := tc.c.recheck(); got != tc.recheck {
				t.Errorf("recheck: got %s", got)
			}
		})
	}
	if bare := (confirmation{owner: ours}); !bare.complete(registration{}) {
		t.Error("without triggers nothing is missing")
	}
}

func TestIsVerified(t *testing.T) {
	want := check{digest: "d", handler: "h"}
	for name, tc := range map[string]struct {
		known          check
		digest, reason string
		observed       int64
		want           bool
	}{
		"this process checked it":                   {known: want, want: true},
		"this process checked another handler":      {known: check{digest: "d", handler: "x"}},
		"this process checked another one since":    {known: check{digest: "x", handler: "h"}, digest: "d", reason: sandboxv1alpha1.ReadyReason, observed: 2},
		"a former process served it":                {digest: "d", reason: sandboxv1alpha1.ReadyReason, observed: 2, want: true},
		"a former process served another source":    {digest: "x", reason: sandboxv1alpha1.ReadyReason, observed: 2},
		"the spec has changed since":                {digest: "d", reason: sandboxv1alpha1.ReadyReason, observed: 1},
		"a former process found it without handler": {digest: "d", reason: sandboxv1alpha1.SandboxFunctionSourceInvalidReason, observed: 2},
		"nobody looked at it":                       {},
	} {
		t.Run(name, func(t *testing.T) {
			fn := functionOf("uid", time.Now(), tc.digest)
			fn.Generation, fn.Status.ObservedGeneration = 2, tc.observed
			if tc.reason != "" {
				fn.Status.Conditions = []metav1.Condition{{Type: sandboxv1alpha1.ReadyCondition, Reason: tc.reason}}
			}
			if got := isVerified(&scope{obj: fn, known: &functionMemory{checked: tc.known}}, want); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestMemory_oneHolderAtATime(t *testing.T) {
	m := newMemory()
	first, second := m.get(functionOf("first", time.Now(), "")), m.get(functionOf("second", time.Now(), ""))
	for range 2 {
		if !m.take("a::b", first) {
			t.Error("a free id, or one's own, was refused")
		}
	}
	if m.take("a::b", second) {
		t.Error("the id was taken from its holder")
	}
	m.letGo(second)
	if m.take("a::b", second) {
		t.Error("the id was let go by who does not hold it")
	}
	m.letGo(first)
	if !m.take("a::b", second) {
		t.Error("the id was not let go")
	}
}

func TestHolderOfPrefix(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	// user is a function of a namespace, seconds after the first, with the reason of
	// its Ready condition.
	user := func(namespace string, seconds int, reason string) sandboxv1alpha1.SandboxFunction {
		fn := functionOf(namespace+strconv.Itoa(seconds), now.Add(time.Duration(seconds)*time.Second), "")
		fn.Namespace = namespace
		if reason != "" {
			fn.Status.Conditions = []metav1.Condition{{Type: sandboxv1alpha1.ReadyCondition, Reason: reason}}
		}
		return *fn
	}
	const in, out = sandboxv1alpha1.ReadyReason, sandboxv1alpha1.SandboxFunctionPrefixTakenReason
	for name, tc := range map[string]struct {
		users []sandboxv1alpha1.SandboxFunction
		known string
		want  types.UID
	}{
		"the oldest of new ones":                      {[]sandboxv1alpha1.SandboxFunction{user("b", 1, ""), user("a", 0, "")}, "", "a0"},
		"one that was let in before an older one":     {[]sandboxv1alpha1.SandboxFunction{user("a", 0, out), user("b", 1, in)}, "", "b1"},
		"one that was let in before an older new one": {[]sandboxv1alpha1.SandboxFunction{user("a", 0, ""), user("b", 1, in)}, "", "b1"},
		"the oldest of those that were let in":        {[]sandboxv1alpha1.SandboxFunction{user("b", 1, in), user("c", 2, in)}, "", "b1"},
		"one that failed otherwise was let in": {
			[]sandboxv1alpha1.SandboxFunction{user("a", 0, out), user("b", 1, sandboxv1alpha1.SandboxFunctionSourceInvalidReason)}, "", "b1"},
		"one of the namespace that is known to hold it": {[]sandboxv1alpha1.SandboxFunction{user("a", 0, in), user("b", 1, "")}, "b", "b1"},
		"the next that waited, once all have gone":      {[]sandboxv1alpha1.SandboxFunction{user("c", 2, out), user("b", 1, out)}, "", "b1"},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range tc.users {
				if got := holderOfPrefix(&tc.users[i], tc.users, tc.known); got.UID != tc.want {
					t.Errorf("seen from %s the holder is %s, want %s", tc.users[i].UID, got.UID, tc.want)
				}
			}
		})
	}
}

func TestMemory_prefixes(t *testing.T) {
	m := newMemory()
	member := func(namespace, uid string) *functionMemory {
		fn := functionOf(uid, time.Now(), "")
		fn.Namespace, fn.Name = namespace, uid
		return m.get(fn)
	}
	first, other, third := member("a", "1"), member("b", "2"), member("a", "3")
	if m.joinPrefix("shop", first) {
		t.Error("joined what nobody holds")
	}
	if !m.takePrefix("shop", first) || m.takePrefix("shop", other) || !m.joinPrefix("shop", third) || !m.joinPrefix("shop", third) {
		t.Error("the prefix is not held by the first namespace alone")
	}
	if _, free := m.leavePrefix(other); free {
		t.Error("who did not get the prefix left it free")
	}
	if _, free := m.leavePrefix(first); free || m.prefixHolder("shop") != "a" {
		t.Error("the prefix was free before the last function went")
	}
	if prefix, free := m.leavePrefix(third); !free || prefix != "shop" || m.prefixHolder("shop") != "" {
		t.Error("the prefix is not free")
	}
	if _, free := m.leavePrefix(third); free || !m.takePrefix("shop", other) {
		t.Error("the next namespace did not get the prefix")
	}
}

func TestSpread(t *testing.T) {
	for range 100 {
		if got := spread(time.Second); got < time.Second || got > 1250*time.Millisecond {
			t.Fatalf("one second became %s", got)
		}
	}
}
