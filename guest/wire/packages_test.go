package wire

import (
	"strings"
	"testing"
)

func TestCheckRequirement(t *testing.T) {
	tests := map[Language]struct{ good, bad []string }{
		Node: {
			good: []string{"left-pad", "left-pad@1.3.0", "@scope/name", "@scope/name@^1.2.0 || >=3 <4", "lodash@latest", "a.b_c@~1", "x@*"},
			bad: []string{"", "-g", "--registry=http://x", "./folder", "../up", "/tmp/x", "x@file:../x", "x@http://h/x.tgz", "git+ssh://h/x",
				"user/repo", "x@npm:y", "x@", "Upper", "x\ny", "x;y", "x@1;y", "$(x)", " x", "x ", "x@github:u/r", "@/x", "x@-1\n"},
		},
		Python: {
			good: []string{"requests", "requests==2.32.0", "Flask[async,dotenv]>=2,<4", "zope.interface ~= 6.0", "a_b!=1.*", "torch==2.1.0+cpu", "x===1"},
			bad: []string{"", "-r x", "--index-url=http://x", "./x", "../x", "/tmp/x.whl", "x @ http://h/x.whl", "x@http://h", "git+https://h/x",
				"x; os_name=='nt'", "x\ny", "x==", "x -r y", " x", "x ", "x==1 --hash=y", "x.whl/..", "x[", "http://h/x", "x=1", "x==-1"},
		},
		"ruby": {bad: []string{"rake"}},
	}
	for language, tc := range tests {
		for _, requirement := range tc.good {
			if err := CheckRequirement(language, requirement); err != nil {
				t.Errorf("%s %q: %v", language, requirement, err)
			}
		}
		for _, requirement := range append(tc.bad, strings.Repeat("x", MaxRequirementBytes+1)) {
			if err := CheckRequirement(language, requirement); err == nil {
				t.Errorf("%s %q was accepted", language, requirement)
			}
		}
	}
}
