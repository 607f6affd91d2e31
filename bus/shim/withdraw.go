package shim

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// withdraw removes what a failed registration made, and waits a little so that
// the id is free when the caller hears of the failure. The caller may be gone,
// so its context does not count.
func (s *Shim) withdraw(f *v1alpha1.SandboxFunction) {
	ctx, cancel := context.WithTimeout(context.Background(), leavingTimeout)
	defer cancel()
	if err := s.deleteNow(ctx, f); err != nil {
		s.deleteLater(f)
	} else if err := s.awaitGone(ctx, leavingTimeout, f); err != nil {
		s.Logger.Warn("A refused function is slow to go", "function", f.Spec.FunctionID)
	}
	s.deleteSource(f)
}

// withdrawUnknown removes a function whose creation got no clear answer, if it
// exists. Its time of registration tells it from one that somebody else made.
func (s *Shim) withdrawUnknown(f *v1alpha1.SandboxFunction) {
	ctx, cancel := context.WithTimeout(context.Background(), leavingTimeout)
	defer cancel()
	found := &v1alpha1.SandboxFunction{}
	if err := s.Reader.Get(ctx, client.ObjectKeyFromObject(f), found); err != nil {
		return
	}
	if found.Annotations[v1alpha1.RegisteredAtAnnotation] == f.Annotations[v1alpha1.RegisteredAtAnnotation] {
		s.withdraw(found)
	}
}
