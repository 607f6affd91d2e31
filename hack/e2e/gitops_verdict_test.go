package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	. "github.com/onsi/gomega"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// verdict is what the tools say of an object: kstatus, which Flux and
// kpt ask, and Argo CD with the checks of config/argocd.
type verdict struct {
	Kstatus status.Status
	Argo    string
}

// The verdicts that there may be.
var (
	comingUp  = verdict{status.InProgressStatus, "Progressing"}
	healthy   = verdict{status.CurrentStatus, "Healthy"}
	suspended = verdict{status.CurrentStatus, "Suspended"}
	broken    = verdict{status.FailedStatus, "Degraded"}
	goingAway = verdict{status.TerminatingStatus, "Progressing"}
)

// verdictOn returns a function for Eventually: the verdict on an object as it is
// now.
func verdictOn(obj client.Object) func(context.Context) (verdict, error) {
	kind, err := kube.GroupVersionKindFor(obj)
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	checks, err := readHealthChecks()
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	key := client.ObjectKeyFromObject(obj)
	return func(ctx context.Context) (verdict, error) {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(kind)
		if err := kube.Get(ctx, key, live); err != nil {
			return verdict{}, err
		}
		found, _, err := checks.judge(live)
		return found, err
	}
}

// healthChecks are the Lua scripts of Argo CD's ConfigMap by its keys.
type healthChecks map[string]string

// readHealthChecks builds config/argocd as kubectl does.
func readHealthChecks() (healthChecks, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).
		Run(filesys.MakeFsOnDisk(), filepath.Join(root, "config", "argocd"))
	if err != nil {
		return nil, err
	}
	for _, found := range built.Resources() {
		if found.GetKind() == "ConfigMap" && found.GetName() == "argocd-cm" {
			return healthChecks(found.GetDataMap()), nil
		}
	}
	return nil, fmt.Errorf("config/argocd has no ConfigMap argocd-cm")
}

// judge returns the verdict on an object and Argo CD's message.
func (h healthChecks) judge(obj *unstructured.Unstructured) (verdict, string, error) {
	result, err := status.Compute(obj)
	if err != nil {
		return verdict{}, "", err
	}
	script, ok := h[healthKey(obj.GroupVersionKind())]
	if !ok {
		return verdict{}, "", fmt.Errorf("there is no health check for %s", obj.GetKind())
	}
	argo, message, err := runHealthCheck(script, obj.Object)
	return verdict{result.Status, argo}, message, err
}

// healthKey is where Argo CD looks for the check of a kind.
func healthKey(kind schema.GroupVersionKind) string {
	return fmt.Sprintf("resource.customizations.health.%s_%s", kind.Group, kind.Kind)
}

// argoStatuses are what Argo CD takes from a check; anything else is Unknown.
var argoStatuses = []string{"Unknown", "Progressing", "Healthy", "Suspended", "Degraded", "Missing"}

// argoLibraries are what Argo CD opens for a check, in its order, less its own cut
// of os.
var argoLibraries = []struct {
	name string
	open lua.LGFunction
}{{lua.LoadLibName, lua.OpenPackage}, {lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable}}

// runHealthCheck runs a script as Argo CD does (its package util/lua): the object
// is the global obj, and the script returns a table.
func runHealthCheck(script string, obj map[string]any) (health, message string, err error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for _, library := range argoLibraries {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(library.open), Protect: true}, lua.LString(library.name)); err != nil {
			return "", "", err
		}
	}
	state.SetGlobal("obj", luaValue(state, obj))
	if err := state.DoString(script); err != nil {
		return "", "", err
	}
	answer, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return "", "", fmt.Errorf("the check answers with %s", state.Get(-1).Type())
	}
	health = lua.LVAsString(answer.RawGetString("status"))
	if !slices.Contains(argoStatuses, health) {
		return "", "", fmt.Errorf("Argo CD has no status %q", health)
	}
	return health, lua.LVAsString(answer.RawGetString("message")), nil
}

// luaValue converts what JSON can hold.
func luaValue(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case bool:
		return lua.LBool(value)
	case string:
		return lua.LString(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	case []any:
		table := state.NewTable()
		for _, item := range value {
			table.Append(luaValue(state, item))
		}
		return table
	case map[string]any:
		table := state.NewTable()
		for name, item := range value {
			table.RawSetString(name, luaValue(state, item))
		}
		return table
	default:
		return lua.LNil
	}
}
