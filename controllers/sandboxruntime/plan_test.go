package sandboxruntime

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// instances reads a short notation: "0:ready" of the present template,
// "1:booting-old" of a former one.
func instances(t *testing.T, notation string) []sandboxv1alpha1.InstanceStatus {
	t.Helper()
	states := map[string]sandboxv1alpha1.InstanceState{
		"ready": sandboxv1alpha1.InstanceReady, "booting": sandboxv1alpha1.InstanceBooting,
		"stopping": sandboxv1alpha1.InstanceStopping,
	}
	var list []sandboxv1alpha1.InstanceStatus
	for _, word := range strings.Fields(notation) {
		name, rest, _ := strings.Cut(word, ":")
		state, age, _ := strings.Cut(rest, "-")
		template := "new"
		if age != "" {
			template = age
		}
		if states[state] == "" {
			t.Fatalf("no state %q", state)
		}
		list = append(list, sandboxv1alpha1.InstanceStatus{Name: name, State: states[state], TemplateDigest: template})
	}
	return list
}

func TestDecide(t *testing.T) {
	for name, tc := range map[string]struct {
		have         string
		want         int
		boot, retire string
		short        bool
	}{
		"nothing is wanted and there is nothing":         {},
		"what is missing is made":                        {want: 2, boot: "0 1", short: true},
		"names are filled up from below":                 {have: "0:ready 2:ready", want: 3, boot: "1", short: true},
		"what boots is not made twice":                   {have: "0:booting", want: 1, short: true},
		"what is there is enough":                        {have: "0:ready 1:ready", want: 2},
		"too much goes, the newest first":                {have: "0:ready 1:ready 2:ready", want: 1, retire: "1 2"},
		"what takes calls stays before what boots":       {have: "0:booting 1:ready", want: 1, retire: "0"},
		"nothing wanted, all goes":                       {have: "0:ready 1:booting", want: 0, retire: "0 1"},
		"with nothing wanted there is no template":       {have: "0:ready-old", want: 0, retire: "0"},
		"what stops counts for nothing":                  {have: "0:stopping 1:ready", want: 1},
		"what stops keeps its name":                      {have: "0:stopping", want: 1, boot: "1", short: true},
		"a new template boots beside the old":            {have: "0:ready-old 1:ready-old", want: 2, boot: "2 3", short: true},
		"the old stays until enough new are ready":       {have: "0:ready-old 1:ready-old 2:ready 3:booting", want: 2, short: true},
		"then all the old goes":                          {have: "0:ready-old 1:booting-old 2:ready 3:ready", want: 2, retire: "0 1"},
		"a lost old one is not replaced":                 {have: "1:ready-old 2:booting 3:booting", want: 2, short: true},
		"a second change drops what boots for the first": {have: "0:ready-old 1:booting-older", want: 1, boot: "2", retire: "1", short: true},
		"a roll that is taken back keeps what there is":  {have: "0:ready 1:booting-old", want: 1, retire: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			got := decide(instances(t, tc.have), tc.want, "new")
			want := plan{boot: strings.Fields(tc.boot), retire: strings.Fields(tc.retire), short: tc.short}
			if diff := cmp.Diff(want, plan{boot: append([]string{}, got.boot...), retire: append([]string{}, got.retire...), short: got.short},
				cmp.AllowUnexported(plan{})); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecide_neverMoreThanAStatusHolds(t *testing.T) {
	var have []string
	for n := range maxInstances - 1 {
		have = append(have, strconv.Itoa(n)+":ready-old")
	}
	got := decide(instances(t, strings.Join(have, " ")), 64, "new")
	if len(got.boot) != 1 || len(got.retire) != maxInstances-1-64 {
		t.Errorf("%d boot and %d retire", len(got.boot), len(got.retire))
	}
}

func TestOrdinal(t *testing.T) {
	for name, want := range map[string]int{"0": 0, "12": 12, "x": 0} {
		if got := ordinal(name); got != want {
			t.Errorf("the ordinal of %q is %d, want %d", name, got, want)
		}
	}
}
