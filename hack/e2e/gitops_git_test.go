//go:build flux

package e2e

import (
	"context"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// repository is a Git repository that is served on loopback, and a clone of it in
// which a user works.
type repository struct {
	url, clone string
}

// branch is the only one.
const branch = "main"

// newRepository is there until the end of the spec.
func newRepository(ctx context.Context) repository {
	GinkgoHelper()
	program, err := exec.LookPath("git")
	Expect(err).NotTo(HaveOccurred())
	served := GinkgoT().TempDir()
	r := repository{clone: GinkgoT().TempDir()}
	bare := filepath.Join(served, "shop.git")
	r.git(ctx, "init", "--quiet", "--bare", "--initial-branch="+branch, bare)
	server := httptest.NewServer(&cgi.Handler{
		Path: program, Args: []string{"http-backend"},
		Env: []string{"GIT_PROJECT_ROOT=" + served, "GIT_HTTP_EXPORT_ALL=1"},
		Dir: served, Stderr: GinkgoWriter,
	})
	DeferCleanup(server.Close)
	r.url = server.URL + "/shop.git"
	r.git(ctx, "init", "--quiet", "--initial-branch="+branch)
	r.git(ctx, "remote", "add", "origin", bare)
	return r
}

// git runs a command in the clone, with nothing of the user's own configuration.
func (r repository) git(ctx context.Context, args ...string) string {
	GinkgoHelper()
	command := exec.CommandContext(ctx, "git", args...)
	command.Dir = r.clone
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=e2e", "GIT_AUTHOR_EMAIL=e2e@example.com",
		"GIT_COMMITTER_NAME=e2e", "GIT_COMMITTER_EMAIL=e2e@example.com")
	printed, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "git %v: %s", args, printed)
	return string(printed)
}

// commit writes files by their paths, removes those whose text is empty, and
// pushes.
func (r repository) commit(ctx context.Context, message string, files map[string]string) {
	GinkgoHelper()
	for name, text := range files {
		path := filepath.Join(r.clone, name)
		if text == "" {
			Expect(os.Remove(path)).To(Succeed())
			continue
		}
		Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
		Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
	}
	r.git(ctx, "add", "--all")
	r.git(ctx, "commit", "--quiet", "-m", message)
	r.git(ctx, "push", "--quiet", "origin", branch)
}

// head is the newest commit.
func (r repository) head(ctx context.Context) string {
	GinkgoHelper()
	return strings.TrimSpace(r.git(ctx, "rev-parse", "HEAD"))
}
