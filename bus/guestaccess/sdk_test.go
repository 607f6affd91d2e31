package guestaccess

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/hack/conformance/clients"
)

// plan is what testdata/guest.mjs and testdata/guest.py do, in this order.
type plan struct {
	Name      string   `json:"name"`
	Registers []string `json:"registers"`
	Binds     []string `json:"binds"`
	Calls     []string `json:"calls"`
	TimeoutMS int      `json:"timeoutMs"`
	// Stays keeps the guest until its input ends.
	Stays bool `json:"stays"`
}

// programs start guests with the published clients, which connect to III_URL as
// it is.
func programs(t *testing.T) map[string]func(ctx context.Context, argument string) *exec.Cmd {
	t.Helper()
	const conformance = "../../hack/conformance/bus"
	modules, err := clients.Node(t.Context(), io.Discard, os.DirFS(conformance))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.Symlink(modules, filepath.Join(folder, "node_modules")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(folder, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	packages := pythonPackages(t, filepath.Join(conformance, "python", "requirements-0.22.1.txt"))
	return map[string]func(context.Context, string) *exec.Cmd{
		"node": func(ctx context.Context, argument string) *exec.Cmd {
			return exec.CommandContext(ctx, "node", filepath.Join(folder, "guest.mjs"), argument)
		},
		"python": func(ctx context.Context, argument string) *exec.Cmd {
			c := exec.CommandContext(ctx, "python3", filepath.Join(folder, "guest.py"), argument)
			c.Env = []string{"PYTHONPATH=" + packages, "PYTHONDONTWRITEBYTECODE=1"}
			return c
		},
	}
}

func pythonPackages(t *testing.T, list string) string {
	t.Helper()
	list, err := filepath.Abs(list)
	if err != nil {
		t.Fatal(err)
	}
	requirements, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := exec.CommandContext(t.Context(), "python3", "-c", "import sysconfig; print(sysconfig.get_config_var('SOABI'))").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages, err := clients.Install(t.Context(), io.Discard, "python-guests", clients.Digest(append(tag, requirements...)), "iii-sdk with pip",
		func(ctx context.Context, dir string) error {
			return clients.Command(ctx, dir, "python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
				"--root-user-action=ignore", "--no-deps", "--only-binary=:all:", "--target", dir, "--requirement", list)
		})
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

// execute runs a guest; while it stays, meanwhile is called.
func execute(t *testing.T, c *exec.Cmd, url string, meanwhile func()) map[string]any {
	t.Helper()
	var complaints strings.Builder
	c.Env = append(append(os.Environ(), c.Env...), "III_URL="+url, "OTEL_ENABLED=false")
	c.Stderr = &complaints
	output, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	input, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	answers := map[string]any{}
	for lines := bufio.NewScanner(output); len(answers) == 0 && lines.Scan(); {
		_ = json.Unmarshal(lines.Bytes(), &answers) // the client has lines of its own
	}
	meanwhile()
	_ = input.Close()
	if err := c.Wait(); err != nil || len(answers) == 0 {
		t.Fatalf("the guest: %v: %s", err, complaints.String())
	}
	return answers
}

func TestPublishedClients(t *testing.T) {
	runtime := runtimeOnBus("open")
	narrow := runtimeOnBus("narrow")
	narrow.Spec.BusAllow = []string{"shop::*"}
	l := listen(t, guarded(), runtime, narrow, functionOf("shop", "held::f"))
	for language, program := range programs(t) {
		t.Run(language, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			own := language + "::f"
			p := plan{
				Name: "guest-" + language, TimeoutMS: 10_000, Stays: true, Registers: []string{own, "held::f", "sandbox::mine"},
				Binds: []string{own, "shop::price"}, Calls: []string{"shop::price", own, "sandbox::list", "engine::workers::list", "held::f"},
			}
			got := execute(t, program(ctx, string(encoded(t, p))), l.access(false).URL(instanceOf(runtime, "digest-0")), func() {
				if answer, err := l.operator.Call(ctx, bus.Call{FunctionID: own}); err != nil || string(answer) != `"mine"` {
					t.Errorf("the guest's function answers %s, %v", answer, err)
				}
				for id, want := range map[string]int{own: 1, "shop::price": 0} {
					if bound, err := l.operator.RegisteredTriggers(ctx, id); err != nil || len(bound) != want {
						t.Errorf("%d triggers of %s, want %d: %v", len(bound), id, want, err)
					}
				}
			})
			want := map[string]any{
				"shop::price": "served", own: "mine", "sandbox::list": "FORBIDDEN", "engine::workers::list": "FORBIDDEN",
				"held::f": "function_not_found",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			l.eventually("the guest's function to go", func() bool { return !l.has(own) })

			p = plan{Name: "narrow-" + language, TimeoutMS: 10_000, Registers: []string{}, Binds: []string{}, Calls: []string{"shop::stock", "other::secret"}}
			got = execute(t, program(ctx, string(encoded(t, p))), l.access(false).URL(instanceOf(narrow, "digest-0")), func() {})
			if diff := cmp.Diff(map[string]any{"shop::stock": "served", "other::secret": "FORBIDDEN"}, got); diff != "" {
				t.Errorf("answers with a busAllow (-want +got):\n%s", diff)
			}

			p.TimeoutMS, p.Calls = 1000, []string{"shop::price"}
			got = execute(t, program(ctx, string(encoded(t, p))), l.access(false).URL(instanceOf(runtime, "digest-9")), func() {})
			if slices.Contains([]any{"served", "FORBIDDEN"}, got["shop::price"]) {
				t.Errorf("an ended sandbox is let in: %v", got)
			}
		})
	}
}
