package e2e

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// programs are the make targets that start something whole. What they do is
// proved where they run: in .ci/run, or in the tests of their programs.
var programs = []string{
	"demo", "dev", "test", "deploy", "build", "verify", "lint",
	"bench", "bench-bus", "bench-sandbox", "bench-scale", "conformance-bus", "conformance-sandbox", "conformance-runner",
	"chaos", "e2e-flux",
}

// needs are pages whose commands a reader has followed before.
var needs = map[string]string{
	"docs/runs.md":    "docs/runtimes.md",
	"docs/runbook.md": "README.md",
}

// withStackOfTheirOwn take the operator out of the cluster.
var withStackOfTheirOwn = []string{"docs/runbook.md"}

// withEngineOfTheirOwn start a worker whose name the stack's own already has.
var withEngineOfTheirOwn = []string{"docs/sandbox.md"}

// withArgoConfig are for users who have Argo CD.
var withArgoConfig = []string{"docs/gitops.md"}

// withoutCommands have nothing to type.
var withoutCommands = []string{
	"docs/api.md", "docs/code-runner.md", "docs/performance.md", "docs/threat-model.md",
}

var (
	makeLine   = regexp.MustCompile(`^make ([a-z0-9-]+)(?: +[A-Z]+=.*)?(?: +#.*)?$`)
	makeInline = regexp.MustCompile("`make ([a-z0-9-]+)[^`]*`")
	makeTarget = regexp.MustCompile(`(?m)^([a-z0-9-]+):.*##`)
	metricRow  = regexp.MustCompile("(?m)^\\| `(sandbox_[a-z_]+)(?:\\{[a-z,]+\\})?` \\|")
	metricName = regexp.MustCompile(`Name: +"(sandbox_[a-z_]+)"`)
)

// makeTarget is the whole program that the command starts, if it is one.
func (c command) makeTarget() string {
	found := makeLine.FindStringSubmatch(c.line)
	if len(found) == 0 || !slices.Contains(programs, found[1]) {
		return ""
	}
	return found[1]
}

var _ = Describe("The docs", func() {
	for _, p := range readPages() {
		if !slices.ContainsFunc(p.commands, func(c command) bool { return c.makeTarget() == "" }) {
			continue
		}
		It("show commands that work: "+p.name, func(ctx SpecContext) {
			sh := shellFor(ctx, p)
			if first := needs[p.name]; first != "" {
				Expect(sh.run(ctx, readPage(first))).NotTo(BeZero(), first)
			}
			Expect(sh.run(ctx, p)).NotTo(BeZero())
		}, specPatience)
	}

	It("have commands on every page that is expected to", func() {
		var silent []string
		for _, p := range readPages() {
			isDoc := filepath.Ext(p.name) == ".md"
			if isDoc && !slices.ContainsFunc(p.commands, func(c command) bool { return c.makeTarget() == "" }) {
				silent = append(silent, p.name)
			}
		}
		Expect(silent).To(Equal(withoutCommands))
	})

	It("have all commands in console blocks", func() {
		for _, p := range readPages() {
			Expect(p.text).NotTo(MatchRegexp("(?m)^[ \t]+```"), "%s: an indented block is not looked into", p.name)
			for _, block := range fence.FindAllStringSubmatch(p.text, -1) {
				if block[1] != "console" {
					Expect(looksLikeCommand.FindString(block[2])).To(BeEmpty(), "%s:\n%s", p.name, block[2])
				}
			}
		}
	})

	It("name only targets that the Makefile has", func() {
		targets := matches(makeTarget, readText("Makefile"))
		Expect(targets).To(ContainElements(programs))
		for _, p := range readPages() {
			for _, target := range matches(makeInline, p.text) {
				Expect(targets).To(ContainElement(target), p.name)
			}
		}
	})

	It("list the metrics that there are", func() {
		var sources strings.Builder
		for _, pattern := range []string{"controllers/*/metrics.go", "bus/publish/metrics.go", "guest/runner/metrics.go", "sandbox/capacity/metrics.go"} {
			paths, err := filepath.Glob(filepath.Join(root, pattern))
			Expect(err).NotTo(HaveOccurred())
			for _, path := range paths {
				text, err := os.ReadFile(path)
				Expect(err).NotTo(HaveOccurred())
				sources.Write(text)
			}
		}
		there := matches(metricName, sources.String())
		Expect(there).NotTo(BeEmpty())
		Expect(matches(metricRow, readText("docs/runbook.md"))).To(ConsistOf(there))
	})
})

// shellFor is a shell in a namespace of the page's own.
func shellFor(ctx context.Context, p page) *shell {
	GinkgoHelper()
	if slices.Contains(withStackOfTheirOwn, p.name) {
		return newShell(startAnotherStack(ctx), metav1.NamespaceDefault)
	}
	sh := newShell(running, newNamespace(ctx))
	if slices.Contains(withArgoConfig, p.name) {
		installArgoConfig(ctx)
	}
	if slices.Contains(withEngineOfTheirOwn, p.name) {
		sh.set("III_URL", startAnotherEngine(ctx))
	}
	return sh
}

// matches are what the first group of an expression finds.
func matches(expression *regexp.Regexp, text string) []string {
	var found []string
	for _, match := range expression.FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	return found
}

func readText(name string) string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(root, name))
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}
