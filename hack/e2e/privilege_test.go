package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// unused are grants that nothing uses with config/default, each with the reason
// why it stays.
var unused = map[string]string{
	"ClusterRole/sandbox-operator-manager-role: update sandboxfunctions/finalizers.sandbox.iii.dev": "clusters with the admission plugin OwnerReferencesPermissionEnforcement, " +
		"such as OpenShift, ask for it when a runtime or ConfigMap is made that blocks the deletion of its function",
	"ClusterRole/sandbox-operator-manager-role: get sandboxruns.sandbox.iii.dev": "the program of a run that comes to the bus sooner than " +
		"the run's attempt comes into the cache is looked up past it",
	"ClusterRole/sandbox-operator-manager-role: patch events.events.k8s.io": "an event that repeats within six minutes becomes a series",
	ownRole + ": get configmaps": "with config/namespaced, whose spec sees it used, the ClusterRole is not there",
	ownRole + ": get secrets":    "with config/namespaced, whose spec sees it used, the ClusterRole is not there",
}

const (
	ownRole     = "Role/sandbox-operator-leader-election-role"
	managerRole = "sandbox-operator-manager-role"
	session     = "sandbox-operator-bus-session"
	system      = "sandbox-operator-system"
)

var _ = Describe("The operator's rights", func() {
	It("are as wide as what it uses, and no wider", func(ctx SpecContext) {
		stopOperators(ctx)
		DeferCleanup(func(ctx SpecContext) {
			if running.PID(stack.Operator) == 0 {
				restart(ctx, stack.Operator)
			}
		}, NodeTimeout(startPatience))
		// As in a new installation.
		kubectl(ctx, "delete", "-n", system, "--ignore-not-found", "lease/sandbox-operator.sandbox.iii.dev", "secret/"+session)
		restart(ctx, stack.Operator)
		begin := auditSize()
		kubectl(ctx, "delete", "-n", system, "secret/"+session)
		startReplicas(ctx)
		// As after an upgrade from before there were credentials for guests.
		Expect(running.StopPart(ctx, stack.Standby)).To(Succeed())
		kubectl(ctx, "patch", "-n", system, "secret", session, "--type=json", `--patch=[{"op":"remove","path":"/data/guest-key"}]`)
		restart(ctx, stack.Standby)
		useEverything(ctx, newNamespace(ctx), "e2e-rights")

		requests := requestsSince(begin)
		Expect(deniedOf(requests)).To(BeEmpty(), "denied")
		Expect(idleGrants(rolesOf(ctx, "config/default"), append(firstStart(), requests...))).To(BeEmpty(), "grants that nothing used")
		expectSecretsByName(requests)
	}, leaderPatience)

	It("end at the watched namespaces with config/namespaced", func(ctx SpecContext) {
		begin := watchOnly(ctx, metav1.NamespaceDefault)
		elsewhere := newFunction(newNamespace(ctx), "elsewhere", v1alpha1.LanguageNode, nodeEcho)
		apply(ctx, elsewhere)
		DeferCleanup(emptyNamespace, metav1.NamespaceDefault, specPatience)
		// Which sweeps without the right to read elsewhere, too.
		useEverything(ctx, metav1.NamespaceDefault, "e2e-watched")
		expectAgreement(ctx)

		refresh(ctx, elsewhere)
		Expect(elsewhere.Status.Conditions).To(BeEmpty())
		Expect(elsewhere.Finalizers).To(BeEmpty())
		requests := requestsSince(begin)
		Expect(deniedOf(requests)).To(BeEmpty(), "denied")
		expectSecretsByName(requests)
		Expect(usedGrants(requests)).To(And(HaveKey(ownRole+": get configmaps"), HaveKey(ownRole+": get secrets")))
		watched := BeElementOf(metav1.NamespaceDefault, running.RunsNamespace(), system)
		for _, r := range requests {
			if r.ObjectRef.Resource != "" {
				Expect(r.ObjectRef.Namespace).To(watched, r.String())
			}
		}
	}, leaderPatience)
})

// expectSecretsByName checks that nobody who reads the log of the API server
// finds the operator reading Secrets that no object names.
func expectSecretsByName(requests []request) {
	GinkgoHelper()
	for _, r := range requests {
		if r.ObjectRef.Resource == "secrets" {
			Expect(r.Verb).NotTo(BeElementOf("list", "watch"), r.String())
		}
	}
}

// usedGrants are what requests used, as role: grant.
func usedGrants(requests []request) map[string]bool {
	used := map[string]bool{}
	for _, r := range requests {
		used[r.role()+": "+r.grant()] = true
	}
	return used
}

// idleGrants are those that no request used, and that have no reason to be there
// all the same.
func idleGrants(roles []manifestRole, requests []request) []string {
	used := usedGrants(requests)
	idle := []string{}
	for _, role := range roles {
		for _, g := range role.grants() {
			name := fmt.Sprintf("%s/%s: %s", role.Kind, role.Metadata.Name, g)
			if !used[name] && unused[name] == "" {
				idle = append(idle, name)
			}
		}
	}
	return sorted(idle)
}

// firstStart is how the operator made its identity, which no later start repeats: it
// is by that object's uid that the operator knows its sandboxes.
func firstStart() []request {
	GinkgoHelper()
	return slices.DeleteFunc(requestsSince(0), func(r request) bool {
		return r.Verb != "create" || r.ObjectRef.Resource != "configmaps" || r.ObjectRef.Namespace != system
	})
}

// watchOnly has the operator run with the rights of config/namespaced until the
// end of the spec. What it asks for from then on begins in the log at begin.
func watchOnly(ctx context.Context, namespaces string) (begin int64) {
	GinkgoHelper()
	whole := documentsOf(render(ctx, "config/default"), managerRole, "ClusterRole", "ClusterRoleBinding")
	Expect(whole).To(HaveLen(2), "a ClusterRole and its binding")
	parts := documentsOf(render(ctx, "config/namespaced"), "-manager-role", "Role", "RoleBinding")
	Expect(documentsOf(render(ctx, "config/namespaced"), "-manager-role", "ClusterRole", "ClusterRoleBinding")).To(BeEmpty())
	Expect(parts).To(HaveLen(4), "a Role and its binding for each of two namespaces")
	change := func(ctx context.Context, verb string, documents []string) {
		GinkgoHelper()
		printed, err := tryKubectl(ctx, strings.Join(documents, "\n---\n"), verb, "-f", "-")
		Expect(err).NotTo(HaveOccurred(), printed)
	}
	stopOperators(ctx)
	DeferCleanup(func(ctx SpecContext) {
		stopOperators(ctx)
		change(ctx, "apply", whole)
		change(ctx, "delete", parts)
		running.SetOperatorFlags()
		restart(ctx, stack.Operator)
	}, NodeTimeout(startPatience))
	change(ctx, "apply", parts)
	change(ctx, "delete", whole)
	// The end of a watch may be logged after the end of who watched.
	begin = quietAudit(ctx)
	running.SetOperatorFlags("--watch-namespaces=" + namespaces)
	restart(ctx, stack.Operator)
	Eventually(ctx, functionsOnBus).Should(ContainElement(runFunction))
	return begin
}

// useEverything does what makes the operator use each of its rights: functions
// and runs of every kind, from Kubernetes and from the bus.
func useEverything(ctx context.Context, namespace, prefix string) {
	GinkgoHelper()
	settings := object(&corev1.Secret{}, namespace, "settings")
	settings.StringData = map[string]string{"mode": "secret-mode-of-the-scenario"}
	Expect(kube.Create(ctx, settings)).To(Succeed())
	code := object(&corev1.ConfigMap{}, namespace, "scenario-code")
	code.Data = map[string]string{"main.js": nodeEcho}
	Expect(kube.Create(ctx, code)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(kube.Delete(ctx, settings)).To(Succeed())
		Expect(kube.Delete(ctx, code)).To(Succeed())
	}, specPatience)
	useFunctions(ctx, namespace)
	useRuns(ctx, namespace)
	useBus(ctx, prefix)
	useSweep(ctx)
}

func useFunctions(ctx context.Context, namespace string) {
	GinkgoHelper()
	shared := newFunction(namespace, "shared", v1alpha1.LanguageNode, "")
	shared.Spec.Source = v1alpha1.FunctionSource{ConfigMapKeyRef: &v1alpha1.KeyReference{Name: "scenario-code", Key: "main.js"}}
	own := newFunction(namespace, "own", "", nodeEcho)
	own.Spec.Runtime = &v1alpha1.FunctionRuntime{Language: v1alpha1.LanguageNode}
	own.Spec.Runtime.Env = []v1alpha1.EnvVar{{Name: "MODE", ValueFrom: &v1alpha1.KeySource{
		SecretKeyRef: &v1alpha1.KeyReference{Name: "settings", Key: "mode"},
	}}}
	for _, f := range []*v1alpha1.SandboxFunction{shared, own} {
		apply(ctx, f)
		waitFor(ctx, f, "Ready", "sbf")
		Expect(call(ctx, f.Spec.FunctionID, 1)).To(Equal("1"))
	}
	kubectl(ctx, "delete", "-n", namespace, "sbf/shared", "sbf/own", "--timeout=40s")
	Eventually(ctx, func() ([]v1alpha1.SandboxRuntime, error) {
		left := &v1alpha1.SandboxRuntimeList{}
		err := kube.List(ctx, left, client.InNamespace(namespace))
		return left.Items, err
	}).Should(BeEmpty(), "runtimes that no function uses")
}

func useRuns(ctx context.Context, namespace string) {
	GinkgoHelper()
	good := newRun(namespace, "good", v1alpha1.LanguagePython, "print('good')")
	good.Spec.TTLSecondsAfterFinished = ptr.To[int32](1)
	bad := newRun(namespace, "bad", v1alpha1.LanguagePython, "raise SystemExit(3)")
	apply(ctx, good)
	apply(ctx, bad)
	Eventually(ctx, condition(bad, "Failed")).Should(beTrue("NonZeroExitCode"))
	Eventually(ctx, func() error { return kube.Get(ctx, client.ObjectKeyFromObject(good), good) }).Should(MatchError(ContainSubstring("not found")))
}

func useBus(ctx context.Context, prefix string) {
	GinkgoHelper()
	Expect(runOnBus(ctx, m{"lang": "python", "code": "print('good')"}).Stdout).To(Equal("good\n"))
	kept := keepRuntime(ctx, "python", "open('note', 'w').write('kept')")
	Expect(runOnBus(ctx, m{"runtime_id": kept, "code": "print(open('note').read())"}).Stdout).To(Equal("kept\n"))
	Expect(call(ctx, teardownFunction, m{"runtime_id": kept})).To(ContainSubstring(`"torn_down":true`))
	// Too large for the object itself.
	large := "# " + strings.Repeat("x", 200<<10) + "\ndef handler(payload):\n    return "
	registerOnBus(ctx, prefix+"::large", "python", large+"5\n")
	Expect(call(ctx, prefix+"::large", m{})).To(Equal("5"))
	call(ctx, registerFunction, m{"function_id": prefix + "::large", "lang": "python", "source": large + "6\n", "replace": true})
	Eventually(ctx, answers(prefix+"::large", m{})).Should(Equal("6"))
	Expect(call(ctx, teardownFunction, m{"namespace": prefix})).To(ContainSubstring(prefix + "::large"))
}

// useSweep leaves a sandbox that no object speaks of. Before the operator destroys
// it, it asks the API server itself, which it does at no other time.
func useSweep(ctx context.Context) {
	GinkgoHelper()
	orphan := makeSandbox(ctx, sandbox.Marker{Operator: operatorID(ctx), Object: "no-such-object", Nonce: sandbox.NewNonce()}.String())
	Eventually(ctx, exist([]string{orphan})).Should(BeZero(), "a sandbox that no object speaks of")
}
