package v1alpha1_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// constraint is one thing that a schema forbids.
type constraint struct {
	// path of the field, such as spec.env[].name.
	path string
	// sort is the keyword of the schema that says so.
	sort string
	// bound is the keyword's value, as the API server prints it; the message of a
	// rule.
	bound string
	// stays says that the rule is about changes.
	stays bool
}

func (c constraint) String() string { return fmt.Sprintf("%s: %s %q", c.path, c.sort, c.bound) }

// schemaOf is the schema of a kind, as it is generated from the types.
func schemaOf(k kind) *apiextensionsv1.JSONSchemaProps {
	GinkgoHelper()
	file := "sandbox.iii.dev_" + strings.ToLower(k.name) + "s.yaml"
	content, err := os.ReadFile(filepath.Join(configDirectory, "crd", "bases", file))
	Expect(err).NotTo(HaveOccurred())
	var crd apiextensionsv1.CustomResourceDefinition
	Expect(yaml.Unmarshal(content, &crd)).To(Succeed())
	Expect(crd.Spec.Versions).To(HaveLen(1))
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// constraintsOf are all constraints of the spec of a kind.
func constraintsOf(k kind) []constraint {
	GinkgoHelper()
	var all []constraint
	walk("spec", schemaOf(k).Properties["spec"], func(path string, schema apiextensionsv1.JSONSchemaProps) {
		all = append(all, constraintsAt(path, schema)...)
	})
	Expect(all).NotTo(BeEmpty())
	return all
}

// walk visits a schema and everything below it.
func walk(path string, schema apiextensionsv1.JSONSchemaProps, visit func(string, apiextensionsv1.JSONSchemaProps)) {
	visit(path, schema)
	for name, property := range schema.Properties {
		walk(path+"."+name, property, visit)
	}
	if schema.Items != nil {
		walk(path+"[]", *schema.Items.Schema, visit)
	}
}

func constraintsAt(path string, schema apiextensionsv1.JSONSchemaProps) []constraint {
	var all []constraint
	add := func(path, sort, bound string) {
		all = append(all, constraint{path: path, sort: sort, bound: bound})
	}
	number := func(sort string, bound *int64) {
		if bound != nil {
			add(path, sort, fmt.Sprint(*bound))
		}
	}
	limit := func(sort string, bound *float64) {
		if bound != nil {
			add(path, sort, fmt.Sprint(int64(*bound)))
		}
	}
	number("minLength", schema.MinLength)
	number("maxLength", schema.MaxLength)
	number("maxItems", schema.MaxItems)
	limit("minimum", schema.Minimum)
	limit("maximum", schema.Maximum)
	// The API server gives whole quantities a pattern of its own.
	if schema.Pattern != "" && !schema.XIntOrString {
		add(path, "pattern", schema.Pattern)
	}
	for _, value := range schema.Enum {
		add(path, "enum", strings.Trim(string(value.Raw), `"`))
	}
	for _, name := range schema.Required {
		add(path+"."+name, "required", name)
	}
	if schema.XListType != nil && *schema.XListType != "atomic" {
		add(path, "unique", *schema.XListType)
	}
	for _, rule := range schema.XValidations {
		all = append(all, constraint{path: path + rule.FieldPath, sort: "rule", bound: rule.Message, stays: strings.Contains(rule.Rule, "oldSelf")})
	}
	return all
}
