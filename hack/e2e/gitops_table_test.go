package e2e

import (
	"os"
	"strings"
	"testing"

	ssautils "github.com/fluxcd/pkg/ssa/utils"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// judged is what the tools say of a recorded object, and what people then read in
// Argo CD.
type judged struct {
	verdict
	Message string
}

const (
	notSeen  = "the operator has not looked at this generation yet"
	deleting = "the object is being deleted"
)

// wantJudged is keyed by the kind and the state of the recorded object.
var wantJudged = map[string]judged{
	"SandboxRuntime/new":            {comingUp, notSeen},
	"SandboxRuntime/booting":        {comingUp, "sandboxes are being made"},
	"SandboxRuntime/waiting":        {comingUp, `spec.env TOKEN: Secret "absent" does not exist`},
	"SandboxRuntime/ready":          {healthy, "all sandboxes take calls"},
	"SandboxRuntime/changed":        {comingUp, notSeen},
	"SandboxRuntime/stopping":       {comingUp, "sandboxes are being stopped"},
	"SandboxRuntime/suspended":      {suspended, "the runtime is suspended and has no sandbox"},
	"SandboxRuntime/resumed":        {comingUp, notSeen},
	"SandboxRuntime/scaled-to-zero": {healthy, "the runtime is scaled to zero"},
	"SandboxRuntime/idle":           {healthy, "nobody called and the sandboxes were stopped; the next call boots one"},
	"SandboxRuntime/stalled":        {broken, "the sandbox daemon does not offer the image; name one of its catalog and allowlist"},
	"SandboxRuntime/deleted":        {goingAway, deleting},
	"SandboxRuntime/deleting":       {goingAway, deleting},

	"SandboxFunction/new":           {comingUp, notSeen},
	"SandboxFunction/waiting":       {comingUp, "spec.runtimeRef: SandboxRuntime later does not exist"},
	"SandboxFunction/runtime-boots": {comingUp, "SandboxRuntime later boots a sandbox"},
	"SandboxFunction/planting":      {comingUp, "the source is being put in place and checked"},
	"SandboxFunction/unconfirmed":   {comingUp, "the engine has not confirmed the function yet"},
	"SandboxFunction/ready":         {healthy, "the function answers on the bus"},
	"SandboxFunction/changed":       {comingUp, notSeen},
	"SandboxFunction/changing":      {comingUp, "the source is being put in place and checked"},
	"SandboxFunction/suspended":     {suspended, "the function is suspended and not on the bus"},
	"SandboxFunction/stalled":       {broken, "spec.source: line 1: SyntaxError: Unexpected identifier 'to'"},
	"SandboxFunction/corrected":     {comingUp, notSeen},
	"SandboxFunction/deleting":      {goingAway, deleting},

	"SandboxRun/new":        {comingUp, notSeen},
	"SandboxRun/waiting":    {comingUp, `spec: SandboxRuntime "absent" does not exist`},
	"SandboxRun/running":    {comingUp, "the program runs"},
	"SandboxRun/completed":  {healthy, "the program exited with 0"},
	"SandboxRun/failed":     {broken, "the program exited with another code than 0; see status.exitCode"},
	"SandboxRun/cancelling": {comingUp, notSeen},
	"SandboxRun/cancelled":  {broken, "the run was cancelled"},
	"SandboxRun/deleting":   {goingAway, deleting},
}

func TestHealthChecks_judge(t *testing.T) {
	checks, err := readHealthChecks()
	if err != nil {
		t.Fatal(err)
	}
	if len(checks) != len(sandboxKinds) {
		t.Errorf("there are %d checks for %d kinds", len(checks), len(sandboxKinds))
	}
	got := map[string]judged{}
	for _, object := range readStates(t) {
		name := object.GetKind() + "/" + object.GetName()
		found, message, err := checks.judge(object)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got[name] = judged{found, message}
	}
	if diff := cmp.Diff(wantJudged, got, cmp.AllowUnexported(judged{})); diff != "" {
		t.Error(diff)
	}
}

func TestRunHealthCheck_refuses(t *testing.T) {
	for name, tc := range map[string]struct{ script, want string }{
		"a status that Argo CD has not": {`return { status = "Ready" }`, `no status "Ready"`},
		"an answer that is no table":    {`return "Healthy"`, "string"},
		"a library that is not there":   {`return io.open("/etc/passwd")`, "nil"},
		"a script that does not parse":  {`return {`, "syntax error"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := runHealthCheck(tc.script, map[string]any{}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// readStates reads the recorded objects.
func readStates(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	file, err := os.Open("testdata/gitops_states.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	objects, err := ssautils.ReadObjects(file)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}
