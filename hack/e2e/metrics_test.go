package e2e

import (
	"context"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// operatorMetrics reads the metrics of the operator as text.
func operatorMetrics(ctx context.Context) []byte {
	GinkgoHelper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, running.MetricsURL, nil)
	Expect(err).NotTo(HaveOccurred())
	_, text, err := exchange(request)
	Expect(err).NotTo(HaveOccurred())
	return text
}
