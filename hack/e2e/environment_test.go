package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

var _ = Describe("Telemetry of guests", func() {
	const source = "export const handler = () => process.env.OTEL_ENABLED;\n"
	DescribeTable("is the user's choice", func(ctx SpecContext, env []v1alpha1.EnvVar, want string) {
		namespace := newNamespace(ctx)
		runtime := newRuntime(namespace, "telling", v1alpha1.LanguageNode)
		runtime.Spec.Env = env
		apply(ctx, runtime)
		f := newFunction(namespace, "telemetry", "", source)
		f.Spec.RuntimeRef = &v1alpha1.LocalReference{Name: runtime.Name}
		apply(ctx, f)
		waitFor(ctx, f, "Ready", "sbf")
		Expect(call(ctx, f.Spec.FunctionID, m{})).To(MatchJSON(`"` + want + `"`))

		run := newRun(namespace, "telemetry", v1alpha1.LanguagePython, "import os\nprint(os.environ['OTEL_ENABLED'], end='')")
		run.Spec.Runtime = &v1alpha1.GuestSpec{Env: env}
		apply(ctx, run)
		waitFor(ctx, run, "Complete", "sbn")
		Expect(run.Status.Stdout).To(Equal(want))
	},
		Entry("which is off by default", specPatience, nil, "false"),
		Entry("and on if the runtime says so", specPatience, []v1alpha1.EnvVar{variable("OTEL_ENABLED", "true")}, "true"),
	)
})
