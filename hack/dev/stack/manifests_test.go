package stack

import (
	"strings"
	"testing"
)

const account = `apiVersion: v1
kind: ServiceAccount
metadata:
  name: manager
  namespace: system`

func TestSelectManifests(t *testing.T) {
	const namespace = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: runs"
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: manager\n  namespace: system"
	for sentence, tc := range map[string]struct {
		rendered  []string
		has, not  string
		wantError string
	}{
		"a missing namespace for runs is added":   {rendered: []string{account}, has: "name: runs"},
		"what needs Pods is left out":             {rendered: []string{account, deployment}, not: "Deployment"},
		"the rest stays":                          {rendered: []string{deployment, account}, has: "kind: ServiceAccount"},
		"without a service account it is refused": {rendered: []string{namespace}, wantError: "no ServiceAccount"},
		"text that is not YAML is refused":        {rendered: []string{account, "a: b: c"}, wantError: "reading config/default"},
	} {
		t.Run(sentence, func(t *testing.T) {
			m, err := selectManifests([]byte(strings.Join(tc.rendered, "\n---\n")), "runs")
			if tc.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantError) {
					t.Fatalf("got %v, want an error with %q", err, tc.wantError)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if m.account.userName() != "system:serviceaccount:system:manager" {
				t.Errorf("the operator is %s", m.account.userName())
			}
			if !strings.Contains(string(m.text), tc.has) {
				t.Errorf("%q is missing in:\n%s", tc.has, m.text)
			}
			if tc.not != "" && strings.Contains(string(m.text), tc.not) {
				t.Errorf("%q is still in:\n%s", tc.not, m.text)
			}
		})
	}

	t.Run("a namespace for runs that is there is not repeated", func(t *testing.T) {
		m, err := selectManifests([]byte(account+"\n---\n"+namespace+"\n"), "runs")
		if err != nil {
			t.Fatal(err)
		}
		if count := strings.Count(string(m.text), "kind: Namespace"); count != 1 {
			t.Errorf("%d namespaces, want 1", count)
		}
	})
}
