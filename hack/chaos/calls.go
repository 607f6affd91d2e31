package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus"
)

// callPatience is more than the functions' own limit.
const callPatience = 30 * time.Second

func (l *load) call(ctx context.Context, function string, payload any) (json.RawMessage, error) {
	data, err := json.Marshal(payload)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	return l.world.caller.Call(ctx, bus.Call{FunctionID: function, Data: data})
}

// answer is what the functions give.
type answer struct {
	ID      string `json:"id"`
	Version int    `json:"version"`
	Token   string `json:"token"`
}

// callSomebody calls any function. It may fail; an answer must be its own.
func (l *load) callSomebody(ctx context.Context) {
	if i := rand.IntN(len(l.subjects) + 1); i < len(l.subjects) {
		s := l.subjects[i]
		oldest, _ := s.versions()
		token, got, err := l.ask(ctx, s.id)
		_, newest := s.versions()
		l.noteCall(s.id, err)
		if err == nil {
			l.check(got, answer{ID: s.id, Token: token}, oldest, newest)
		}
		return
	}
	token, got, err := l.ask(ctx, busFunction)
	l.noteCall(busFunction, err)
	if err == nil {
		l.check(got, answer{ID: busFunction, Token: token}, 1, 1)
	}
}

// slanders are the codes that blame the handler or its caller, who do nothing wrong.
var slanders = []string{"handler_error", "invalid_request", "resource_exhausted"}

func (l *load) noteCall(id string, err error) {
	l.note("call", err)
	l.pulse.beat(err == nil)
	if err != nil && slices.Contains(slanders, class(err)) {
		l.blame("%s fails as if it were its own fault: %s", id, err)
	}
}

// ask calls a function with a new token.
func (l *load) ask(ctx context.Context, id string) (token string, got answer, err error) {
	token = newToken("call", l.numbers.Add(1))
	data, err := l.call(ctx, id, m{"token": token})
	if err != nil {
		return token, got, err
	}
	err = json.Unmarshal(data, &got)
	return token, got, err
}

func (l *load) check(got, want answer, oldest, newest int) {
	switch {
	case got.ID != want.ID || got.Token != want.Token:
		l.blame("%s was called with %s and %s answered for %s", want.ID, want.Token, got.ID, got.Token)
	case got.Version < oldest || got.Version > newest:
		l.blame("%s answered with version %d; %d to %d were served while %s was under way", want.ID, got.Version, oldest, newest, want.Token)
	}
}

// askAll asks every function for its newest version, and says which does not give
// it.
func (l *load) askAll(ctx context.Context) []string {
	ids, versions := []string{busFunction}, []int{1}
	for _, s := range l.subjects {
		_, newest := s.versions()
		ids, versions = append(ids, s.id), append(versions, newest)
	}
	problems := make([]string, len(ids))
	var asking sync.WaitGroup
	for i := range ids {
		asking.Go(func() { problems[i] = l.askOne(ctx, ids[i], versions[i]) })
	}
	asking.Wait()
	return nonEmpty(problems)
}

func (l *load) askOne(ctx context.Context, id string, version int) string {
	token, got, err := l.ask(ctx, id)
	if err != nil {
		return fmt.Sprintf("%s does not answer: %s", id, err)
	}
	if want := (answer{ID: id, Version: version, Token: token}); got != want {
		return fmt.Sprintf("%s answers %+v, not %+v", id, got, want)
	}
	return ""
}

func nonEmpty(texts []string) []string {
	var kept []string
	for _, text := range texts {
		if text != "" {
			kept = append(kept, text)
		}
	}
	return kept
}

// workerCode is in the errors of the operator's functions.
var workerCode = regexp.MustCompile(`handler error: sandbox-code-runner::([a-z_]+): `)

// class is a short word for an error.
func class(err error) string {
	switch {
	case bus.IsNotConnected(err):
		return "not connected"
	case bus.IsConnectionLost(err):
		return "connection lost"
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer"
	}
	if found := workerCode.FindStringSubmatch(err.Error()); found != nil {
		return found[1]
	}
	if code := bus.RemoteCode(err); code != "" {
		return strings.ToLower(code)
	}
	return "other"
}
