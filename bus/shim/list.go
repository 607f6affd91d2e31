package shim

import (
	"cmp"
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// listRequest is contracts/code-runner.md §4.4: it has no fields.
type listRequest struct{}

func decodeList(*fields) listRequest { return listRequest{} }

// listResponse is contracts/code-runner.md §4.4. Runtimes is never null.
type listResponse struct {
	Runtimes []runtimeRow `json:"runtimes"`
}

// runtimeRow is one runtime. The ids are bearer secrets: RuntimeID is for the
// caller who made the runtime, SandboxID for open capabilities only.
type runtimeRow struct {
	Reference string `json:"reference"`
	RuntimeID string `json:"runtime_id,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Language  string `json:"lang"`
	SandboxID string `json:"sandbox_id,omitempty"`
	// SandboxReference is that of fleet events.
	SandboxReference    string   `json:"sandbox_reference,omitempty"`
	CreatedAtMS         int64    `json:"created_at_ms"`
	RegisteredFunctions []string `json:"registered_functions"`
	VMGone              *bool    `json:"vm_gone,omitempty"`
}

// listRuntimes shows what callers of the bus keep: kept runtimes, and those
// behind registered functions. It changes nothing.
func (s *Shim) listRuntimes(ctx context.Context, _ listRequest) (listResponse, error) {
	var runtimes v1alpha1.SandboxRuntimeList
	if err := s.Reader.List(ctx, &runtimes, client.InNamespace(s.Namespace)); err != nil {
		return listResponse{}, apiError("listing the runtimes", err)
	}
	functions, err := s.functionsByRuntime(ctx)
	if err != nil {
		return listResponse{}, err
	}
	rows := []runtimeRow{}
	for i := range runtimes.Items {
		runtime := &runtimes.Items[i]
		mine := functions[runtime.Name]
		if runtime.DeletionTimestamp.IsZero() && (isKept(runtime) || len(mine) > 0) {
			rows = append(rows, s.row(ctx, runtime, mine))
		}
	}
	slices.SortFunc(rows, func(a, b runtimeRow) int {
		return cmp.Or(cmp.Compare(b.CreatedAtMS, a.CreatedAtMS), cmp.Compare(a.Reference, b.Reference))
	})
	return listResponse{Runtimes: rows}, nil
}

// functionsByRuntime are the bus-made functions in the order of registration.
// The cache has them: a registration is answered only once the cache says that
// it is ready, a teardown once the cache has lost it.
func (s *Shim) functionsByRuntime(ctx context.Context) (map[string][]*v1alpha1.SandboxFunction, error) {
	var list v1alpha1.SandboxFunctionList
	if err := s.Client.List(ctx, &list, client.InNamespace(s.Namespace), client.MatchingLabels(busLabels())); err != nil {
		return nil, apiError("listing the functions", err)
	}
	found := map[string][]*v1alpha1.SandboxFunction{}
	for i := range list.Items {
		f := &list.Items[i]
		if f.DeletionTimestamp.IsZero() {
			found[f.Status.RuntimeName] = append(found[f.Status.RuntimeName], f)
		}
	}
	for _, functions := range found {
		slices.SortStableFunc(functions, byRegistration)
	}
	return found, nil
}

func (s *Shim) row(ctx context.Context, runtime *v1alpha1.SandboxRuntime, functions []*v1alpha1.SandboxFunction) runtimeRow {
	row := runtimeRow{
		Reference: referenceOf(runtime), Language: languageWords[runtime.Spec.Language],
		RuntimeID: s.ids.shownTo(callerOf(ctx), runtime.Name, s.OpenCapabilities),
		SandboxID: s.openSandbox(runtime.UID), CreatedAtMS: madeAt(runtime).UnixMilli(),
		RegisteredFunctions: idsOf(functions), VMGone: s.vmGone(runtime),
	}
	if instances := s.Fleet.Snapshot().Ours[string(runtime.UID)]; len(instances) > 0 {
		row.SandboxReference = s.sandboxReference(instances[0].Info.ID)
	}
	if len(functions) > 0 {
		row.Namespace = prefixOf(functions[0].Spec.FunctionID) + separator
	}
	return row
}

// madeAt is exact for what callers of the bus made; the API server counts whole
// seconds.
func madeAt(obj client.Object) time.Time {
	if at, err := time.Parse(registeredAtLayout, obj.GetAnnotations()[v1alpha1.RegisteredAtAnnotation]); err == nil {
		return at
	}
	return obj.GetCreationTimestamp().Time
}

// vmGone is nil while nobody knows (contracts/code-runner.md §4.4): the daemon
// was not read, or not since the sandbox was made.
func (s *Shim) vmGone(runtime *v1alpha1.SandboxRuntime) *bool {
	snapshot := s.Fleet.Snapshot()
	if snapshot.Err != nil || snapshot.Time.IsZero() {
		return nil
	}
	gone := len(snapshot.Ours[string(runtime.UID)]) == 0
	if gone && !snapshot.Time.After(lastBoot(runtime)) {
		return nil
	}
	return &gone
}

// lastBoot is at the latest when the youngest sandbox was made; times of the API
// server have whole seconds.
func lastBoot(runtime *v1alpha1.SandboxRuntime) time.Time {
	latest := madeAt(runtime)
	for _, instance := range runtime.Status.Instances {
		if instance.CreatedAt.After(latest) {
			latest = instance.CreatedAt.Time
		}
	}
	return latest.Add(time.Second)
}
