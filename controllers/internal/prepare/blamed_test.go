package prepare_test

import (
	"strings"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/controllers/internal/prepare"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

func TestPrepare_namesThePackage(t *testing.T) {
	for name, tc := range map[string]struct {
		language wire.Language
		packages []string
		said     wire.Run
		want     string
	}{
		"the only one": {wire.Node, []string{"left-pad@^1.3"}, wire.Run{}, "packages left-pad@^1.3: exited with 1"},
		"npm finds no package": {
			wire.Node, []string{"left-pad@^1.3", "left", "absent"},
			wire.Run{Stderr: "npm error 404 Not Found - GET http://registry/absent - Not found"},
			"packages absent: exited with 1: npm error 404 Not Found - GET http://registry/absent - Not found",
		},
		"npm finds no version of a scoped one": {
			wire.Node, []string{"@shop/pad@9", "pad-left@1"}, wire.Run{Stderr: "No matching version found for @shop/pad@9."},
			"packages @shop/pad@9: exited with 1: No matching version found for @shop/pad@9.",
		},
		"a script of npm fails": {
			wire.Node, []string{"a", "left-pad"}, wire.Run{Stderr: "npm error path /x/node_modules/left-pad"},
			"packages left-pad: exited with 1: npm error path /x/node_modules/left-pad",
		},
		"pip writes names in its own way": {
			wire.Python, []string{"Shop.Prices[all]>=2,<3", "shop"}, wire.Run{Stdout: "No matching distribution found for shop-prices>=2."},
			"packages Shop.Prices[all]>=2,<3: exited with 1: No matching distribution found for shop-prices>=2.",
		},
		"two that do not go together": {
			wire.Python, []string{"a==1", "b==2", "c"}, wire.Run{Stderr: "Cannot install a==1 and b==2 because of conflicts"},
			"packages a==1, b==2: exited with 1: Cannot install a==1 and b==2 because of conflicts",
		},
		"none is named": {wire.Python, []string{"a", "b"}, wire.Run{Stderr: "no space left"}, "packages: exited with 1: no space left"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.said.ExitCode = 1
			plan := prepare.Plan{Language: tc.language, Packages: tc.packages}
			guest := &agent{replies: map[string]wire.Reply{string(tc.language) + " " + strings.Join(tc.packages, " "): {Run: &tc.said}}}
			err := prepare.Prepare(t.Context(), guest, fake.New(), fake.New().Adopt("box", "node"), plan)
			if err == nil || err.Error() != tc.want {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

// Two attempts fail with the same words.
func TestPrepare_saysTheSameOfTwoAttempts(t *testing.T) {
	attempts := map[string]string{
		`npm error path /sandbox-operator/.packages-123/packages/node_modules/a
npm error command failed
npm error A complete log of this run can be found in: /sandbox-operator/.packages-123/work/npm/_logs/2026-01-01T00_00_00_000Z-debug-0.log
`: "packages a: exited with 1: npm error path /packages/node_modules/a\nnpm error command failed",
		`File "/sandbox-operator/.packages-77/work/pip-install-x3_k9abc/a/backend.py", line 2`: `packages a: exited with 1: File "/work/pip-install/a/backend.py", line 2`,
	}
	for said, want := range attempts {
		guest := &agent{replies: map[string]wire.Reply{"node a": {Run: &wire.Run{ExitCode: 1, Stderr: said}}}}
		plan := prepare.Plan{Language: wire.Node, Packages: []string{"a"}}
		err := prepare.Prepare(t.Context(), guest, fake.New(), fake.New().Adopt("box", "node"), plan)
		if err == nil || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}
