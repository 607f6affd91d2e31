package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

// request is one line of the API server's audit log: what the operator asked for.
type request struct {
	Verb      string
	ObjectRef struct {
		APIGroup, Resource, Subresource, Namespace, Name string
	}
	Annotations map[string]string
}

func (r request) denied() bool { return r.Annotations["authorization.k8s.io/decision"] != "allow" }

// grant names what a request used, as grants of a role are named.
func (r request) grant() string {
	return grant(r.ObjectRef.APIGroup, joinSub(r.ObjectRef.Resource, r.ObjectRef.Subresource), r.Verb)
}

func (r request) String() string { return r.grant() + " in " + r.ObjectRef.Namespace }

func grant(group, resource, verb string) string {
	if group != "" {
		resource += "." + group
	}
	return verb + " " + resource
}

func joinSub(resource, subresource string) string {
	if subresource == "" {
		return resource
	}
	return resource + "/" + subresource
}

// allowedBy is how the API server says which role let a request pass.
var allowedBy = regexp.MustCompile(`of (ClusterRole|Role) "([^"]+)"`)

// role is the role that a request used, such as Role/sandbox-operator-runs-role.
func (r request) role() string {
	found := allowedBy.FindStringSubmatch(r.Annotations["authorization.k8s.io/reason"])
	if found == nil {
		return ""
	}
	return found[1] + "/" + found[2]
}

// auditSize is where the log ends now.
func auditSize() int64 {
	GinkgoHelper()
	info, err := os.Stat(running.AuditPath())
	Expect(err).NotTo(HaveOccurred())
	return info.Size()
}

// quietAudit waits until nothing has been added to the log for a second, and
// returns where it ends.
func quietAudit(ctx context.Context) int64 {
	GinkgoHelper()
	end := auditSize()
	Eventually(ctx, func() bool {
		before := end
		end = auditSize()
		return before == end
	}).WithPolling(time.Second).Should(BeTrue())
	return end
}

// requestsSince reads the log from there on.
func requestsSince(offset int64) []request {
	GinkgoHelper()
	file, err := os.Open(running.AuditPath())
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = file.Close() }()
	_, err = file.Seek(offset, io.SeekStart)
	Expect(err).NotTo(HaveOccurred())
	var requests []request
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return requests // a line that is being written has no end yet
		}
		Expect(err).NotTo(HaveOccurred())
		var r request
		Expect(json.Unmarshal(line, &r)).To(Succeed())
		requests = append(requests, r)
	}
}

// expectNothingDenied is for the whole suite: the operator asks for nothing that
// its roles do not give.
func expectNothingDenied() {
	GinkgoHelper()
	requests := requestsSince(0)
	Expect(requests).NotTo(BeEmpty(), "the audit log is empty")
	Expect(deniedOf(requests)).To(BeEmpty(), "requests of the operator that were denied")
}

func deniedOf(requests []request) []string {
	denied := []string{}
	for _, r := range requests {
		if r.denied() && !slices.Contains(denied, r.String()) {
			denied = append(denied, r.String())
		}
	}
	return denied
}

// manifestRole is a role as config says it.
type manifestRole struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Rules    []struct {
		APIGroups, Resources, Verbs []string
	}
}

// grants lists what a role gives.
func (m manifestRole) grants() []string {
	var all []string
	for _, rule := range m.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, grant(group, resource, verb))
				}
			}
		}
	}
	return all
}

// render builds a folder of config with kubectl's kustomize.
func render(ctx context.Context, folder string) []string {
	GinkgoHelper()
	var documents []string
	for _, document := range bytes.Split([]byte(kubectl(ctx, "kustomize", folder)), []byte("\n---\n")) {
		documents = append(documents, string(document))
	}
	return documents
}

// documentsOf picks the documents of some kinds whose text matches.
func documentsOf(documents []string, words string, kinds ...string) []string {
	return slices.DeleteFunc(slices.Clone(documents), func(document string) bool {
		var m manifestRole
		return yaml.Unmarshal([]byte(document), &m) != nil || !slices.Contains(kinds, m.Kind) || !strings.Contains(document, words)
	})
}

// rolesOf reads the roles that a folder of config gives the operator.
func rolesOf(ctx context.Context, folder string) []manifestRole {
	GinkgoHelper()
	var roles []manifestRole
	for _, document := range documentsOf(render(ctx, folder), "-role\n", "ClusterRole", "Role") {
		var m manifestRole
		Expect(yaml.Unmarshal([]byte(document), &m)).To(Succeed())
		roles = append(roles, m)
	}
	return roles
}
