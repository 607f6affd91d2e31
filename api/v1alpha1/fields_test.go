package v1alpha1_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Every field of every schema, in an object that is accepted as it is.
var _ = Describe("Every field", Ordered, ContinueOnFailure, func() {
	var namespace string
	BeforeAll(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	for _, k := range kinds {
		samples := sync.OnceValue(func() map[string]sample { return samplesOf(k) })

		// refused wants the API server to refuse a change of one field and to name it.
		refused := func(ctx SpecContext, s sample, change func(parent any, key any)) {
			GinkgoHelper()
			object := s.object.DeepCopy()
			parent, key := s.find(object.Object)
			change(parent, key)
			err := create(ctx, namespace, object)
			Expect(err).To(HaveOccurred(), s.path())
			Expect(err.Error()).To(ContainSubstring(s.path()))
		}

		It("of "+k.name+" has a sample", func() {
			paths := slices.Collect(maps.Keys(samples()))
			walk("spec", schemaOf(k).Properties["spec"], func(path string, _ apiextensionsv1.JSONSchemaProps) {
				Expect(paths).To(ContainElement(path))
			})
		})

		It("of "+k.name+" refuses another type and is named", func(ctx SpecContext) {
			for _, s := range samples() {
				refused(ctx, s, func(parent, key any) { put(parent, key, otherType(s.value)) })
			}
		})

		It("of "+k.name+" is as good as absent when it is null, and refused as an item", func(ctx SpecContext) {
			for _, s := range samples() {
				if _, ok := s.steps[len(s.steps)-1].(int); ok {
					refused(ctx, s, func(parent, key any) { put(parent, key, nil) })
					continue
				}
				null, absent := s.object.DeepCopy(), s.object.DeepCopy()
				parent, key := s.find(null.Object)
				put(parent, key, nil)
				parent, key = s.find(absent.Object)
				delete(parent.(map[string]any), key.(string))
				want := create(ctx, namespace, absent)
				Expect(fmt.Sprint(create(ctx, namespace, null))).To(Equal(fmt.Sprint(want)), s.path())
				if want == nil {
					Expect(null.Object["spec"]).To(Equal(absent.Object["spec"]), s.path())
				}
			}
		})

		It("of "+k.name+" refuses unknown fields in it and names them", func(ctx SpecContext) {
			for _, s := range samples() {
				fields, ok := s.value.(map[string]any)
				if !ok || s.schema.XPreserveUnknownFields != nil {
					continue
				}
				for _, unknown := range append(slices.Collect(maps.Keys(fields)), "x") {
					object := s.object.DeepCopy()
					parent, key := s.find(object.Object)
					// Names are told apart by case.
					unknown = strings.ToUpper(unknown[:1]) + unknown[1:]
					put(get(parent, key), unknown, "x")
					err := create(ctx, namespace, object)
					Expect(err).To(MatchError(ContainSubstring(fmt.Sprintf("unknown field %q", s.path()+"."+unknown))))
				}
			}
		})
	}
})

// create asks the API server for an object of a fixed name, as a dry run.
func create(ctx context.Context, namespace string, object *unstructured.Unstructured) error {
	object.SetNamespace(namespace)
	object.SetName("case")
	return apiClient.Create(ctx, object, client.DryRunAll)
}

// sample is a field in an object that is accepted.
type sample struct {
	object *unstructured.Unstructured
	steps  []any // names of fields and indices of items, from the top
	value  any
	schema apiextensionsv1.JSONSchemaProps
}

// path of the sample, as the API server writes it.
func (s sample) path() string {
	path := ""
	for _, step := range s.steps {
		if name, ok := step.(string); ok {
			path += "." + name
		} else {
			path += fmt.Sprintf("[%d]", step)
		}
	}
	return strings.TrimPrefix(path, ".")
}

// find returns what holds the field in a copy of the object, and its key there.
func (s sample) find(object any) (parent, key any) {
	for _, step := range s.steps[:len(s.steps)-1] {
		object = get(object, step)
	}
	return object, s.steps[len(s.steps)-1]
}

// samplesOf finds one sample of each field of a kind in the accepted rows of the table.
func samplesOf(k kind) map[string]sample {
	GinkgoHelper()
	found, schema := map[string]sample{}, schemaOf(k).Properties["spec"]
	for _, r := range table() {
		if r.kind != k || r.refused() || r.update {
			continue
		}
		object := k.object("", r.changes...)
		addSamples(found, "spec", sample{
			object: object, steps: []any{"spec"}, value: object.Object["spec"], schema: schema,
		})
	}
	return found
}

func addSamples(found map[string]sample, path string, s sample) {
	if _, ok := found[path]; !ok {
		found[path] = s
	}
	switch value := s.value.(type) {
	case map[string]any:
		for name, schema := range s.schema.Properties {
			if child, ok := value[name]; ok {
				addSamples(found, path+"."+name, s.below(name, child, schema))
			}
		}
	case []any:
		for i, item := range value {
			addSamples(found, path+"[]", s.below(i, item, *s.schema.Items.Schema))
		}
	}
}

func (s sample) below(step, value any, schema apiextensionsv1.JSONSchemaProps) sample {
	return sample{object: s.object, steps: append(slices.Clone(s.steps), step), value: value, schema: schema}
}

func get(parent, key any) any {
	if name, ok := key.(string); ok {
		return parent.(map[string]any)[name]
	}
	return parent.([]any)[key.(int)]
}

func put(parent, key, value any) {
	if name, ok := key.(string); ok {
		parent.(map[string]any)[name] = value
		return
	}
	parent.([]any)[key.(int)] = value
}

// otherType is a value of a type that a field with this value does not have. No
// field is of all of them.
func otherType(value any) any {
	if _, ok := value.(bool); ok {
		return "true"
	}
	return true
}
