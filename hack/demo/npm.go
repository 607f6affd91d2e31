package main

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// The client, without what `npm install` may have put beside it.
//
//go:embed client/package.json client/package-lock.json client/client.mjs
var clientFiles embed.FS

var clientNames = []string{"package.json", "package-lock.json", "client.mjs"}

// installClient returns a folder with the client and its packages. It is made
// once per content with `npm ci` and kept in the user's cache, so that later
// demos need no network.
func installClient(ctx context.Context, say func(string)) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	key, err := clientKey()
	if err != nil {
		return "", err
	}
	target := filepath.Join(cache, "sandbox-operator", "npm", "demo-"+key)
	if _, err := os.Stat(target); err == nil {
		return target, nil
	}
	say("installing iii-sdk with npm, once")
	return target, buildClient(ctx, target)
}

func clientKey() (string, error) {
	sum := sha256.New()
	for _, name := range clientNames {
		content, err := clientFiles.ReadFile("client/" + name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(content), content)
	}
	return hex.EncodeToString(sum.Sum(nil))[:24], nil
}

// buildClient works beside the target and renames at the end: two demos at once
// do no harm, and an interrupted one leaves nothing that looks finished.
func buildClient(ctx context.Context, target string) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	staged, err := os.MkdirTemp(filepath.Dir(target), ".new-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(staged) }()
	for _, name := range clientNames {
		content, err := clientFiles.ReadFile("client/" + name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(staged, name), content, 0o644); err != nil {
			return err
		}
	}
	command := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	command.Dir = staged
	if text, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w: %s", err, text)
	}
	if err := os.Rename(staged, target); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}
