package images

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

const repository = "../.."

// instruction is one line of a Dockerfile, with its options apart.
type instruction struct {
	name    string
	options []string
	args    []string
}

func instructions(t *testing.T, file string) []instruction {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.Parse(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	for _, warning := range parsed.Warnings {
		t.Errorf("%s: %s", file, warning.Short)
	}
	var all []instruction
	for _, node := range parsed.AST.Children {
		next := instruction{name: strings.ToUpper(node.Value), options: node.Flags}
		for arg := node.Next; arg != nil; arg = arg.Next {
			next.args = append(next.args, arg.Value)
		}
		all = append(all, next)
	}
	return all
}

func (i instruction) from() string {
	for _, option := range i.options {
		if stage, found := strings.CutPrefix(option, "--from="); found {
			return stage
		}
	}
	return ""
}

// What a Dockerfile takes from the repository is there and is not left out of
// the context; the stages it copies from come before; bases are pinned.
func TestDockerfiles(t *testing.T) {
	known := map[string]bool{"FROM": true, "COPY": true, "RUN": true, "WORKDIR": true, "ARG": true}
	for _, file := range []string{"node.Dockerfile", "python.Dockerfile"} {
		stages := map[string]bool{}
		for _, next := range instructions(t, file) {
			switch {
			case !known[next.name]:
				t.Errorf("%s: %s is not expected here", file, next.name)
			case next.name == "FROM":
				if _, tag, tagged := strings.Cut(next.args[0], ":"); !tagged || tag == "latest" {
					t.Errorf("%s: %s has no tag", file, next.args[0])
				}
				if len(next.args) == 3 {
					stages[next.args[2]] = true
				}
			case next.name == "COPY" && next.from() != "":
				if !stages[next.from()] {
					t.Errorf("%s: there is no stage %s", file, next.from())
				}
			case next.name == "COPY":
				checkSources(t, file, next.args[:len(next.args)-1])
			}
		}
	}
}

func checkSources(t *testing.T, file string, sources []string) {
	t.Helper()
	for _, source := range sources {
		if _, err := os.Stat(filepath.Join(repository, source)); err != nil {
			t.Errorf("%s: COPY %s: %v", file, source, err)
		}
		// git lists nothing for what is not part of the repository.
		listed, err := exec.Command("git", "-C", repository, "check-ignore", source).Output()
		if err == nil && len(listed) > 0 {
			t.Errorf("%s: COPY %s: git ignores it", file, source)
		}
	}
}

// Both images make the agent in the same way, so that either holds the operator's.
func TestDockerfiles_buildOneAgent(t *testing.T) {
	stage := func(file string) (found []instruction) {
		for _, next := range instructions(t, file) {
			if next.name == "FROM" && len(found) > 0 {
				break
			}
			if len(found) > 0 || next.name == "FROM" && len(next.args) == 3 && next.args[2] == "agent" {
				found = append(found, next)
			}
		}
		return found
	}
	options := cmp.AllowUnexported(instruction{})
	if diff := cmp.Diff(stage("node.Dockerfile"), stage("python.Dockerfile"), options); diff != "" {
		t.Errorf("the stages differ:\n%s", diff)
	}
}

// A baked root holds what the operator looks for, and its agent serves from the
// private folder without anything being written there.
func TestBake(t *testing.T) {
	program, err := guest.Program()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for range 2 { // again is harmless
		bake := exec.Command("./bake.sh", "../dist/agent.gz", root)
		if output, err := bake.CombinedOutput(); err != nil || len(output) > 0 {
			t.Fatalf("%v: %s", err, output)
		}
	}
	var manifest guest.Baked
	content, err := os.ReadFile(filepath.Join(root, guest.BakedManifest))
	if err == nil {
		err = json.Unmarshal(content, &manifest)
	}
	if err != nil || manifest.AgentDigest != program.Digest {
		t.Fatalf("the manifest is %s, %v; want %s", content, err, program.Digest)
	}
	home := filepath.Join(root, filepath.Dir(program.Path()))
	reply := execute(t, filepath.Join(root, program.BakedPath()), wire.CommandInit, wire.InitRequest{Home: home})
	if reply.Error != nil || reply.Init.AgentDigest != program.Digest || reply.Init.SDK.Node == "" {
		t.Fatalf("init: %+v %v", reply.Init, reply.Error)
	}
	if unpacked, _ := filepath.EvalSymlinks(filepath.Join(home, "hosts")); !strings.HasPrefix(unpacked, filepath.Join(root, guest.BakedDirectory)) {
		t.Errorf("the hosts were unpacked again, into %s", unpacked)
	}
	checkPrograms(t, filepath.Join(home, "agent"))
	left, err := filepath.Glob(filepath.Join(root, guest.BakedDirectory, ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("scraps: %v %v", left, err)
	}
}

func checkPrograms(t *testing.T, agent string) {
	t.Helper()
	for language, source := range map[wire.Language]string{
		wire.Node:   "import { registerWorker } from 'iii-sdk'; export default typeof registerWorker;",
		wire.Python: "result = 'function'\n",
	} {
		reply := execute(t, agent, wire.CommandRun, wire.RunRequest{Language: language, Source: source, TimeoutMs: 20_000})
		if string(reply.Result) != `"function"` {
			t.Errorf("%s: %s %+v %v", language, reply.Result, reply.Run, reply.Error)
		}
	}
}

func execute(t *testing.T, agent, subcommand string, request any) wire.Reply {
	t.Helper()
	body, err := wire.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(agent, subcommand)
	command.Stdin = bytes.NewReader(body)
	command.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + t.TempDir()}
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	reply, err := wire.DecodeReply(output)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// An agent that is cut is noticed when the image is made.
func TestBake_damagedAgent(t *testing.T) {
	cut := filepath.Join(t.TempDir(), "agent.gz")
	if err := os.WriteFile(cut, []byte("not an agent"), 0o644); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if output, err := exec.Command("./bake.sh", cut, root).CombinedOutput(); err == nil {
		t.Errorf("it was baked: %s", output)
	}
	if _, err := os.Stat(filepath.Join(root, guest.BakedManifest)); !os.IsNotExist(err) {
		t.Error("a manifest promises an agent")
	}
}
