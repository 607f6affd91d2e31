package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// language is one that handlers are written in.
type language struct {
	name      string
	api       v1alpha1.Language
	extension string
}

var languages = []language{
	{"node", v1alpha1.LanguageNode, "mjs"},
	{"python", v1alpha1.LanguagePython, "py"},
}

// work is what a handler does, the same in each language.
type work struct {
	name string
	// sources are by the name of the language.
	sources map[string]string
	// extra is added to every payload: members of a JSON object, with a comma first.
	extra string
	// more is what the answer to n is above n.
	more int
	// triggers says that the handler calls a function on the bus.
	triggers bool
}

const (
	blobBytes = 256 << 10
	// peerFunction adds one; this program answers it.
	peerFunction = "benchpeer::next"
)

var works = []work{
	{name: "empty", sources: map[string]string{
		"node":   "export const handler = ({ n }) => n;\n",
		"python": "def handler(payload):\n    return payload[\"n\"]\n",
	}},
	// Processor time, not time: a handler that waits for a processor has as much to do.
	{name: "cpu10", sources: map[string]string{
		"node": `export function handler({ n }) {
  const began = process.cpuUsage();
  for (;;) {
    const { user, system } = process.cpuUsage(began);
    if (user + system >= 10_000) return n;
  }
}
`,
		"python": `import time

def handler(payload):
    end = time.process_time() + 0.01
    while time.process_time() < end:
        pass
    return payload["n"]
`,
	}},
	{name: "large", extra: `,"blob":"` + strings.Repeat("x", blobBytes) + `"`, more: blobBytes, sources: map[string]string{
		"node":   "export const handler = ({ n, blob }) => n + blob.length;\n",
		"python": "def handler(payload):\n    return payload[\"n\"] + len(payload[\"blob\"])\n",
	}},
	{name: "trigger", more: 1, triggers: true, sources: map[string]string{
		"node":   "export const handler = ({ n }) => iii.trigger({ function_id: '" + peerFunction + "', payload: { n } });\n",
		"python": "def handler(payload):\n    return iii.trigger({\"function_id\": \"" + peerFunction + "\", \"payload\": {\"n\": payload[\"n\"]}})\n",
	}},
}

func workNamed(name string) (work, error) {
	for _, w := range works {
		if w.name == name {
			return w, nil
		}
	}
	return work{}, fmt.Errorf("there is no handler %q", name)
}

// payload differs from call to call, so that no answer can be taken for another's.
func (w work) payload(n int) json.RawMessage {
	return fmt.Appendf(nil, `{"n":%d%s}`, n, w.extra)
}

// check looks whether an answer is that to n.
func (w work) check(n int, answer []byte) error {
	if want := fmt.Sprint(n + w.more); string(bytes.TrimSpace(answer)) != want {
		return fmt.Errorf("%s answers %q, want %s", w.name, cut(answer), want)
	}
	return nil
}

// cut keeps messages short.
func cut(text []byte) []byte { return text[:min(len(text), 200)] }
