package guestaccess

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
)

const (
	workerName          = "sandbox-code-runner"
	functionPrefixIndex = "prefix"
)

// listedBus is an engine with a fixed catalog.
type listedBus struct {
	functions map[string]bus.FunctionInfo
	triggers  map[string]string
	err       error
	calls     atomic.Int32
}

func (b *listedBus) RegisterFunction(bus.Function) error { return nil }

func (b *listedBus) Call(_ context.Context, call bus.Call) (json.RawMessage, error) {
	b.calls.Add(1)
	if b.err != nil {
		return nil, b.err
	}
	if call.FunctionID == "engine::functions::list" {
		return json.RawMessage(`{"functions":[]}`), nil
	}
	var request struct{ ID string }
	if err := json.Unmarshal(call.Data, &request); err != nil {
		return nil, err
	}
	if target, ok := b.triggers[request.ID]; ok {
		return json.Marshal(map[string]string{"id": request.ID, "function_id": target})
	}
	return nil, &bus.RemoteError{Code: "NOT_FOUND"}
}

func (b *listedBus) FunctionInfo(_ context.Context, id, _ string) (bus.FunctionInfo, error) {
	if info, ok := b.functions[id]; ok {
		return info, nil
	}
	return bus.FunctionInfo{}, &bus.RemoteError{Code: "NOT_FOUND"}
}

func newClient(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&v1alpha1.SandboxFunction{}, functionPrefixIndex, func(obj client.Object) []string {
			prefix, _, _ := strings.Cut(obj.(*v1alpha1.SandboxFunction).Spec.FunctionID, "::")
			return []string{prefix}
		}).
		Build()
}

func newService(t *testing.T, b Bus, cached, direct client.Reader) *Service {
	t.Helper()
	service, err := NewService(Options{Bus: b, Client: cached, Reader: direct, Authority: authorityOf(t, 1), WorkerName: workerName,
		FunctionPrefixIndex: functionPrefixIndex})
	if err != nil {
		t.Fatal(err)
	}
	return service
}

func runtimeOnBus(name string, adjust ...func(*v1alpha1.SandboxRuntime)) *v1alpha1.SandboxRuntime {
	runtime := &v1alpha1.SandboxRuntime{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-of-" + name)},
		Spec: v1alpha1.SandboxRuntimeSpec{Language: v1alpha1.LanguageNode, GuestSpec: v1alpha1.GuestSpec{
			Network: v1alpha1.AccessEnabled, BusAccess: v1alpha1.AccessEnabled,
		}},
		Status: v1alpha1.SandboxRuntimeStatus{Instances: []v1alpha1.InstanceStatus{
			{Name: "0", State: v1alpha1.InstanceReady, Digest: "digest-0"},
			{Name: "1", State: v1alpha1.InstanceBooting, Digest: "digest-1"},
			{Name: "2", State: v1alpha1.InstanceStopping, Digest: "digest-2"},
		}},
	}
	for _, a := range adjust {
		a(runtime)
	}
	return runtime
}

func instanceOf(runtime *v1alpha1.SandboxRuntime, digest string) Guest {
	return Guest{Kind: KindRuntime, Namespace: runtime.Namespace, Name: runtime.Name, UID: runtime.UID, Instance: digest}
}

func runOnBus(name string, adjust ...func(*v1alpha1.SandboxRun)) *v1alpha1.SandboxRun {
	run := &v1alpha1.SandboxRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: "runs", Name: name, UID: types.UID("uid-of-" + name)},
		Spec: v1alpha1.SandboxRunSpec{Runtime: &v1alpha1.GuestSpec{
			Network: v1alpha1.AccessEnabled, BusAccess: v1alpha1.AccessEnabled, BusAllow: []string{"shop::*"},
		}},
		Status: v1alpha1.SandboxRunStatus{Phase: v1alpha1.RunRunning, AttemptDigest: "attempt"},
	}
	for _, a := range adjust {
		a(run)
	}
	return run
}

func attemptOf(run *v1alpha1.SandboxRun, digest string) Guest {
	return Guest{Kind: KindRun, Namespace: run.Namespace, Name: run.Name, UID: run.UID, Instance: digest}
}

func functionOf(namespace, id string) *v1alpha1.SandboxFunction {
	return &v1alpha1.SandboxFunction{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: strings.ReplaceAll(id, "::", "-")},
		Spec:       v1alpha1.SandboxFunctionSpec{FunctionID: id},
	}
}
