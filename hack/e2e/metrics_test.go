package e2e

import (
	"context"
	"io"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// operatorMetrics reads the metrics of the operator as text, over a connection of its
// own: a kept one would go on with an operator that has been replaced.
func operatorMetrics(ctx context.Context) []byte {
	GinkgoHelper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, running.MetricsURL, nil)
	Expect(err).NotTo(HaveOccurred())
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return text
}
