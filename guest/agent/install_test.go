package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

func newPackagesGuest(t *testing.T) (*guest, *registry) {
	t.Helper()
	r := newRegistry(t)
	for _, version := range []string{"1.0.0", "1.2.0", "2.0.0"} {
		r.addWheel(t, "Shop-Prices", version, map[string]string{"shop_prices/__init__.py": fmt.Sprintf("version = %q\n", version)})
		r.addNPM(t, "shop-prices", version, map[string]string{"index.js": fmt.Sprintf("export const version = %q;\n", version)}, nil)
	}
	r.addNPM(t, "@shop/extra", "1.0.0", map[string]string{"index.js": "export const extra = 'scoped';\n"}, nil)
	r.addWheel(t, "shop-extra", "1.0.0", map[string]string{"shop_extra.py": "extra = 'second'\n"})
	g := newGuest(t)
	g.env = append(g.env, r.env()...)
	return g, r
}

func (g *guest) install(language wire.Language, packages ...string) wire.Reply {
	g.t.Helper()
	return g.exec(wire.CommandInstall, wire.InstallRequest{
		Language: language, Packages: packages, TimeoutMs: 60_000, ModuleFolder: filepath.Join(g.home, "..", "root", "node_modules"),
	})
}

func (g *guest) mustInstall(language wire.Language, packages ...string) wire.Reply {
	g.t.Helper()
	reply := g.install(language, packages...)
	if reply.Error != nil || reply.Run.ExitCode != 0 {
		g.t.Fatalf("installing: %v %+v", reply.Error, reply.Run)
	}
	return reply
}

// Programs and handlers, wherever they lie, find what was installed.
func TestInstall(t *testing.T) {
	tests := map[wire.Language]struct {
		packages, more   []string
		program, handler string
		want             string
		second, extra    string
	}{
		wire.Node: {
			packages: []string{"shop-prices@^1.0.0"}, more: []string{"@shop/extra"},
			program: `import { version } from 'shop-prices'; export default version;`,
			handler: `import { version } from 'shop-prices'; export const handler = () => version;`,
			want:    `"1.2.0"`,
			second:  `import { extra } from '@shop/extra'; import { version } from 'shop-prices'; export default [extra, version];`,
			extra:   `["scoped","1.2.0"]`,
		},
		wire.Python: {
			packages: []string{"shop_prices<2"}, more: []string{"shop-extra==1.0.0"},
			program: "from shop_prices import version as result\n",
			handler: "import shop_prices\ndef handler(p): return shop_prices.version\n",
			want:    `"1.2.0"`,
			second:  "import shop_extra, shop_prices\nresult = [shop_extra.extra, shop_prices.version]\n",
			extra:   `["second","1.2.0"]`,
		},
	}
	for language, tc := range tests {
		t.Run(string(language), func(t *testing.T) {
			guest, registry := newPackagesGuest(t)
			guest.mustInstall(language, tc.packages...)
			inRoot := func(r *wire.RunRequest) { r.Folder = filepath.Join(guest.home, "..", "root", "workspace") }
			if reply := guest.run(language, tc.program); string(reply.Result) != tc.want {
				t.Errorf("a program: %s %s", reply.Result, reply.Run.Stderr)
			}
			if reply := guest.run(language, tc.program, inRoot); string(reply.Result) != tc.want {
				t.Errorf("a program elsewhere: %s %s", reply.Result, reply.Run.Stderr)
			}
			if reply := guest.call(language, tc.handler, "0"); string(reply.Result) != tc.want {
				t.Errorf("a handler: %s %v", reply.Result, reply.Error)
			}
			before := registry.seen()
			guest.mustInstall(language, tc.packages...)
			if after := registry.seen(); after != before {
				t.Errorf("a second installation made %d requests", after-before)
			}
			guest.mustInstall(language, tc.more...)
			if reply := guest.run(language, tc.second); string(reply.Result) != tc.extra {
				t.Errorf("after a second list: %s %s", reply.Result, reply.Run.Stderr)
			}
			if scraps, _ := filepath.Glob(filepath.Join(guest.home, "..", ".packages-*")); len(scraps) > 0 {
				t.Errorf("scraps: %v", scraps)
			}
		})
	}
}

// The list asked for last wins where two hold the same package.
func TestInstall_laterListWins(t *testing.T) {
	guest, _ := newPackagesGuest(t)
	for language, tc := range map[wire.Language]struct{ first, second, program string }{
		wire.Node:   {"shop-prices@1.0.0", "shop-prices@2.0.0", `import { version } from 'shop-prices'; export default version;`},
		wire.Python: {"shop-prices==1.0.0", "shop-prices==2.0.0", "from shop_prices import version as result\n"},
	} {
		guest.mustInstall(language, tc.first)
		guest.mustInstall(language, tc.second)
		if reply := guest.run(language, tc.program); string(reply.Result) != `"2.0.0"` {
			t.Errorf("%s: %s %s", language, reply.Result, reply.Run.Stderr)
		}
		guest.mustInstall(language, tc.first)
		if reply := guest.run(language, tc.program); string(reply.Result) != `"1.0.0"` {
			t.Errorf("%s: back again: %s %s", language, reply.Result, reply.Run.Stderr)
		}
	}
}

func TestInstall_concurrent(t *testing.T) {
	guest, _ := newPackagesGuest(t)
	body, _ := wire.Marshal(wire.InstallRequest{Language: wire.Python, Packages: []string{"shop-prices"}, TimeoutMs: 60_000})
	var installs sync.WaitGroup
	for range 3 {
		installs.Go(func() {
			reply, err := guest.execRaw(body, wire.CommandInstall)
			if err != nil || reply.Error != nil || reply.Run.ExitCode != 0 {
				t.Errorf("%v %v %+v", err, reply.Error, reply.Run)
			}
		})
	}
	installs.Wait()
	if reply := guest.run(wire.Python, "from shop_prices import version as result\n"); string(reply.Result) != `"2.0.0"` {
		t.Errorf("%s %s", reply.Result, reply.Run.Stderr)
	}
}

func TestInstall_failure(t *testing.T) {
	guest, registry := newPackagesGuest(t)
	for language, want := range map[wire.Language]string{wire.Node: "E404", wire.Python: "No matching distribution found for shop-nothing"} {
		reply := guest.install(language, "shop-nothing")
		if reply.Error != nil || reply.Run.ExitCode == 0 || !strings.Contains(reply.Run.Stderr, want) {
			t.Errorf("%s: want %q, got %v %+v", language, want, reply.Error, reply.Run)
		}
	}
	registry.Close()
	if reply := guest.install(wire.Python, "shop-prices"); reply.Error != nil || reply.Run.ExitCode == 0 || reply.Run.Stderr == "" {
		t.Errorf("without an index: %v %+v", reply.Error, reply.Run)
	}
	left, _ := filepath.Glob(filepath.Join(guest.home, "..", "*packages-*"))
	if len(left) > 0 {
		t.Errorf("a failed installation left %v", left)
	}
	guest.env = []string{"PATH=/nonexistent"}
	if reply := guest.install(wire.Node, "shop-prices"); reply.Error == nil || reply.Error.Kind != wire.InterpreterMissing {
		t.Errorf("without npm: %+v", reply)
	}
}

func TestInstall_deadline(t *testing.T) {
	guest, _ := newPackagesGuest(t)
	reply := guest.exec(wire.CommandInstall, wire.InstallRequest{Language: wire.Python, Packages: []string{"shop-prices"}, TimeoutMs: 20})
	if reply.Error != nil || !reply.Run.TimedOut {
		t.Errorf("want a timeout, got %v %+v", reply.Error, reply.Run)
	}
	if entries, _ := filepath.Glob(filepath.Join(guest.home, "..", "*packages-*")); len(entries) > 0 {
		t.Errorf("left: %v", entries)
	}
}

func TestInstall_refusal(t *testing.T) {
	guest := newGuest(t)
	tests := map[string]wire.InstallRequest{
		"an unknown language":     {Language: "ruby", Packages: []string{"x"}, TimeoutMs: 1},
		"no packages":             {Language: wire.Node, TimeoutMs: 1},
		"too many packages":       {Language: wire.Node, Packages: make([]string, wire.MaxPackages+1), TimeoutMs: 1},
		"no deadline":             {Language: wire.Node, Packages: []string{"x"}},
		"an option":               {Language: wire.Python, Packages: []string{"--index-url=http://127.0.0.1:9/"}, TimeoutMs: 1},
		"an address":              {Language: wire.Node, Packages: []string{"x", "http://127.0.0.1:9/x.tgz"}, TimeoutMs: 1},
		"a path":                  {Language: wire.Python, Packages: []string{"./x"}, TimeoutMs: 1},
		"a relative module place": {Language: wire.Node, Packages: []string{"x"}, TimeoutMs: 1, ModuleFolder: "here"},
		"a token that is none":    {Language: wire.Node, Packages: []string{"x"}, TimeoutMs: 1, Token: "../x"},
	}
	for name, request := range tests {
		if reply := guest.exec(wire.CommandInstall, request); reply.Error == nil || reply.Error.Kind != wire.BadRequest {
			t.Errorf("%s: got %+v", name, reply)
		}
	}
}

// A guest's own package of that name stays.
func TestInstall_keepsTheGuestsOwnModule(t *testing.T) {
	guest, _ := newPackagesGuest(t)
	own := filepath.Join(guest.home, "..", "root", "node_modules", "shop-prices")
	if err := os.MkdirAll(own, 0o755); err != nil {
		t.Fatal(err)
	}
	guest.mustInstall(wire.Node, "shop-prices@1.0.0")
	if info, err := os.Lstat(own); err != nil || !info.IsDir() {
		t.Errorf("it became %v, %v", info, err)
	}
}
