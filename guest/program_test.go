package guest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

func TestUnpack(t *testing.T) {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, _ = writer.Write([]byte("program"))
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	const name = "dist/agent.gz"
	content, err := unpack(fstest.MapFS{name: {Data: packed.Bytes()}}, name)
	if err != nil || string(content) != "program" {
		t.Fatalf("got %q, %v", content, err)
	}
	if _, err := unpack(fstest.MapFS{"dist/.gitkeep": {}}, name); !errors.Is(err, ErrNotBuilt) || !strings.Contains(err.Error(), "make build") {
		t.Errorf("without the agent: %v", err)
	}
	if _, err := unpack(fstest.MapFS{name: {Data: packed.Bytes()[:packed.Len()-3]}}, name); err == nil || errors.Is(err, ErrNotBuilt) {
		t.Errorf("with a cut agent: %v", err)
	}
}

func TestCommands(t *testing.T) {
	program := AgentProgram{Digest: strings.Repeat("ab", 32)}
	const path = "/sandbox-operator/abababababab/agent"
	tests := map[string]struct {
		command     Command
		wantName    string
		wantStdin   string
		wantTimeout time.Duration
	}{
		"init links the SDK at the root": {program.Init(wire.InitRequest{SharedImage: true}), "init",
			`{"sharedImage":true,"moduleFolder":"/node_modules"}`, 32 * time.Second},
		"init by a baked agent": {func() Command {
			command := program.InitBaked(wire.InitRequest{})
			if command.Argv[0] != "/opt/sandbox-operator/abababababab/agent" {
				t.Errorf("argv: %v", command.Argv)
			}
			command.Argv[0] = path
			return command
		}(), "init", `{"moduleFolder":"/node_modules","home":"/sandbox-operator/abababababab"}`, 32 * time.Second},
		"plant fills in the digest": {program.Plant(wire.PlantRequest{Language: wire.Node, Source: "<&>"}), "plant",
			`{"language":"node","sourceDigest":"` + SourceDigest([]byte("<&>")) + `","source":"<&>"}`, 12 * time.Second},
		"unplant": {program.Unplant(wire.UnplantRequest{SourceDigest: "d"}), "unplant", `{"sourceDigest":"d"}`, 32 * time.Second},
		"call takes two seconds more than its deadline": {program.Call(wire.CallRequest{
			Language: wire.Python, SourceDigest: "d", Payload: json.RawMessage(`{"id":9007199254740993}`), TimeoutMs: 1500,
			Context: wire.CallContext{FunctionID: "a::b"}, Bus: wire.Bus{WorkerName: "w"}}), "call",
			`{"payload":{"id":9007199254740993},"language":"python","sourceDigest":"d","context":{"function_id":"a::b"},"timeoutMs":1500,"workerName":"w"}`, 3500 * time.Millisecond},
		"run": {program.Run(wire.RunRequest{Language: wire.Node, Source: "1", TimeoutMs: 10, Stdin: []byte("x")}), "run",
			`{"language":"node","source":"1","stdin":"eA==","timeoutMs":10}`, 2010 * time.Millisecond},
		"cancel": {program.Cancel(wire.CancelRequest{Token: "t"}), "cancel", `{"token":"t"}`, 32 * time.Second},
		"install links packages at the root": {program.Install(wire.InstallRequest{Language: wire.Node, Packages: []string{"x@^1"}, TimeoutMs: 9000}), "install",
			`{"language":"node","packages":["x@^1"],"moduleFolder":"/node_modules","timeoutMs":9000}`, 11 * time.Second},
		"setup": {program.Setup(wire.SetupRequest{Command: "a && b", TimeoutMs: 9000}), "setup", `{"command":"a && b","timeoutMs":9000}`, 11 * time.Second},
		"link": {program.Link(wire.LinkRequest{Calls: wire.LinkEnd{ChannelID: "c", AccessKey: "k"}, ProgramDigest: "d"}), "link",
			`{"calls":{"channelId":"c","accessKey":"k"},"replies":{"channelId":"","accessKey":""},"programDigest":"d"}`, 32 * time.Second},
		"discard": {program.Discard(wire.DiscardRequest{Path: "/p"}), "discard", `{"path":"/p"}`, 32 * time.Second},
		"metadata that is not JSON leaves nothing to send": {program.Call(wire.CallRequest{
			Context: wire.CallContext{Metadata: json.RawMessage(`{`)}, TimeoutMs: 1}), "call", "", 2001 * time.Millisecond},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			want := Command{Argv: []string{path, tc.wantName}, Timeout: tc.wantTimeout}
			got := tc.command
			if string(got.Stdin) != tc.wantStdin {
				t.Errorf("stdin: want %s, got %s", tc.wantStdin, got.Stdin)
			}
			got.Stdin = nil
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("command (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCommand_WithRequestFile(t *testing.T) {
	program := AgentProgram{Digest: strings.Repeat("ab", 32)}
	command := program.Call(wire.CallRequest{Payload: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`), TimeoutMs: 1})
	if !command.NeedsFile() {
		t.Fatal("a payload over 1 MiB should go by file")
	}
	path := program.RequestPath("one")
	byFile, content := command.WithRequestFile(path)
	want := Command{Argv: []string{program.Path(), "call", "--request-file", "/sandbox-operator/abababababab/requests/one.json"}, Timeout: command.Timeout}
	if diff := cmp.Diff(want, byFile); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
	if !bytes.Equal(content, command.Stdin) || len(command.Argv) != 2 {
		t.Error("the request or the original command changed")
	}
}

func TestParseReply(t *testing.T) {
	frame, err := wire.EncodeReply(wire.Reply{Result: json.RawMessage("1")})
	if err != nil {
		t.Fatal(err)
	}
	if reply, err := ParseReply(frame); err != nil || string(reply.Result) != "1" {
		t.Errorf("got %+v, %v", reply, err)
	}
	var frameError *wire.FrameError
	if _, err := ParseReply(frame[:len(frame)-1]); !errors.As(err, &frameError) {
		t.Errorf("a cut frame: %v", err)
	}
}

func TestAgentProgram_paths(t *testing.T) {
	program := AgentProgram{Digest: strings.Repeat("ab", 32)}
	const folder = "/sandbox-operator/abababababab/"
	for path, want := range map[string]string{
		program.Path(): "agent", program.LinkPath(): "link", program.RequestPath("r"): "requests/r.json",
	} {
		if path != folder+want {
			t.Errorf("want %s, got %s", folder+want, path)
		}
	}
}
