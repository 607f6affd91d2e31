package main

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

func TestFileURL(t *testing.T) {
	for _, path := range []string{"/sandbox-operator/ab/hosts", "/with blank", "/50%/a?b#c", `/back\slash`, "/ünï/日本"} {
		got, err := url.Parse(fileURL(path))
		if err != nil || got.Scheme != "file" || got.Path != path || got.RawQuery != "" || got.Fragment != "" {
			t.Errorf("%s: %s is %+v, %v", path, fileURL(path), got, err)
		}
	}
}

// With what guest/sdk/build.sh makes, Node loads one file for each host.
func TestNodeHosts_areBundled(t *testing.T) {
	guest := newGuest(t)
	if reply := guest.exec(wire.CommandInit, wire.InitRequest{}); reply.Error != nil {
		t.Fatal(reply.Error)
	}
	for _, name := range []string{"call", "serve", "run"} {
		content, err := os.ReadFile(filepath.Join(guest.home, "hosts", "node", name+".mjs"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			if strings.HasPrefix(line, "import ") && !strings.Contains(line, `"node:`) {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}
