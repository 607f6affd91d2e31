package runner

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

const (
	// plainImageMemory is how long an image counts as one without this agent, so
	// that not every boot asks.
	plainImageMemory = 10 * time.Minute
	maxManifestBytes = 4 << 10
)

// isBaked reports whether the sandbox's image holds this very agent
// (guest/images). An empty image is asked every time.
func (r *Runner) isBaked(ctx context.Context, id sandbox.ID, image string) bool {
	if r.plain.has(image) {
		return false
	}
	digest, err := r.bakedDigest(ctx, id)
	var noFile *sandbox.FileError
	if err != nil && !errors.As(err, &noFile) {
		return false // which says nothing about the image
	}
	if digest != r.program.Digest {
		r.plain.add(image)
		return false
	}
	return true
}

// bakedDigest is that of the agent in the image; empty if the manifest is unreadable.
func (r *Runner) bakedDigest(ctx context.Context, id sandbox.ID) (string, error) {
	reader, err := r.provider.ReadFile(ctx, id, guest.BakedManifest)
	if err != nil {
		return "", err
	}
	defer reader.Close() // what was read is all that counts
	content, err := io.ReadAll(io.LimitReader(reader, maxManifestBytes))
	if err != nil {
		return "", err
	}
	var manifest guest.Baked
	_ = json.Unmarshal(content, &manifest)
	return manifest.AgentDigest, nil
}

// imageSet remembers images for a while.
type imageSet struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func (s *imageSet) has(image string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.until[image])
}

func (s *imageSet) add(image string) {
	if image == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil {
		s.until = map[string]time.Time{}
	}
	s.until[image] = time.Now().Add(plainImageMemory)
}
