package e2e

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// What the samples' functions answer.
const (
	priceAnswer = `{"item":"tea","quantity":2,"total":700}`
	quoteAnswer = `{"lines":[{"item":"tea","quantity":2,"total":700}],"total":700,"currency":"EUR"}`
)

var teaForTwo = m{"item": "tea", "quantity": 2}

var _ = Describe("The samples", func() {
	It("are applied, called, edited and deleted", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		kubectl(ctx, "apply", "-n", namespace, "-k", "config/samples")
		kubectl(ctx, "wait", "-n", namespace, "--for=condition=Ready", "sbf", "--all", "--timeout=40s")

		By("calling them on the bus")
		Expect(call(ctx, "shop::price", teaForTwo)).To(MatchJSON(priceAnswer))
		Expect(call(ctx, "shop::quote", m{"lines": []any{teaForTwo}})).To(MatchJSON(quoteAnswer))

		Expect(call(ctx, "bank::convert", m{"amount": 100, "currency": "USD"})).To(MatchJSON(`{"amount":90}`))
		_, err := tryCall(ctx, "bank::convert", m{"amount": "100", "currency": "USD"})
		Expect(err).To(MatchError(ContainSubstring("invalid_request: payload: /amount: is string, must be number")))

		By("calling one over HTTP")
		Expect(post(ctx, "/price", `{"item":"tea","quantity":2}`)).To(MatchJSON(priceAnswer))

		By("editing a source: the first call after the wait has the new answer")
		applySample(ctx, namespace, "function-node.yaml", "tea: 350", "tea: 400")
		kubectl(ctx, "wait", "-n", namespace, "--for=condition=Ready", "sbf/price", "--timeout=40s")
		Expect(call(ctx, "shop::price", teaForTwo)).To(MatchJSON(`{"item":"tea","quantity":2,"total":800}`))
		Expect(post(ctx, "/price", `{"item":"tea","quantity":2}`)).To(ContainSubstring("800"))

		By("deleting them")
		kubectl(ctx, "delete", "-n", namespace, "-k", "config/samples", "--timeout=40s")
		_, err = tryCall(ctx, "shop::price", teaForTwo)
		Expect(err).To(MatchError(ContainSubstring("not_found")))
		status, _ := tryPost(ctx, "/price", `{"item":"tea"}`)
		Expect(status).To(Equal(http.StatusNotFound))
	}, specPatience)

	It("take a source from a ConfigMap, and follow its new content", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		kubectl(ctx, "apply", "-n", namespace, "-k", "config/samples/configmap")
		kubectl(ctx, "wait", "-n", namespace, "--for=condition=Ready", "sbf/greet", "--timeout=40s")
		Expect(call(ctx, "shop::greet", m{"name": "Ada"})).To(MatchJSON(`{"greeting":"Good day, Ada"}`))
	}, specPatience)

	It("run once in both languages", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		for _, sample := range []struct{ file, name, stdout string }{
			{"run-node.yaml", "hello-node", "hello from Node one two\n"},
			{"run-python.yaml", "hello-python", "hello from Python [1, 2, 3]\n"},
		} {
			kubectl(ctx, "create", "-n", namespace, "-f", filepath.Join("config/samples", sample.file))
			kubectl(ctx, "wait", "-n", namespace, "--for=condition=Complete", "sbn/"+sample.name, "--timeout=40s")
			Expect(kubectl(ctx, "get", "-n", namespace, "sbn/"+sample.name, "-o", "jsonpath={.status.stdout}")).To(Equal(sample.stdout))
			Expect(kubectl(ctx, "get", "-n", namespace, "sbn/"+sample.name, "-o", "jsonpath={.status.result}")).To(MatchJSON(`{"sum":6}`))
		}
	}, specPatience)
})

// applySample applies a sample with one text replaced.
func applySample(ctx context.Context, namespace, file, before, after string) {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(root, "config", "samples", file))
	Expect(err).NotTo(HaveOccurred())
	Expect(string(text)).To(ContainSubstring(before))
	printed, err := tryKubectl(ctx, strings.Replace(string(text), before, after, 1), "apply", "-n", namespace, "-f", "-")
	Expect(err).NotTo(HaveOccurred(), printed)
}

func post(ctx context.Context, path, body string) string {
	GinkgoHelper()
	status, answer := tryPost(ctx, path, body)
	Expect(status).To(Equal(http.StatusOK), answer)
	return answer
}

func tryPost(ctx context.Context, path, body string) (status int, answer string) {
	GinkgoHelper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, running.HTTPURL+path, strings.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Content-Type", "application/json")
	status, text, err := exchange(request)
	Expect(err).NotTo(HaveOccurred())
	return status, string(text)
}
