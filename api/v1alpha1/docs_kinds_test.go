package v1alpha1_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// kindPages are the pages of the kinds.
var kindPages = map[kind]string{runtimeKind: "runtimes.md", functionKind: "functions.md", runKind: "runs.md"}

func pageOf(k kind) string {
	GinkgoHelper()
	return read(filepath.Join(repository, "docs", kindPages[k]))
}

// The page of a kind is whole when it has what the types and the controller have,
// and nothing else.
var _ = Describe("The page", func() {
	for _, k := range kinds {
		It("of "+k.name+" explains every field of the spec", func() {
			Expect(fieldsIn(section(pageOf(k), "Fields"))).To(ConsistOf(withWildcards(fieldsOf(k, "spec"), k)))
		})

		It("of "+k.name+" explains every field of the status", func() {
			Expect(fieldsIn(section(pageOf(k), "Status"))).To(ConsistOf(fieldsOf(k, "status")))
		})

		It("of "+k.name+" explains every condition", func() {
			Expect(cells(section(pageOf(k), "Status"), "Condition")).To(ConsistOf(
				slices.Collect(maps.Values(ofKind(k, constants("Condition"))))))
		})

		It("of "+k.name+" explains every reason that its controller gives", func() {
			all := constants("Reason")
			explained := cells(section(pageOf(k), "Reasons"), "Reason")
			for name := range given(k) {
				Expect(explained).To(ContainElement(all[name]))
			}
			for _, reason := range explained {
				Expect(slices.Collect(maps.Values(all))).To(ContainElement(reason))
			}
		})

		It("of "+k.name+" has an example and a list of failures", func() {
			ours, _ := objects(filepath.Join(repository, "docs", kindPages[k]))
			Expect(ours).To(ContainElement(ContainSubstring("kind: " + k.name + "\n")))
			Expect(strings.Count(section(pageOf(k), "Failures"), "\n|")).To(BeNumerically(">", 5))
		})
	}

	It("of some kind explains every reason that there is", func() {
		var explained []string
		for _, k := range kinds {
			explained = append(explained, cells(section(pageOf(k), "Reasons"), "Reason")...)
		}
		for name, reason := range constants("Reason") {
			Expect(explained).To(ContainElement(reason), name)
		}
	})
})

// section is the part of a page below a heading of the second level.
func section(page, heading string) string {
	GinkgoHelper()
	_, rest, found := strings.Cut(page, "\n## "+heading+"\n")
	Expect(found).To(BeTrue(), "the page has no section %s", heading)
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

var code = regexp.MustCompile("`([^`]+)`")

// cells are the words in code of the first column of the tables with that header.
func cells(text, header string) []string {
	GinkgoHelper()
	var found []string
	inside := false
	for line := range strings.SplitSeq(text, "\n") {
		columns := strings.Split(line, "|")
		if len(columns) < 3 {
			inside = false
			continue
		}
		if strings.TrimSpace(columns[1]) == header {
			inside = true
		}
		if inside {
			for _, match := range code.FindAllStringSubmatch(columns[1], -1) {
				found = append(found, match[1])
			}
		}
	}
	Expect(found).NotTo(BeEmpty(), "no table of %s", header)
	return found
}

// fieldsIn are the paths of the fields that a section's tables explain. One that
// begins with a dot is beside the one before it.
func fieldsIn(text string) []string {
	GinkgoHelper()
	var found []string
	for _, path := range cells(text, "Field") {
		if strings.HasPrefix(path, ".") {
			Expect(found).NotTo(BeEmpty(), path)
			last := found[len(found)-1]
			path = last[:strings.LastIndex(last, ".")+1] + path[1:]
		}
		found = append(found, path)
	}
	return found
}

// fieldsOf are the paths of the fields below spec or status. Those of a condition
// are Kubernetes' own.
func fieldsOf(k kind, part string) []string {
	GinkgoHelper()
	var paths []string
	walk(part, schemaOf(k).Properties[part], func(path string, _ apiextensionsv1.JSONSchemaProps) {
		path = strings.TrimPrefix(path, part+".")
		if path != part && !strings.HasSuffix(path, "[]") && !strings.HasPrefix(path, "conditions[].") {
			paths = append(paths, path)
		}
	})
	Expect(paths).NotTo(BeEmpty())
	return paths
}

// withWildcards puts runtime.* in the place of what the page of SandboxRuntime
// explains too.
func withWildcards(paths []string, k kind) []string {
	if k == runtimeKind {
		return paths
	}
	elsewhere := fieldsIn(section(pageOf(runtimeKind), "Fields"))
	rest := slices.DeleteFunc(paths, func(path string) bool {
		below, inRuntime := strings.CutPrefix(path, "runtime.")
		return inRuntime && slices.Contains(elsewhere, below)
	})
	return append(rest, "runtime.*")
}

// constants are the names and values of the constants whose name has that end.
func constants(end string) map[string]string {
	GinkgoHelper()
	file, err := parser.ParseFile(token.NewFileSet(), "conditions.go", nil, 0)
	Expect(err).NotTo(HaveOccurred())
	values := map[string]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if ok && strings.HasSuffix(spec.Names[0].Name, end) {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			Expect(err).NotTo(HaveOccurred())
			values[spec.Names[0].Name] = value
		}
		return true
	})
	Expect(values).NotTo(BeEmpty())
	return values
}

// ofKind leaves out the constants of other kinds, whose names begin with theirs.
func ofKind(k kind, all map[string]string) map[string]string {
	found := maps.Clone(all)
	maps.DeleteFunc(found, func(name, _ string) bool {
		owner := ""
		for _, other := range kinds {
			// SandboxRuntime begins like SandboxRun.
			if strings.HasPrefix(name, other.name) && len(other.name) > len(owner) {
				owner = other.name
			}
		}
		return owner != "" && owner != k.name
	})
	return found
}

// given are the reasons that the sources of a kind's controller name.
func given(k kind) map[string]bool {
	GinkgoHelper()
	files, err := filepath.Glob(filepath.Join(repository, "controllers", strings.ToLower(k.name), "*.go"))
	Expect(err).NotTo(HaveOccurred())
	all, found := constants("Reason"), map[string]bool{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		Expect(err).NotTo(HaveOccurred())
		ast.Inspect(file, func(node ast.Node) bool {
			if selector, ok := node.(*ast.SelectorExpr); ok && all[selector.Sel.Name] != "" {
				found[selector.Sel.Name] = true
			}
			return true
		})
	}
	Expect(found).NotTo(BeEmpty())
	return found
}
