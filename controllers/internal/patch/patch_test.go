package patch_test

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/patch"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/testenv"
)

// store has one object and counts the patches of its status.
type store struct {
	client.Client
	patches int
}

func newStore(t *testing.T) *store {
	t.Helper()
	scheme, err := testenv.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	s := &store{}
	obj := &sandboxv1alpha1.SandboxRuntime{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "shop", Generation: 1}}
	obj.Status.Instances = []sandboxv1alpha1.InstanceStatus{{Name: "0", CreatedAt: metav1.NewTime(time.Unix(1e9, 0))}}
	s.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(obj).WithStatusSubresource(obj).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, o ...client.SubResourcePatchOption) error {
				s.patches++
				return c.SubResource(sub).Patch(ctx, obj, p, o...)
			},
		}).Build()
	return s
}

func (s *store) read(t *testing.T) *sandboxv1alpha1.SandboxRuntime {
	t.Helper()
	var obj sandboxv1alpha1.SandboxRuntime
	if err := s.Get(t.Context(), client.ObjectKey{Namespace: "apps", Name: "shop"}, &obj); err != nil {
		t.Fatal(err)
	}
	return &obj
}

func TestStatus_writesChangesOnly(t *testing.T) {
	s := newStore(t)
	obj := s.read(t)
	before := obj.ResourceVersion
	status := patch.NewStatus(s, obj)
	// The same moment in other words, an empty list for none, and a spec.
	obj.Status.Instances[0].CreatedAt = metav1.NewTime(time.Unix(1e9, 17).UTC())
	obj.Status.Conditions = []metav1.Condition{}
	obj.Spec.Suspend = true
	if err := status.Write(t.Context(), obj); err != nil || s.patches != 0 {
		t.Fatalf("%d patches, %v; want none", s.patches, err)
	}
	conditions.Set(obj, sandboxv1alpha1.ReadyCondition, metav1.ConditionTrue, "Ready", "")
	if err := status.Write(t.Context(), obj); err != nil || s.patches != 1 {
		t.Fatalf("%d patches, %v; want one", s.patches, err)
	}
	got := s.read(t)
	if !conditions.IsTrue(got, sandboxv1alpha1.ReadyCondition) || got.ResourceVersion == before || got.Spec.Suspend {
		t.Errorf("stored is %+v", got)
	}
}

func TestStatus_staleReadsLose(t *testing.T) {
	s := newStore(t)
	stale := s.read(t)
	status := patch.NewStatus(s, stale)
	winner := s.read(t)
	winner.Status.Functions = 3
	if err := s.Status().Update(t.Context(), winner); err != nil {
		t.Fatal(err)
	}
	stale.Status.Replicas = 2
	err := status.Write(t.Context(), stale)
	if !apierrors.IsConflict(err) {
		t.Fatalf("a stale write: %v, want a conflict", err)
	}
	if got := s.read(t); got.Status.Functions != 3 || got.Status.Replicas != 0 {
		t.Errorf("stored is %+v", got.Status)
	}
}

func TestQuietConflict(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "sandboxruntimes"}, "shop", errors.New("stale"))
	if result, err := patch.QuietConflict(conflict); err != nil || result.RequeueAfter <= 0 {
		t.Errorf("a conflict gives %+v, %v; want another look", result, err)
	}
	other := errors.New("down")
	if result, err := patch.QuietConflict(other); !errors.Is(err, other) || result.RequeueAfter != 0 {
		t.Errorf("another error gives %+v, %v", result, err)
	}
	if result, err := patch.QuietConflict(nil); err != nil || !result.IsZero() {
		t.Errorf("no error gives %+v, %v", result, err)
	}
}
