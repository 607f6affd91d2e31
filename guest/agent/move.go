package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// agentName is the agent's own file in its private folder.
const agentName = "agent"

// moveInto lets an agent that came with the image (guest/images) serve from the
// private folder that the operator asks for. It copies itself, which is quicker
// than being sent, and uses the hosts that were unpacked when the image was made.
func moveInto(home folder, wanted string) (folder, error) {
	target := folder(wanted)
	if wanted == "" || target == home {
		return home, nil
	}
	if !filepath.IsAbs(wanted) {
		return home, errors.New("home must be absolute")
	}
	if err := os.MkdirAll(wanted, 0o755); err != nil {
		return home, err
	}
	if err := copyFile(home.join(agentName), target.join(agentName)); err != nil {
		return home, err
	}
	return target, linkHosts(home, target)
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	content, err := io.ReadAll(source)
	if err != nil {
		return err
	}
	return writeAtomically(to, content, 0o755)
}

func linkHosts(home, target folder) error {
	unpacked, err := os.Readlink(home.hosts())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return switchLink(target.join(unpacked), home.join(unpacked))
}
