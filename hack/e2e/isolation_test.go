package e2e

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

// probe is a handler that tries to get out, and says what happened.
const probe = `
import os, socket

def handler(payload, context):
    return {
        "file": attempt(lambda: open(payload["file"]).read()),
        "kernel": attempt(lambda: open("/proc/1/environ").read() and "read"),
        "processes": len([name for name in os.listdir("/proc") if name.isdigit()]),
        "kill": attempt(lambda: os.kill(payload["pid"], 0)),
        "mount": attempt(lambda: os.mkdir("/proc/sys/e2e")),
        "connections": [attempt(lambda: socket.create_connection((host, port), timeout=2))
                        for host, port in payload["addresses"]],
        "environment": sorted(name for name in os.environ if "KUBE" in name or "TOKEN" in name or name == "III_URL"),
    }

def attempt(act):
    try:
        return "done: " + str(act())
    except OSError as error:
        return type(error).__name__ + " " + (error.strerror or str(error))
`

type probeAnswer struct {
	File, Kernel, Kill, Mount string
	Processes                 int
	Connections               []string
	Environment               []string
}

var _ = Describe("A published function", func() {
	It("sees neither files nor processes of the host, and has no network unless asked for", func(ctx SpecContext) {
		secret := filepath.Join(GinkgoT().TempDir(), "secret")
		Expect(os.WriteFile(secret, []byte("of the host"), 0o644)).To(Succeed())
		f := newFunction(newNamespace(ctx), "probe", v1alpha1.LanguagePython, probe)
		apply(ctx, f)
		waitFor(ctx, f, "Ready", "sbf")
		Expect(controlGroups(map[int]bool{running.PID(stack.Daemon): true})).NotTo(BeEmpty(), "the sandbox has no limits")

		var got probeAnswer
		Expect(json.Unmarshal([]byte(call(ctx, f.Spec.FunctionID, m{
			"file": secret, "pid": running.PID(stack.Operator),
			"addresses": []any{hostAndPort(running.HTTPURL), hostAndPort(running.BusURL), []any{"8.8.8.8", 53}},
		})), &got)).To(Succeed())
		Expect(got.File).To(HavePrefix("FileNotFoundError"))
		Expect(got.Kill).To(HavePrefix("ProcessLookupError"))
		Expect(got.Mount).NotTo(HavePrefix("done"))
		Expect(got.Kernel).NotTo(HavePrefix("done"), "the agent's environment")
		Expect(got.Processes).To(BeNumerically("<", 10))
		Expect(got.Environment).To(BeEmpty())
		for _, connection := range got.Connections {
			Expect(connection).NotTo(HavePrefix("done"))
		}
	}, specPatience)

	It("reaches with a network the guests' bus on the host, and nothing else there", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		runtime := newRuntime(namespace, "open", v1alpha1.LanguagePython)
		runtime.Spec.Network, runtime.Spec.BusAccess = v1alpha1.AccessEnabled, v1alpha1.AccessEnabled
		apply(ctx, runtime)
		f := newFunction(namespace, "reach", "", `
import os, socket, urllib.parse

def handler(payload, context):
    bus = urllib.parse.urlparse(os.environ["III_URL"])
    return [reach(bus.hostname, bus.port)] + [reach(bus.hostname, port) for port in payload["ports"]]

def reach(host, port):
    try:
        socket.create_connection((host, port), timeout=2).close()
        return True
    except OSError:
        return False
`)
		f.Spec.RuntimeRef = &v1alpha1.LocalReference{Name: "open"}
		apply(ctx, f)
		waitFor(ctx, f, "Ready", "sbf")
		ports := []any{hostAndPort(running.HTTPURL)[1], hostAndPort(running.BusURL)[1], hostAndPort(running.ProbeURL)[1]}
		Expect(call(ctx, f.Spec.FunctionID, m{"ports": ports})).To(MatchJSON(`[true, false, false, false]`))
	}, specPatience)

	It("keeps its files from functions of another prefix", func(ctx SpecContext) {
		first, second := newNamespace(ctx), newNamespace(ctx)
		const source = `
import os
def handler(payload, context):
    before = os.path.exists("/tmp/shared")
    open("/tmp/shared", "w").close()
    return before
`
		for _, namespace := range []string{first, second} {
			f := newFunction(namespace, "files", v1alpha1.LanguagePython, source)
			apply(ctx, f)
			waitFor(ctx, f, "Ready", "sbf")
			Expect(call(ctx, f.Spec.FunctionID, m{})).To(Equal("false"))
		}
	}, specPatience)
})

func hostAndPort(address string) []any {
	GinkgoHelper()
	parsed, err := url.Parse(address)
	Expect(err).NotTo(HaveOccurred())
	return []any{parsed.Hostname(), json.Number(parsed.Port())}
}
