// Package unstable is a suite of which one spec fails, at its first run or at each.
// The tests of hack/test.sh run it.
package unstable

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestUnstable(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "unstable")
}

// runs counts, in the folder that the environment names, the runs of a spec.
func runs(spec string) int {
	file, err := os.OpenFile(filepath.Join(os.Getenv("UNSTABLE_FOLDER"), spec), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	_, err = file.WriteString("x")
	Expect(err).NotTo(HaveOccurred())
	info, err := file.Stat()
	Expect(err).NotTo(HaveOccurred())
	return int(info.Size())
}

var _ = Describe("A suite (of two)", func() {
	It("has a spec that passes", func() {
		Expect(runs("passing")).To(BeNumerically(">", 0))
	})

	Context("with a context", func() {
		BeforeEach(func() {
			needed := 2
			if os.Getenv("UNSTABLE_ALWAYS") != "" {
				needed = 1000
			}
			Expect(runs("failing")).To(BeNumerically(">=", needed))
		})

		It("has a spec that fails at first. Or [ever]", func() {})
	})
})
