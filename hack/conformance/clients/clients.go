// Package clients installs published packages for conformance suites, once per
// content, into the user's cache.
package clients

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// tick is how often an installation says that it is still at work.
const tick = 15 * time.Second

// Node returns the node_modules of the npm packages that files locks in
// node/package.json and node/package-lock.json.
func Node(ctx context.Context, progress io.Writer, files fs.FS) (string, error) {
	lock, err := fs.ReadFile(files, "node/package-lock.json")
	if err != nil {
		return "", err
	}
	target, err := Install(ctx, progress, "npm", Digest(lock), "iii-sdk with npm", func(ctx context.Context, dir string) error {
		for _, name := range []string{"package.json", "package-lock.json"} {
			text, err := fs.ReadFile(files, "node/"+name)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
				return err
			}
		}
		return Command(ctx, dir, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	})
	return filepath.Join(target, "node_modules"), err
}

// Install returns the cache folder of a kind and key, which build fills if it is not
// there yet. It works beside the target and renames at the end: an interrupted
// installation leaves nothing that looks finished, and two at once do no harm.
func Install(ctx context.Context, progress io.Writer, kind, key, what string, build func(context.Context, string) error) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	target := filepath.Join(cache, "sandbox-operator", kind, "conformance-"+key)
	if _, err := os.Stat(target); err == nil {
		return target, nil
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return "", err
	}
	staged, err := os.MkdirTemp(filepath.Dir(target), ".new-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(staged) }()
	stop := narrate(progress, "installing "+what)
	defer stop()
	if err := build(ctx, staged); err != nil {
		return "", fmt.Errorf("installing %s: %w", what, err)
	}
	if err := os.Rename(staged, target); err != nil {
		if _, present := os.Stat(target); present != nil {
			return "", err
		}
	}
	return target, nil
}

// narrate says what is being done, at once and then every tick, until stopped.
func narrate(progress io.Writer, what string) (stop func()) {
	began := time.Now()
	_, _ = fmt.Fprintf(progress, "  %s, once\n", what)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				_, _ = fmt.Fprintf(progress, "  … %s (%.0f s)\n", what, time.Since(began).Seconds())
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// Command runs a program in a folder; its error holds what the program said.
func Command(ctx context.Context, dir, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	if output, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, args[0], err, strings.TrimSpace(string(output)))
	}
	return nil
}

// Digest names content.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])[:24]
}
