package e2e

import (
	"context"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

// interruptPatience is how long a program may take to end after Ctrl-C.
const interruptPatience = 30 * time.Second

// shell is where a user types the commands of a page: in a folder that has
// everything of the repository and the files that the page shows.
type shell struct {
	dir         string
	environment []string
}

// newShell makes one whose kubectl talks to a namespace of the stack. The stack's
// folder is the .dev of a user.
func newShell(s *stack.Stack, namespace string) *shell {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	entries, err := os.ReadDir(root)
	Expect(err).NotTo(HaveOccurred())
	repository, err := filepath.Abs(root)
	Expect(err).NotTo(HaveOccurred())
	for _, entry := range entries {
		if name := entry.Name(); name != ".dev" && name != ".git" {
			Expect(os.Symlink(filepath.Join(repository, name), filepath.Join(dir, name))).To(Succeed())
		}
	}
	Expect(os.Symlink(filepath.Dir(s.Kubeconfig), filepath.Join(dir, ".dev"))).To(Succeed())
	private := GinkgoT().TempDir()
	variables := map[string]string{
		"PATH":         filepath.Join(repository, "bin", "k8s") + string(os.PathListSeparator) + os.Getenv("PATH"),
		"KUBERC":       "off",
		"KUBECACHEDIR": filepath.Join(private, "cache"),
	}
	for _, variable := range s.Env() {
		variables[variable[0]] = variable[1]
	}
	variables["KUBECONFIG"] = inNamespace(s.Kubeconfig, namespace, filepath.Join(private, "kubeconfig"))
	environment := os.Environ()
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		environment = append(environment, name+"="+variables[name])
	}
	return &shell{dir: dir, environment: environment}
}

// inNamespace copies a kubeconfig with another default namespace.
func inNamespace(kubeconfig, namespace, path string) string {
	GinkgoHelper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	config.Contexts[config.CurrentContext].Namespace = namespace
	Expect(clientcmd.WriteToFile(*config, path)).To(Succeed())
	return path
}

// write puts the files of a page where its commands find them.
func (s *shell) write(p page) {
	GinkgoHelper()
	for name, text := range p.files() {
		Expect(os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600)).To(Succeed())
	}
}

// run types the commands of a page, in order. Those that start a whole program
// are left to that program's own tests.
func (s *shell) run(ctx context.Context, p page) (ran int) {
	GinkgoHelper()
	s.write(p)
	for _, c := range p.commands {
		if c.makeTarget() != "" {
			continue
		}
		By(c.line)
		if c.interrupted {
			s.interrupt(ctx, p, c)
		} else {
			output, err := s.command(ctx, c).CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), "%s: %s\n%s", p.name, c.line, output)
			Expect(c.missingIn(string(output))).To(BeEmpty(), "%s: %s\n%s", p.name, c.line, output)
		}
		ran++
	}
	return ran
}

// interrupt starts a program that stays, waits until it has said what the page
// shows, and types Ctrl-C.
func (s *shell) interrupt(ctx context.Context, p page, c command) {
	GinkgoHelper()
	Expect(c.shown).NotTo(BeEmpty(), "%s: %s shows nothing to wait for", p.name, c.line)
	var said transcript
	process := s.command(ctx, c)
	process.Stdout, process.Stderr = &said, &said
	Expect(process.Start()).To(Succeed())
	ended := make(chan error, 1)
	go func() { ended <- process.Wait() }()
	explain := func() string { return p.name + ": " + c.line + "\n" + said.String() }
	Eventually(ctx, func() []string {
		if len(ended) > 0 {
			StopTrying("it ended by itself").Now()
		}
		return c.missingIn(said.String())
	}).WithTimeout(time.Minute).Should(BeEmpty(), explain)
	Expect(syscall.Kill(-process.Process.Pid, syscall.SIGINT)).To(Succeed())
	Eventually(ctx, ended).WithTimeout(interruptPatience).Should(Receive(BeNil()), explain)
}

// set gives a variable another value.
func (s *shell) set(name, value string) { s.environment = append(s.environment, name+"="+value) }

// command runs a line as a terminal would: in a process group of its own, all of
// which gets a signal.
func (s *shell) command(ctx context.Context, c command) *exec.Cmd {
	process := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", c.line)
	process.Dir, process.Env = s.dir, s.environment
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	process.Cancel = func() error { return syscall.Kill(-process.Process.Pid, syscall.SIGKILL) }
	process.WaitDelay = interruptPatience
	return process
}

// transcript is what a program has said so far.
type transcript struct {
	mutex sync.Mutex
	text  strings.Builder
}

var _ io.Writer = (*transcript)(nil)

func (t *transcript) Write(data []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.text.Write(data)
}

func (t *transcript) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.text.String()
}
