package v1alpha1_test

import (
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// leading is what a field is called where a description begins.
var leading = regexp.MustCompile(`^[A-Za-z0-9]+`)

var _ = Describe("kubectl explain", func() {
	for _, k := range kinds {
		It("says what every field of "+k.name+" is, by its name", func() {
			for _, part := range []string{"spec", "status"} {
				walk(part, schemaOf(k).Properties[part], func(path string, schema apiextensionsv1.JSONSchemaProps) {
					if strings.HasSuffix(path, "[]") || strings.Contains(path, "conditions[].") {
						return
					}
					name := path[strings.LastIndex(path, ".")+1:]
					Expect(leading.FindString(schema.Description)).To(Equal(name), "%s: %s", path, schema.Description)
				})
			}
		})

		It("shows all fields of "+k.name+" at once", func(ctx SpecContext) {
			for _, part := range []string{"spec", "status"} {
				output := mustKubectl(ctx, "explain", "--recursive", strings.ToLower(k.name)+"."+part)
				for _, path := range fieldsOf(k, part) {
					name := path[strings.LastIndex(path, ".")+1:]
					Expect(output).To(MatchRegexp(`(?m)^ +`+name+`\t<`), path)
				}
			}
		})
	}

	DescribeTable("knows the short names, bounds, choices and what must be there", func(ctx SpecContext, path string, words ...string) {
		output := strings.Join(strings.Fields(mustKubectl(ctx, "explain", path)), " ")
		for _, word := range words {
			Expect(output).To(ContainSubstring(word))
		}
	},
		Entry("of a runtime", "sbr", "VERSION: v1alpha1", "SandboxRuntime is a set of like sandboxes", "spec <Object> -required-"),
		Entry("of a function", "sbf", "SandboxFunction is code that answers calls", "spec <Object> -required-"),
		Entry("of a run", "sbn", "SandboxRun is one short-lived execution", "spec <Object> -required-"),
		Entry("of a language", "sbr.spec.language", "ENUM: Node Python", "cannot be changed"),
		Entry("of an idle action", "sbr.spec.idle", "enum: Stop, Keep, Delete", "Defaults to Stop"),
		Entry("of an inline source", "sandboxfunctions.spec.source.inline", "131072 bytes"),
		Entry("of a trigger", "sbf.spec.triggers", "name <string> -required-", "type <string> -required-"),
		Entry("of a reference", "sbr.spec.env.valueFrom.secretKeyRef", "key <string> -required-", "name <string> -required-"),
		Entry("of a mode", "sbr.spec.files.mode", `"0644"`, "octal"),
	)
})
