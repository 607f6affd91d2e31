package sandboxfunction

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/index"
)

// claimPrefix checks that the id prefix may be used from this namespace: the
// first namespace that uses a prefix holds it until its last function of that
// prefix is gone. Otherwise a namespace could put functions among those that
// callers take for another's.
func (r *Reconciler) claimPrefix(ctx context.Context, sc *scope) (bool, error) {
	prefix := index.Prefix(sc.obj.Spec.FunctionID)
	if r.AllowSharedPrefixes || r.memory.joinPrefix(prefix, sc.known) {
		return false, nil
	}
	users, err := r.usersOfPrefix(ctx, prefix)
	if err != nil {
		return false, err
	}
	holder := holderOfPrefix(sc.obj, users, r.memory.prefixHolder(prefix))
	if holder.Namespace == sc.obj.Namespace && r.memory.takePrefix(prefix, sc.known) {
		return false, nil
	}
	r.withdraw(sc.known)
	return sc.conclude(conditions.Stalled, sandboxv1alpha1.SandboxFunctionPrefixTakenReason, fmt.Sprintf(
		"spec.functionID: the prefix %s:: is used by SandboxFunction %s/%s, and one namespace at a time may use a prefix; "+
			"use another prefix or that namespace, or delete the functions there", prefix, holder.Namespace, holder.Name))
}

// usersOfPrefix lists the functions of a prefix in all namespaces, for reading
// only.
func (r *Reconciler) usersOfPrefix(ctx context.Context, prefix string) ([]sandboxv1alpha1.SandboxFunction, error) {
	var list sandboxv1alpha1.SandboxFunctionList
	err := r.Client.List(ctx, &list, client.MatchingFields{index.FunctionByPrefix: prefix}, client.UnsafeDisableDeepCopy)
	return list.Items, err
}

// holderOfPrefix is the function whose namespace holds the prefix: the oldest of
// those in the namespace that is known to hold it, or else the oldest of those
// that were let in before, by this process or another, or else of all.
func holderOfPrefix(
	obj *sandboxv1alpha1.SandboxFunction, users []sandboxv1alpha1.SandboxFunction, namespace string,
) *sandboxv1alpha1.SandboxFunction {
	first := obj
	for i := range users {
		if precedes(&users[i], first, namespace) {
			first = &users[i]
		}
	}
	return first
}

func precedes(a, b *sandboxv1alpha1.SandboxFunction, namespace string) bool {
	if inside := a.Namespace == namespace; inside != (b.Namespace == namespace) {
		return inside
	}
	if in := wasLetIn(a); in != wasLetIn(b) {
		return in
	}
	return older(a, b)
}

// wasLetIn says that a function got past the check of its prefix, as the status
// tells.
func wasLetIn(fn *sandboxv1alpha1.SandboxFunction) bool {
	ready := conditions.Find(fn, sandboxv1alpha1.ReadyCondition)
	return ready != nil && ready.Reason != sandboxv1alpha1.SandboxFunctionPrefixTakenReason
}

// releasePrefix lets the waiting functions of a prefix look again once the last
// function of its namespace has gone.
func (r *Reconciler) releasePrefix(known *functionMemory) {
	prefix, free := r.memory.leavePrefix(known)
	if free {
		r.wake(r.find(context.Background(), client.MatchingFields{index.FunctionByPrefix: prefix}))
	}
}

// waitersForPrefix are the functions of other namespaces with the prefix of one
// that has gone. While its namespace has others that use the prefix nobody can take
// it, and releasePrefix comes when they have gone.
func (r *Reconciler) waitersForPrefix(ctx context.Context, obj client.Object) []reconcile.Request {
	if r.AllowSharedPrefixes {
		return nil
	}
	prefix := index.Prefix(obj.(*sandboxv1alpha1.SandboxFunction).Spec.FunctionID)
	if r.memory.prefixHolder(prefix) == obj.GetNamespace() {
		return nil
	}
	var waiters []reconcile.Request
	for _, request := range r.find(ctx, client.MatchingFields{index.FunctionByPrefix: prefix}) {
		if request.Namespace != obj.GetNamespace() {
			waiters = append(waiters, request)
		}
	}
	return waiters
}

// prefixHold is the use of a prefix by one namespace.
type prefixHold struct {
	namespace string
	// functions is how many use it.
	functions int
}

// joinPrefix adds a function to a namespace that holds its prefix. It reports
// false if another holds it, or nobody.
func (m *memory) joinPrefix(prefix string, known *functionMemory) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.join(prefix, known)
}

// join is joinPrefix for who holds the lock. An object never changes its prefix.
func (m *memory) join(prefix string, known *functionMemory) bool {
	hold := m.prefixes[prefix]
	if hold == nil || hold.namespace != known.key.Namespace {
		return false
	}
	if known.prefix == "" {
		known.prefix = prefix
		hold.functions++
	}
	return true
}

// takePrefix is joinPrefix, or the first use if nobody holds the prefix.
func (m *memory) takePrefix(prefix string, known *functionMemory) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.prefixes[prefix] == nil {
		m.prefixes[prefix] = &prefixHold{namespace: known.key.Namespace}
	}
	return m.join(prefix, known)
}

// prefixHolder is the namespace that holds a prefix, empty for none.
func (m *memory) prefixHolder(prefix string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if hold := m.prefixes[prefix]; hold != nil {
		return hold.namespace
	}
	return ""
}

// leavePrefix is the end of joinPrefix, and says which prefix is free then.
func (m *memory) leavePrefix(known *functionMemory) (prefix string, free bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	hold := m.prefixes[known.prefix]
	if known.prefix == "" || hold == nil {
		return "", false
	}
	prefix, known.prefix = known.prefix, ""
	if hold.functions--; hold.functions > 0 {
		return "", false
	}
	delete(m.prefixes, prefix)
	return prefix, true
}
