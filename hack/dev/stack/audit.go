package stack

import (
	"fmt"
	"path/filepath"
)

// AuditPath is where Options.Audit has the API server write its log: a JSON
// object of the kind audit.k8s.io/v1 Event a line, without the bodies of requests.
func (s *Stack) AuditPath() string { return filepath.Join(s.options.LogDir, "audit.log") }

// auditPolicy logs what one user asks for, once it is answered. A watch is
// answered at its end, so its beginning counts too.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    users: [%q]
  - level: None
`

// auditFlags are the API server's, none without Options.Audit. It writes each
// line before it answers.
func (s *Stack) auditFlags() ([]string, error) {
	if !s.options.Audit {
		return nil, nil
	}
	policy := filepath.Join(s.stateDir(), "audit-policy.yaml")
	return []string{
		"--audit-policy-file=" + policy, "--audit-log-path=" + s.AuditPath(), "--audit-log-mode=blocking",
	}, writeFile(policy, fmt.Appendf(nil, auditPolicy, s.account.userName()))
}
