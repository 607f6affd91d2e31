package prepare

import (
	"regexp"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/controllers/internal/redact"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// maxOutput bounds what an Error quotes, in bytes.
const maxOutput = 512

// output is the end of what a step printed, with secrets taken out first: a cut
// through one of them would leave a part that nobody recognises.
func (p *Plan) output(run *wire.Run) string {
	text := steady(redact.Text(lastWords(run), p.Secrets))
	if len(text) <= maxOutput {
		return text
	}
	start := len(text) - maxOutput
	for start < len(text) && text[start]&0xC0 == 0x80 {
		start++
	}
	return "…" + text[start:]
}

// lastWords is what a step had to say of its failure.
func lastWords(run *wire.Run) string {
	if run.Stderr != "" {
		return run.Stderr
	}
	return run.Stdout
}

var (
	// workFolder is where the agent lets an installer work, for one attempt.
	workFolder = regexp.MustCompile(`[^\s'"]*/\.packages-\d+`)
	// pipFolder is one of pip's own.
	pipFolder = regexp.MustCompile(`\bpip-([a-z-]+)-[a-z0-9_]{8}\b`)
	// npmLog names a file that has gone with its folder.
	npmLog = regexp.MustCompile(`(?m)^npm \S+ A complete log of this run can be found in:.*\n?`)
)

// steady leaves out what differs from one attempt to the next, so that a status
// which says the same stays the same.
func steady(text string) string {
	text = workFolder.ReplaceAllString(npmLog.ReplaceAllString(text, ""), "")
	return strings.TrimSpace(pipFolder.ReplaceAllString(text, "pip-$1"))
}
