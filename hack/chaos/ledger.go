package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"sync"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// ledger counts, at the daemon's door, how often each call and each run is executed.
// Every one carries a token; an execution that the daemon or the agent refused does
// not count, one whose answer nobody saw does.
type ledger struct {
	mutex sync.Mutex
	// executions are counted by token, open are the tokens of those without an
	// answer, by invocation.
	executions map[string]int
	open       map[string]string
}

func newLedger() *ledger { return &ledger{executions: map[string]int{}, open: map[string]string{}} }

// tokenPattern matches tokens wherever they stand in a request.
var tokenPattern = regexp.MustCompile(`tkn-[a-z]+-[0-9]+`)

func newToken(what string, number int64) string { return fmt.Sprintf("tkn-%s-%d", what, number) }

// Passed implements link.Observer.
func (l *ledger) Passed(invocation string, call *protocol.InvokeFunction) {
	if call.FunctionID != "sandbox::exec" {
		return
	}
	token := tokenOf(call.Data)
	if token == "" {
		return
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.executions[token]++
	l.open[invocation] = token
}

func tokenOf(request json.RawMessage) string {
	var exec struct {
		Stdin string `json:"stdin"`
	}
	if json.Unmarshal(request, &exec) != nil {
		return ""
	}
	stdin, err := base64.StdEncoding.DecodeString(exec.Stdin)
	if err != nil {
		return ""
	}
	return string(tokenPattern.Find(stdin))
}

// Answered implements link.Observer.
func (l *ledger) Answered(answer *protocol.InvocationResult) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	token, known := l.open[answer.InvocationID]
	delete(l.open, answer.InvocationID)
	if known && refused(answer) {
		l.executions[token]--
	}
}

// refusals are the daemon's codes for programs that it did not start: no such
// sandbox, no free place in it, one that is being stopped
// (contracts/iii-sandbox.md §2.2).
var refusals = regexp.MustCompile(`"code": ?"S00[1-4]"`)

// exitMissing is the exit code of a program that is not there.
const exitMissing = 127

func refused(answer *protocol.InvocationResult) bool {
	if answer.Error != nil {
		return refusals.MatchString(answer.Error.Message)
	}
	var exec struct {
		Stdout   string `json:"stdout"`
		ExitCode *int   `json:"exit_code"`
	}
	if json.Unmarshal(answer.Result, &exec) != nil {
		return false
	}
	reply, err := guest.ParseReply([]byte(exec.Stdout))
	if err != nil {
		return exec.ExitCode != nil && *exec.ExitCode == exitMissing
	}
	return reply.Error != nil && reply.Error.Kind == wire.NotPlanted
}

// count is how often what carried the token was executed.
func (l *ledger) count(token string) int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.executions[token]
}

// repeated says what was executed more than once.
func (l *ledger) repeated() []string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var problems []string
	for token, count := range l.executions {
		if count > 1 {
			problems = append(problems, fmt.Sprintf("%s was executed %d times", token, count))
		}
	}
	return problems
}

// total is how many executions there were.
func (l *ledger) total() int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	total := 0
	for _, count := range l.executions {
		total += count
	}
	return total
}
