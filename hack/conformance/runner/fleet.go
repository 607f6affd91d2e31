package main

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

// box is a sandbox in the daemon's list.
type box struct {
	ID string `json:"sandbox_id"`
	// Name holds the UID of the object that it was made for.
	Name    string `json:"name"`
	Stopped *bool  `json:"stopped"`
	// Running is how many programs run in it.
	Running int `json:"exec_in_flight"`
}

// errNoStopped is of a row that would count as live or dead by chance (H09).
var errNoStopped = errors.New("a row of the daemon's list has no boolean stopped")

// readFleet are the live sandboxes of a list.
func readFleet(list json.RawMessage) ([]box, error) {
	var answer struct {
		Sandboxes []box `json:"sandboxes"`
	}
	if err := json.Unmarshal(list, &answer); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoStopped, err)
	}
	live := []box{}
	for _, b := range answer.Sandboxes {
		switch {
		case b.Stopped == nil:
			return nil, errNoStopped
		case !*b.Stopped:
			live = append(live, b)
		}
	}
	return live, nil
}

// fleet are all live sandboxes.
func (t *row) fleet() []box { return must(readFleet(must(t.try("sandbox::list", m{})))) }

func (t *row) boxIDs() []string {
	ids := []string{}
	for _, b := range t.fleet() {
		ids = append(ids, b.ID)
	}
	slices.Sort(ids)
	return ids
}

// leavesFleet expects the live sandboxes after an act to be those before. Only
// rows that run alone can say so.
func (t *row) leavesFleet(act func()) {
	before := t.boxIDs()
	act()
	t.Eventually(t.boxIDs).Should(Equal(before), "live sandboxes")
}

// grows expects exactly so many more sandboxes after an act.
func (t *row) grows(by int, act func()) {
	before := len(t.boxIDs())
	act()
	t.Expect(t.boxIDs()).To(HaveLen(before + by))
}

// boxesOf are the sandboxes of an object.
func (t *row) boxesOf(object client.Object) []string {
	ids := []string{}
	for _, b := range t.fleet() {
		if strings.Contains(b.Name, string(object.GetUID())) {
			ids = append(ids, b.ID)
		}
	}
	return ids
}

// boxOf is the one sandbox of an object.
func (t *row) boxOf(object client.Object) string {
	ids := t.boxesOf(object)
	t.Expect(ids).To(HaveLen(1), "sandboxes of %s", object.GetName())
	return ids[0]
}

// lose ends a sandbox behind the operator's back.
func (t *row) lose(id string) { t.call("sandbox::stop", m{"sandbox_id": id, "wait": true}) }

// running waits until a program runs in a sandbox.
func (t *row) running(id string) {
	t.Eventually(func() int {
		for _, b := range t.fleet() {
			if b.ID == id {
				return b.Running
			}
		}
		return 0
	}).ShouldNot(BeZero(), "running programs")
}

// kept is the object of a kept runtime.
func (t *row) kept(id string) *v1alpha1.SandboxRuntime {
	runtime := &v1alpha1.SandboxRuntime{}
	key := client.ObjectKey{Namespace: t.stack.RunsNamespace(), Name: keptName(id)}
	t.ok(t.kube.Get(t.ctx, key, runtime))
	return runtime
}

// runtimes are the names of all runtimes of callers on the bus.
func (t *row) runtimes() []string {
	var list v1alpha1.SandboxRuntimeList
	t.ok(t.kube.List(t.ctx, &list, client.InNamespace(t.stack.RunsNamespace())))
	names := []string{}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// keptRuntimes are the names of those that callers keep.
func (t *row) keptRuntimes() []string {
	return slices.DeleteFunc(t.runtimes(), func(name string) bool { return !strings.HasPrefix(name, "kept-") })
}

// function is the object of a published function.
func (t *row) function(id string) *v1alpha1.SandboxFunction {
	var list v1alpha1.SandboxFunctionList
	t.ok(t.kube.List(t.ctx, &list, client.InNamespace(t.stack.RunsNamespace())))
	for i := range list.Items {
		if list.Items[i].Spec.FunctionID == id {
			return &list.Items[i]
		}
	}
	panic(failure{"no SandboxFunction has the id " + id})
}

// runtimeOf is the runtime in which a published function is served.
func (t *row) runtimeOf(id string) *v1alpha1.SandboxRuntime {
	f, runtime := t.function(id), &v1alpha1.SandboxRuntime{}
	t.ok(t.kube.Get(t.ctx, client.ObjectKey{Namespace: f.Namespace, Name: f.Status.RuntimeName}, runtime))
	return runtime
}

// create makes an object that goes with the row.
func (t *row) create(object client.Object) {
	object.SetNamespace("default")
	t.ok(t.kube.Create(t.ctx, object))
	t.after(func(t *row) {
		t.ok(client.IgnoreNotFound(t.kube.Delete(t.ctx, object)))
		t.Eventually(func() error {
			return client.IgnoreNotFound(t.kube.Get(t.ctx, client.ObjectKeyFromObject(object), object))
		}).Should(Succeed())
	})
}

// backend are the calls that the daemon got during an act, without those that
// only look.
func (t *row) backend(act func()) []tapped {
	before := t.daemonTap.passed()
	act()
	looks := []string{"sandbox::list", "sandbox::catalog::list", "sandbox::fs::stat"}
	return slices.DeleteFunc(t.daemonTap.since(before), func(c tapped) bool { return slices.Contains(looks, c.Function) })
}

// names are the functions of calls, in order.
func names(calls []tapped) []string {
	ids := []string{}
	for _, c := range calls {
		ids = append(ids, c.Function)
	}
	return ids
}

// only are the calls of one function, as objects.
func only(calls []tapped, function string) []m {
	var found []m
	for _, c := range calls {
		var data m
		if c.Function == function && json.Unmarshal(c.Data, &data) == nil {
			found = append(found, data)
		}
	}
	return found
}

// execution is one start of the agent.
type execution struct {
	Argv      []string `json:"argv"`
	Stdin     string   `json:"stdin"`
	TimeoutMS int      `json:"timeout_ms"`
	SandboxID string   `json:"sandbox_id"`
	// Request is what the agent was asked.
	Request m `json:"-"`
}

// verb is the agent's subcommand.
func (e execution) verb() string {
	if len(e.Argv) < 2 {
		return ""
	}
	return e.Argv[1]
}

// executions are the starts of the agent among calls, of one subcommand unless
// it is empty.
func (t *row) executions(calls []tapped, verb string) []execution {
	var found []execution
	for _, c := range calls {
		if c.Function != "sandbox::exec" {
			continue
		}
		var e execution
		t.ok(json.Unmarshal(c.Data, &e))
		stdin := must(base64.StdEncoding.DecodeString(e.Stdin))
		if len(stdin) > 0 {
			t.ok(json.Unmarshal(stdin, &e.Request))
		}
		if verb == "" || e.verb() == verb {
			found = append(found, e)
		}
	}
	return found
}

// operatorLog is what the operator has said so far.
func (t *row) operatorLog() string {
	return string(must(os.ReadFile(t.stack.LogPath(stack.Operator))))
}

// takes is how long an act took.
func takes(act func()) time.Duration {
	began := time.Now()
	act()
	return time.Since(began)
}

// keptName is the object of a kept runtime: the id itself is nowhere, but whoever
// has it finds the object.
func keptName(id string) string {
	const digits = 32
	sum := sha256.Sum256([]byte(id))
	return "kept-" + base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").EncodeToString(sum[:])[:digits]
}
