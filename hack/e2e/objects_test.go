package e2e

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// The shortest handlers.
const (
	nodeEcho   = "export function handler(payload) { return payload; }\n"
	pythonEcho = "def handler(payload, context):\n    return payload\n"
)

// newFunction describes PREFIX::NAME in the namespace of the same name.
func newFunction(namespace, name string, language v1alpha1.Language, source string) *v1alpha1.SandboxFunction {
	f := object(&v1alpha1.SandboxFunction{}, namespace, name)
	f.Spec = v1alpha1.SandboxFunctionSpec{
		FunctionID: namespace + "::" + name, Language: language,
		Source:              v1alpha1.FunctionSource{Inline: &source},
		TimeoutMilliseconds: ptr.To[int32](30_000),
	}
	return f
}

func newRun(namespace, name string, language v1alpha1.Language, source string) *v1alpha1.SandboxRun {
	r := object(&v1alpha1.SandboxRun{}, namespace, name)
	r.Spec = v1alpha1.SandboxRunSpec{
		Language: language, Source: v1alpha1.RunSource{Inline: &source},
		TimeoutMilliseconds: ptr.To[int32](30_000),
	}
	return r
}

func newRuntime(namespace, name string, language v1alpha1.Language) *v1alpha1.SandboxRuntime {
	r := object(&v1alpha1.SandboxRuntime{}, namespace, name)
	r.Spec = v1alpha1.SandboxRuntimeSpec{Language: language}
	return r
}

func inRuntime(run *v1alpha1.SandboxRun, runtime string) *v1alpha1.SandboxRun {
	run.Spec.RuntimeRef = &v1alpha1.LocalReference{Name: runtime}
	return run
}

// prefixOf is the first segment of a function id.
func prefixOf(functionID string) string {
	prefix, _, _ := strings.Cut(functionID, "::")
	return prefix
}

func manifestOfList(list client.ObjectList) string {
	GinkgoHelper()
	text, err := yaml.Marshal(list)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}
