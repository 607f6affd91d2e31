package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

const (
	// brokenVersion of every package cannot be installed, and prints a Secret.
	brokenVersion = "9.0.0"
	// installToken is that Secret.
	installToken = "hunter2-of-the-registry"
	// installPatience bounds a spec in which three sandboxes install packages.
	installPatience = NodeTimeout(6 * time.Minute)
	// installWait bounds one installation.
	installWait = 2 * time.Minute
)

// publishPackages fills the index: two good versions of each package and a broken
// one.
func publishPackages(index *packageIndex) {
	GinkgoHelper()
	for _, version := range []string{"1.0.0", "2.0.0"} {
		index.publishNPM("e2e-prices", version, fmt.Sprintf("export const version = %q;\n", version), "")
		index.publishWheel("e2e_prices", version, fmt.Sprintf("version = %q\n", version))
	}
	index.publishNPM("e2e-prices", brokenVersion, "", `echo "cannot build with $INSTALL_TOKEN" >&2; exit 3`)
	index.publishSource("e2e_prices", brokenVersion, "import os\nraise SystemExit('cannot build with ' + os.environ['INSTALL_TOKEN'])\n")
}

// packagesCase is one language's way to packages.
type packagesCase struct {
	language v1alpha1.Language
	// requirement has a place for the version.
	requirement, source string
	env                 func() []v1alpha1.EnvVar
}

// gateway is where a guest finds its host; pip has to be told that it may go there
// without TLS.
const gateway = "100.96.0.1"

var packagesCases = map[string]packagesCase{
	"npm": {
		language: v1alpha1.LanguageNode, requirement: "e2e-prices@%s",
		source: "import { version } from 'e2e-prices';\nexport const handler = () => version;\n",
		env:    func() []v1alpha1.EnvVar { return []v1alpha1.EnvVar{variable("npm_config_registry", packages.npmURL())} },
	},
	"pip": {
		language: v1alpha1.LanguagePython, requirement: "e2e-prices==%s",
		source: "from e2e_prices import version\ndef handler(payload):\n    return version\n",
		env: func() []v1alpha1.EnvVar {
			return []v1alpha1.EnvVar{variable("PIP_INDEX_URL", packages.pipURL()), variable("PIP_TRUSTED_HOST", gateway)}
		},
	},
}

func variable(name, value string) v1alpha1.EnvVar { return v1alpha1.EnvVar{Name: name, Value: &value} }

// runtime describes a runtime with one version of the package.
func (c packagesCase) runtime(namespace, version string) *v1alpha1.SandboxRuntime {
	runtime := newRuntime(namespace, "equipped", c.language)
	runtime.Spec.Network = v1alpha1.AccessEnabled
	runtime.Spec.Env = append(c.env(), v1alpha1.EnvVar{Name: "INSTALL_TOKEN", ValueFrom: &v1alpha1.KeySource{
		SecretKeyRef: &v1alpha1.KeyReference{Name: "registry", Key: "token"},
	}})
	runtime.Spec.Packages = []string{c.required(version)}
	return runtime
}

func (c packagesCase) required(version string) string { return fmt.Sprintf(c.requirement, version) }

var _ = Describe("Packages from a registry", func() {
	DescribeTable("are there for functions, and follow a change of the version without a failed call", func(ctx SpecContext, installer string) {
		c, namespace := packagesCases[installer], newNamespace(ctx)
		storeInstallToken(ctx, namespace)
		apply(ctx, c.runtime(namespace, "1.0.0"))
		f := newFunction(namespace, "version", "", c.source)
		f.Spec.RuntimeRef = &v1alpha1.LocalReference{Name: "equipped"}
		apply(ctx, f)
		Eventually(ctx, condition(f, "Ready")).WithTimeout(installWait).Should(beTrue("Ready"))
		Expect(call(ctx, f.Spec.FunctionID, m{})).To(MatchJSON(`"1.0.0"`))

		By("rolling over to another version under calls")
		stop := callMeanwhile(ctx, f.Spec.FunctionID)
		apply(ctx, c.runtime(namespace, "2.0.0"))
		Eventually(ctx, answers(f.Spec.FunctionID, m{})).WithTimeout(installWait).Should(MatchJSON(`"2.0.0"`))
		Expect(stop()).To(HaveEach(Or(MatchJSON(`"1.0.0"`), MatchJSON(`"2.0.0"`))))

		By("keeping what works when a version cannot be installed")
		runtime := c.runtime(namespace, brokenVersion)
		apply(ctx, runtime)
		Eventually(ctx, condition(runtime, "Ready")).WithTimeout(installWait).Should(be(metav1.ConditionFalse, "PackagesFailed", And(
			ContainSubstring("spec.packages "+c.required(brokenVersion)), ContainSubstring("cannot build with [redacted]"))))
		Expect(runtime.Status.ReadyReplicas).To(BeEquivalentTo(1), "the old sandbox goes on")
		Expect(call(ctx, f.Spec.FunctionID, m{})).To(MatchJSON(`"2.0.0"`))
	},
		Entry("of npm", installPatience, "npm"),
		Entry("of pip", installPatience, "pip"),
	)

	DescribeTable("that are not there are named", func(ctx SpecContext, installer string) {
		c, namespace := packagesCases[installer], newNamespace(ctx)
		storeInstallToken(ctx, namespace)
		runtime := c.runtime(namespace, "1.0.0")
		runtime.Spec.Packages = append(runtime.Spec.Packages, "e2e-absent")
		apply(ctx, runtime)
		Eventually(ctx, condition(runtime, "Ready")).WithTimeout(installWait).Should(
			be(metav1.ConditionFalse, "PackagesFailed", ContainSubstring("spec.packages e2e-absent: exited with 1")))
	},
		Entry("by npm", installPatience, "npm"),
		Entry("by pip", installPatience, "pip"),
	)
})

func storeInstallToken(ctx context.Context, namespace string) {
	GinkgoHelper()
	observed.addSecret(installToken)
	secret := object(&corev1.Secret{}, namespace, "registry")
	secret.StringData = map[string]string{"token": installToken}
	Expect(kube.Create(ctx, secret)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(kube.Delete(ctx, secret))).To(Succeed()) }, specPatience)
}

// callMeanwhile calls a function one time after another until stop, which returns
// what was said: answers, and what went wrong.
func callMeanwhile(ctx context.Context, function string) (stop func() []string) {
	calling, cancel := context.WithCancel(ctx)
	var said []string
	var calls sync.WaitGroup
	calls.Go(func() {
		defer GinkgoRecover()
		for calling.Err() == nil {
			answer, err := tryCall(ctx, function, m{})
			if err != nil {
				answer = fmt.Appendf(nil, "%q", strings.TrimSpace(err.Error()))
			}
			said = append(said, string(answer))
		}
	})
	return func() []string {
		cancel()
		calls.Wait()
		return said
	}
}
