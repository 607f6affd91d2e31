package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/gomega"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// The functions of the contract.
const (
	workerName = "sandbox-code-runner"
	runID      = workerName + "::run"
	registerID = workerName + "::register_function"
	teardownID = workerName + "::teardown"
	listID     = workerName + "::list_runtimes"
	guidanceID = workerName + "::inject-guidance"
	eventType  = workerName + "::event"
)

// anyRuntimeID fits every runtime id in a text.
var anyRuntimeID = regexp.MustCompile(`rt-[0-9a-f]{8}-`)

// answer is what run answers (contracts/code-runner.md §4.1).
type answer struct {
	RuntimeID  *string         `json:"runtime_id"`
	Stdout     string          `json:"stdout"`
	Stderr     string          `json:"stderr"`
	ExitCode   int             `json:"exit_code"`
	Success    bool            `json:"success"`
	DurationMS uint64          `json:"duration_ms"`
	Result     json.RawMessage `json:"result"`
	Truncated  bool            `json:"truncated"`
	// keys are the names that the answer has.
	keys []string
}

// try calls a function as the row's caller.
func (t *row) try(function string, payload any) (json.RawMessage, error) {
	return t.tryAs(callerName, function, payload)
}

func (t *row) tryAs(worker, function string, payload any) (json.RawMessage, error) {
	return t.callers.do(t.ctx, "trigger", m{"worker": worker, "function_id": function, "payload": payload})
}

// call expects an answer and returns its JSON text.
func (t *row) call(function string, payload any) string {
	return string(must(t.try(function, payload)))
}

// run calls run and expects an answer, whatever the program did.
func (t *row) run(request m) answer {
	text := must(t.try(runID, request))
	var a answer
	t.ok(json.Unmarshal(text, &a))
	a.keys = keysOf(text)
	if a.RuntimeID != nil && request["runtime_id"] == nil {
		t.teardownLater(m{"runtime_id": *a.RuntimeID})
	}
	return a
}

// node and python run a program once.
func (t *row) node(code string) answer   { return t.run(m{"lang": "node", "code": code}) }
func (t *row) python(code string) answer { return t.run(m{"lang": "python", "code": code}) }

// prints expects a program that ends well with this output.
func (t *row) prints(lang, code, output string) {
	got := t.run(m{"lang": lang, "code": code, "timeout_ms": 20_000})
	t.Expect(got.Stdout).To(Equal(output), "%s: exit %d: %s", lang, got.ExitCode, got.Stderr)
	t.Expect(got.Success).To(BeTrue(), got.Stderr)
}

func keysOf(text json.RawMessage) []string {
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil {
		return nil
	}
	keys := make([]string, 0, len(object))
	for key := range object {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// keep makes a kept runtime that goes with the row.
func (t *row) keep(lang string) (id string) { return t.keepAfter(lang, "1") }

// keepAfter makes one whose first program is this.
func (t *row) keepAfter(lang, code string) (id string) {
	got := t.run(m{"lang": lang, "code": code, "keep": true, "timeout_ms": 20_000})
	t.Expect(got.RuntimeID).NotTo(BeNil(), got.Stderr)
	return *got.RuntimeID
}

// in runs a program in a kept runtime.
func (t *row) in(id, code string) answer {
	return t.run(m{"runtime_id": id, "code": code, "timeout_ms": 20_000})
}

// prefix is an id prefix that no other row uses.
func (t *row) prefix() string { return "row-" + strings.ToLower(t.id) }

// register publishes a function under the row's prefix, which goes with the row.
func (t *row) register(name, lang, source string) (id string) {
	id = t.prefix() + "::" + name
	t.registerAs(m{"function_id": id, "lang": lang, "source": source})
	return id
}

func (t *row) registerAs(request m) {
	id := request["function_id"].(string)
	t.teardownLater(m{"namespace": prefixOf(id)})
	t.Expect(t.call(registerID, request)).To(MatchJSON(fmt.Sprintf(`{"function_id":%q,"registered":true}`, id)))
}

func prefixOf(id string) string {
	prefix, _, _ := strings.Cut(id, "::")
	return prefix
}

// teardown expects success and returns the answer.
func (t *row) teardown(selector m) string { return t.call(teardownID, selector) }

// teardownLater makes sure that the row leaves nothing.
func (t *row) teardownLater(selector m) {
	t.after(func(t *row) {
		_, err := t.try(teardownID, selector)
		if err != nil && !strings.Contains(err.Error(), "::runtime_not_found: ") {
			panic(failure{"teardown: " + err.Error()})
		}
	})
}

// refuses expects an error of the contract: its code, words of its text, and no
// id that the caller did not send. It returns the text after the code.
func (t *row) refuses(code, function string, payload any, words ...string) string {
	answer, err := t.try(function, payload)
	if err == nil {
		panic(failure{fmt.Sprintf("%s answered %.300s, want the error %s", function, answer, code)})
	}
	return t.isRefusal(err, code, payload, words...)
}

func (t *row) isRefusal(err error, code string, payload any, words ...string) string {
	var refused *refusal
	if !errors.As(err, &refused) {
		panic(failure{err.Error()})
	}
	_, text, found := strings.Cut(refused.Message, workerName+"::"+code+": ")
	t.Expect(found).To(BeTrue(), "want the code %s in %q", code, refused.Message)
	t.Expect(text).NotTo(BeEmpty())
	for _, word := range words {
		t.Expect(text).To(ContainSubstring(word))
	}
	for _, id := range t.secretsUnknownTo(payload) {
		t.Expect(strings.Contains(refused.Message+refused.Stacktrace, id)).To(BeFalse(), "the error has an id that its caller did not send")
	}
	return text
}

// secretsUnknownTo are ids that an error may not have, since the request does
// not have them.
func (t *row) secretsUnknownTo(payload any) []string {
	sent, _ := json.Marshal(payload)
	ids := []string{}
	if !anyRuntimeID.Match(sent) {
		ids = append(ids, "rt-")
	}
	for _, box := range t.fleet() {
		ids = append(ids, box.ID)
	}
	return ids
}

// listed are the ids on the bus that begin with a prefix.
func (t *row) listed(prefix string) []string {
	var list struct {
		Functions []struct {
			ID string `json:"function_id"`
		} `json:"functions"`
	}
	t.ok(json.Unmarshal(must(t.try("engine::functions::list", m{"prefix": prefix, "include_internal": true})), &list))
	ids := []string{}
	for _, f := range list.Functions {
		ids = append(ids, f.ID)
	}
	slices.Sort(ids)
	return ids
}

// info is the catalog's entry of a function.
func (t *row) info(id string) m {
	var entry m
	t.ok(json.Unmarshal(must(t.try("engine::functions::info", m{"function_id": id})), &entry))
	return entry
}

// gone expects a call to find nobody.
func (t *row) gone(id string) {
	_, err := t.try(id, m{})
	t.Expect(err).To(MatchError(ContainSubstring("not_found")))
}

// worker connects another caller, which leaves with the row.
func (t *row) worker() (name string) {
	t.mutex.Lock()
	t.workers++
	name = fmt.Sprintf("%s-%s-%d", callerName, strings.ToLower(t.id), t.workers)
	t.mutex.Unlock()
	must(t.callers.do(t.ctx, "connect", m{"worker": name}))
	t.after(func(t *row) { t.leave(name) })
	return name
}

// leave ends a worker's connection; once is enough.
func (t *row) leave(name string) { _, _ = t.callers.do(t.ctx, "leave", m{"worker": name}) }

// serve makes a worker serve a function: body is that of an async JavaScript
// function of payload and iii.
func (t *row) serve(worker, id, body string) {
	must(t.callers.do(t.ctx, "serve", m{"worker": worker, "function_id": id, "body": body}))
}

// scriptDaemon answers or changes calls to the daemon until the row ends.
func (t *row) scriptDaemon(rules ...*rule) { t.script(t.daemonTap, rules) }

// scriptEngine does so with calls that the operator makes.
func (t *row) scriptEngine(rules ...*rule) { t.script(t.operatorTap, rules) }

func (t *row) script(at *tap, rules []*rule) {
	t.scripted = true
	for _, r := range rules {
		remove := at.script(r)
		t.after(func(*row) { remove() })
	}
}

// busFault is a failure as the engine words it.
func busFault(code, text string) *protocol.ErrorBody {
	return &protocol.ErrorBody{Code: code, Message: text}
}
