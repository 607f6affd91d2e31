package v1alpha1_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// yamlBlock is a fenced block that is marked as YAML.
var yamlBlock = regexp.MustCompile("(?ms)^```ya?ml$(.*?)\n```$")

// separator is between the objects of a block.
var separator = regexp.MustCompile(`(?m)^---$`)

// foreign are the kinds of others that a page may show. This API server does not
// know them; hack/e2e applies such objects to the real ones.
var foreign = []string{"kustomize.toolkit.fluxcd.io/v1 Kustomization"}

// objects are the YAML objects that a page shows, each of ours and of the core as
// text, each of others as its kind.
func objects(page string) (ours, others []string) {
	GinkgoHelper()
	for _, block := range yamlBlock.FindAllStringSubmatch(read(page), -1) {
		for _, text := range separator.Split(block[1], -1) {
			var object metav1.TypeMeta
			Expect(yaml.Unmarshal([]byte(text), &object)).To(Succeed(), "%s:\n%s", page, text)
			group := object.GroupVersionKind().Group
			if group == "" || group == v1alpha1.GroupVersion.Group {
				ours = append(ours, text)
			} else {
				others = append(others, object.APIVersion+" "+object.Kind)
			}
		}
	}
	return ours, others
}

// pages are the README and everything below docs.
func pages() []string {
	GinkgoHelper()
	found, err := filepath.Glob(filepath.Join(repository, "docs", "*.md"))
	Expect(err).NotTo(HaveOccurred())
	Expect(found).NotTo(BeEmpty())
	return append(found, filepath.Join(repository, "README.md"))
}

func read(path string) string {
	GinkgoHelper()
	content, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	return string(content)
}

var _ = Describe("docs", func() {
	It("show only YAML that the API server accepts", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		checked, elsewhere := 0, []string{}
		for _, page := range pages() {
			ours, others := objects(page)
			for _, text := range ours {
				By(page + ":\n" + text)
				file := filepath.Join(GinkgoT().TempDir(), "object.yaml")
				Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
				mustKubectl(ctx, "apply", "--dry-run=server", "--validate=strict", "--namespace", namespace, "-f", file)
				checked++
			}
			elsewhere = append(elsewhere, others...)
		}
		Expect(checked).To(BeNumerically(">=", 4), "the kinds' pages have an example each")
		slices.Sort(elsewhere)
		Expect(slices.Compact(elsewhere)).To(Equal(foreign), "kinds that nothing here checks")
	})

	It("link to pages and headings that exist", func() {
		link := regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)
		for _, page := range pages() {
			for _, match := range link.FindAllStringSubmatch(prose(read(page)), -1) {
				target := page
				if match[1] != "" {
					target = filepath.Join(filepath.Dir(page), match[1])
				}
				Expect(target).To(BeAnExistingFile(), "%s links to %s", page, match[1])
				if match[2] != "" {
					Expect(anchors(read(target))).To(ContainElement(match[2]), "%s links to %s#%s", page, match[1], match[2])
				}
			}
		}
	})
})

// prose is a page without its code.
func prose(page string) string {
	return regexp.MustCompile("(?ms)^```.*?\n```$|`[^`\n]*`").ReplaceAllString(page, "")
}

// anchors are the fragments that a page's headings get.
func anchors(page string) []string {
	var found []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		text := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		found = append(found, strings.ReplaceAll(text, " ", "-"))
	}
	return found
}
