package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/guest/runner"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

// bakedProvider gives each new sandbox the files of an image, and plays the
// agents in it: the one of the image, and the one that is written.
type bakedProvider struct {
	*fake.Provider
	manifest string
	// broken: the image's agent does not start.
	broken bool
}

func (p *bakedProvider) Create(ctx context.Context, req sandbox.CreateRequest) (sandbox.ID, error) {
	id, err := p.Provider.Create(ctx, req)
	if err == nil && p.manifest != "" {
		err = p.WriteFile(ctx, id, sandbox.WriteFileRequest{
			Path: guest.BakedManifest, Content: bytes.NewReader([]byte(p.manifest)), Size: int64(len(p.manifest))})
	}
	return id, err
}

func newBakedProvider(t *testing.T, private bool, manifest string) *bakedProvider {
	t.Helper()
	p := &bakedProvider{Provider: fake.New(), manifest: manifest}
	p.Promise(sandbox.Capabilities{PrivateImages: private, Isolation: "memory"})
	p.OnExec(func(_ context.Context, info sandbox.Info, req sandbox.ExecRequest) (sandbox.ExecResult, error) {
		var request wire.InitRequest
		if err := json.Unmarshal(req.Stdin, &request); err != nil {
			t.Error(err)
		}
		_, written := p.File(info.ID, program.Path())
		switch {
		case req.Argv[0] == program.BakedPath() && !p.broken && request.Home == path.Dir(program.Path()):
		case req.Argv[0] == program.Path() && written && request.Home == "":
		default:
			return sandbox.ExecResult{ExitCode: 127, Stderr: []byte("not found")}, nil
		}
		return sandbox.ExecResult{Stdout: frame(t, wire.Reply{Init: &wire.Init{AgentDigest: program.Digest}})}, nil
	})
	return p
}

func TestBoot_bakedImages(t *testing.T) {
	good := `{"agentDigest":"` + program.Digest + `","more":"fields"}`
	for name, tc := range map[string]struct {
		manifest        string
		shared, broken  bool
		wantExecs       []string
		wantPlanted     bool
		wantReadsOfTwo  int // by two boots of the image
		wantSharedImage bool
	}{
		"the image holds this agent": {manifest: good, wantExecs: []string{program.BakedPath()}, wantReadsOfTwo: 2},
		"the image holds nothing":    {wantExecs: []string{program.Path()}, wantPlanted: true, wantReadsOfTwo: 1},
		"the image holds another": {manifest: `{"agentDigest":"` + guest.SourceDigest(nil) + `"}`,
			wantExecs: []string{program.Path()}, wantPlanted: true, wantReadsOfTwo: 1},
		"the manifest is damaged": {manifest: `{"agentDigest":`, wantExecs: []string{program.Path()}, wantPlanted: true, wantReadsOfTwo: 1},
		"the image's agent does not start": {manifest: good, broken: true,
			wantExecs: []string{program.BakedPath(), program.Path()}, wantPlanted: true, wantReadsOfTwo: 2},
		"images that may be shared are not trusted": {manifest: good, shared: true,
			wantExecs: []string{program.Path()}, wantPlanted: true, wantSharedImage: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newBakedProvider(t, !tc.shared, tc.manifest)
			p.broken = tc.broken
			r := runner.New(p, program)
			booted, err := r.Boot(t.Context(), create)
			if err != nil {
				t.Fatal(err)
			}
			var execs []string
			for _, call := range p.Calls(fake.Exec) {
				execs = append(execs, call.Exec.Argv[0])
			}
			if diff := cmp.Diff(tc.wantExecs, execs); diff != "" {
				t.Errorf("execs (-want +got):\n%s", diff)
			}
			if _, planted := p.File(booted.ID, program.Path()); planted != tc.wantPlanted {
				t.Errorf("planted: %t", planted)
			}
			var request wire.InitRequest
			last := p.Calls(fake.Exec)[len(execs)-1].Exec
			if err := json.Unmarshal(last.Stdin, &request); err != nil || request.SharedImage != tc.wantSharedImage {
				t.Errorf("the agent was asked for %+v, %v", request, err)
			}
			if _, err := r.Boot(t.Context(), create); err != nil {
				t.Fatal(err)
			}
			if reads := len(p.Calls(fake.ReadFile)); reads != tc.wantReadsOfTwo {
				t.Errorf("the image was asked %d times, want %d", reads, tc.wantReadsOfTwo)
			}
		})
	}
}

// A daemon that is away for a moment says nothing about an image.
func TestBoot_bakedImageThatCannotBeAsked(t *testing.T) {
	p := newBakedProvider(t, true, `{"agentDigest":"`+program.Digest+`"}`)
	p.FailNext(fake.ReadFile, sandbox.NewUnavailableError(errors.New("away")))
	r := runner.New(p, program)
	for i, want := range []string{program.Path(), program.BakedPath()} {
		if _, err := r.Boot(t.Context(), create); err != nil {
			t.Fatal(err)
		}
		if got := p.Calls(fake.Exec)[i].Exec.Argv[0]; got != want {
			t.Errorf("boot %d by %s, want %s", i+1, got, want)
		}
	}
}
