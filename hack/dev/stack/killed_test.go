package stack_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

// childFolder in the environment makes the test binary start a stack there and
// wait to be killed.
const childFolder = "STACK_TEST_CHILD_FOLDER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childFolder); dir != "" {
		runChild(dir)
	}
	os.Exit(m.Run())
}

// runChild prints the process ids of its parts and never ends by itself.
func runChild(dir string) {
	s, err := stack.Start(context.Background(), stack.Options{Dir: dir, SkipDaemon: true, SkipOperator: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	pids := []int{s.PID(stack.Etcd), s.PID(stack.APIServer), s.PID(stack.ControllerManager)}
	if err := json.NewEncoder(os.Stdout).Encode(pids); err != nil {
		os.Exit(1)
	}
	select {}
}

// Nobody is left to stop the parts then but the kernel; a next start must not
// stumble over what was left.
func TestStack_killed(t *testing.T) {
	g := gomega.NewWithT(t)
	dir := t.TempDir()
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), childFolder+"="+dir)
	child.Stderr = os.Stderr
	stdout, err := child.StdoutPipe()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(child.Start()).To(gomega.Succeed())
	line, readErr := bufio.NewReader(stdout).ReadBytes('\n')
	g.Expect(child.Process.Kill()).To(gomega.Succeed())
	_ = child.Wait() // it was killed, which is an error
	g.Expect(readErr).NotTo(gomega.HaveOccurred(), "the child's stack did not start")

	var pids []int
	g.Expect(json.Unmarshal(line, &pids)).To(gomega.Succeed())
	g.Expect(pids).To(gomega.HaveLen(3))
	for _, pid := range pids {
		g.Eventually(func() string { return commandOf(pid) }, 20*time.Second).
			Should(gomega.BeEmpty(), "process %d outlived its stack", pid)
	}

	stop(t, startBase(t, dir))
	checkNothingLeft(t, dir, nil)
}

// commandOf is empty for a process that ended, also while nobody has collected
// it: the machine's first process may be slow at that, or never do it.
func commandOf(pid int) string {
	arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	return string(arguments)
}
