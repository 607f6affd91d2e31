package patch_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/patch"
)

func TestIsStale(t *testing.T) {
	for name, tc := range map[string]struct {
		read, written string
		want          bool
	}{
		"nothing was written":         {read: "5"},
		"the cache shows our write":   {read: "5", written: "5"},
		"the cache is further":        {read: "10", written: "9"},
		"the cache lags behind":       {read: "9", written: "10", want: true},
		"what has no order is usable": {read: "x", written: "10"},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &sandboxv1alpha1.SandboxRun{ObjectMeta: metav1.ObjectMeta{ResourceVersion: tc.read}}
			if got := patch.IsStale(obj, tc.written); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
