package prepare_test

import (
	"strings"
	"testing"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/prepare"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

func TestCheck(t *testing.T) {
	literal := func(size int) []sandboxv1alpha1.File {
		content := strings.Repeat("é", size/2)
		return []sandboxv1alpha1.File{{Path: "/a", Content: &content}}
	}
	for name, tc := range map[string]struct {
		files    []sandboxv1alpha1.File
		packages []string
		language wire.Language
		want     string
	}{
		"all that is allowed": {literal(32 << 10), []string{"left-pad@^1.3", "@scope/name"}, wire.Node, ""},
		"a literal that is too large": {literal(32<<10 + 2), nil, wire.Node,
			"files /a: content has 32770 bytes, 32768 are allowed; use contentFrom"},
		"a package of the other language": {nil, []string{"ok", "flask[async]==2.0"}, wire.Node,
			`packages[1]: "flask[async]==2.0" is not an npm package: name or name@range`},
		"an option": {nil, []string{"--index-url=x"}, wire.Python,
			`packages[0]: "--index-url=x" is not a Python package: name, name[extra] or name==version`},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			err := prepare.Check(&sandboxv1alpha1.GuestSpec{Files: tc.files}, prepare.Plan{Language: tc.language, Packages: tc.packages})
			if err != nil {
				got = err.Error()
			}
			if got != tc.want || prepare.IsInvalid(err) != (err != nil) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
