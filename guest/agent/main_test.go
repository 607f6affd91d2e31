package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// agentPath is the agent under test, built once; it is run as in a sandbox, as
// a process of its own, with the machine's real interpreters. linkPath is the
// program that opens links.
var agentPath, linkPath string

func TestMain(m *testing.M) {
	if root := os.Getenv(overlayHelper); root != "" {
		if err := overlayInNamespace(root); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	// Interpreters of the system, not a version manager's slow wrappers.
	_ = os.Setenv("PATH", "/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin")
	folder, err := os.MkdirTemp("", "agent-test-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	agentPath, linkPath = filepath.Join(folder, "agent"), filepath.Join(folder, "link")
	build := exec.Command("go", "build", "-o", folder+"/", ".", "../link")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the programs: %v\n%s", err, output)
		return 1
	}
	return m.Run()
}

// nowhere is the address of no server.
const nowhere = "http://127.0.0.1:9/"

// guest is one private folder with an agent of its own.
type guest struct {
	t    *testing.T
	home string
	env  []string
	way  way
}

func newGuest(t *testing.T) *guest {
	t.Helper()
	home := filepath.Join(t.TempDir(), "private")
	if err := os.MkdirAll(home, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(agentPath, filepath.Join(home, "agent")); err != nil {
		content, readErr := os.ReadFile(agentPath)
		if readErr != nil {
			t.Fatal(readErr)
		}
		if err := os.WriteFile(filepath.Join(home, "agent"), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return &guest{t: t, home: home, way: ways[0], env: []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + home,
		// Nothing is fetched from anywhere, unless a test names an index of its own.
		"PIP_INDEX_URL=" + nowhere, "PIP_CONFIG_FILE=/dev/null", "npm_config_registry=" + nowhere, "npm_config_fetch_retries=0",
	}}
}

// exec runs one subcommand and returns the reply; the agent must always answer.
func (g *guest) exec(subcommand string, request any) wire.Reply {
	g.t.Helper()
	body, err := wire.Marshal(request)
	if err != nil {
		g.t.Fatal(err)
	}
	reply, err := g.execRaw(body, subcommand)
	if err != nil {
		g.t.Fatalf("agent %s: %v", subcommand, err)
	}
	return reply
}

func (g *guest) execRaw(stdin []byte, args ...string) (wire.Reply, error) {
	command := exec.Command(filepath.Join(g.home, "agent"), args...)
	command.Env = g.env
	command.Stdin = bytes.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return wire.Reply{}, fmt.Errorf("%w: %s", err, stderr.String())
	}
	if stderr.Len() > 0 {
		return wire.Reply{}, fmt.Errorf("the agent's stderr is not empty: %s", stderr.String())
	}
	return wire.DecodeReply(stdout.Bytes())
}

func digestOf(source string) string {
	digest := sha256.Sum256([]byte(source))
	return hex.EncodeToString(digest[:])
}

func (g *guest) plant(language wire.Language, source string) wire.Reply {
	g.t.Helper()
	return g.exec(wire.CommandPlant, wire.PlantRequest{
		Language: language, Source: source, SourceDigest: digestOf(source), Warm: g.way.warm, Isolation: g.way.isolation,
	})
}

// mustPlant plants a source that is expected to be good.
func (g *guest) mustPlant(language wire.Language, source string) string {
	g.t.Helper()
	if reply := g.plant(language, source); reply.Error != nil {
		g.t.Fatalf("planting: %v\n%s", reply.Error, reply.Error.Stack)
	}
	return digestOf(source)
}

// testTimeout is far above what anything here takes, also on a busy machine.
const testTimeout = 30 * time.Second

// deadline is for programs that are meant to meet it: enough to start and print.
const deadline = 5 * time.Second

func callRequest(language wire.Language, digest, payload string) wire.CallRequest {
	return wire.CallRequest{
		Language: language, SourceDigest: digest, Payload: json.RawMessage(payload),
		Context: wire.CallContext{FunctionID: "test::function"}, TimeoutMs: testTimeout.Milliseconds(),
	}
}

// call plants a source and calls it.
func (g *guest) call(language wire.Language, source, payload string) wire.Reply {
	g.t.Helper()
	return g.invoke(callRequest(language, g.mustPlant(language, source), payload))
}

func (g *guest) run(language wire.Language, source string, change ...func(*wire.RunRequest)) wire.Reply {
	g.t.Helper()
	request := wire.RunRequest{Language: language, Source: source, TimeoutMs: testTimeout.Milliseconds()}
	for _, apply := range change {
		apply(&request)
	}
	reply := g.exec(wire.CommandRun, request)
	if reply.Error != nil || reply.Run == nil {
		g.t.Fatalf("run: %+v", reply.Error)
	}
	return reply
}
