package again_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// patience is far above what compiling and running the suite twice takes.
const patience = 10 * time.Minute

// test runs hack/test.sh on the suite, and returns what it prints and how often
// both specs ran.
func test(t *testing.T, settings ...string) (printed string, passing, failing int, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	folder := t.TempDir()
	command := exec.CommandContext(ctx, "../test.sh", "-count=1", "./hack/again/testdata/unstable")
	command.Env = append(os.Environ(), append(settings, "UNSTABLE_FOLDER="+folder, "OUT="+folder)...)
	output, err := command.CombinedOutput()
	count := func(spec string) int {
		marks, err := os.ReadFile(filepath.Join(folder, spec))
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), string(output))
		return len(marks)
	}
	return string(output), count("passing"), count("failing"), err
}

func TestTest_runs_a_failed_spec_once_more(t *testing.T) {
	g := NewWithT(t)
	printed, passing, failing, err := test(t)
	g.Expect(err).NotTo(HaveOccurred(), printed)
	g.Expect(printed).To(ContainSubstring("UNSTABLE, passed when run once more:\n  github.com/sandbox-operator/sandbox-operator/hack/again/testdata/unstable TestUnstable"))
	g.Expect(printed).To(ContainSubstring("\n1 packages passed in "))
	g.Expect(printed).NotTo(ContainSubstring("FAILED:"))
	g.Expect([]int{passing, failing}).To(Equal([]int{1, 2}), printed)
}

func TestTest_fails_if_a_spec_fails_again(t *testing.T) {
	g := NewWithT(t)
	printed, passing, failing, err := test(t, "UNSTABLE_ALWAYS=1")
	g.Expect(err).To(HaveOccurred(), printed)
	g.Expect(printed).To(ContainSubstring("FAILED:\n  github.com/sandbox-operator/sandbox-operator/hack/again/testdata/unstable TestUnstable"))
	g.Expect(printed).NotTo(ContainSubstring("UNSTABLE"))
	g.Expect([]int{passing, failing}).To(Equal([]int{1, 2}), printed)
}
