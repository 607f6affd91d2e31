package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// same fails unless an answer is the wanted JSON value.
func (d *demo) same(what string, got json.RawMessage, want string) error {
	var gotValue, wantValue any
	if err := json.Unmarshal([]byte(want), &wantValue); err != nil {
		return fmt.Errorf("the demo itself is wrong: %w", err)
	}
	if err := json.Unmarshal(got, &gotValue); err != nil {
		return fmt.Errorf("%s answers what is not JSON: %q", what, got)
	}
	if !reflect.DeepEqual(gotValue, wantValue) {
		return fmt.Errorf("%s answers %s, want %s", what, got, want)
	}
	d.report.Checks++
	return nil
}

// equal fails unless a text is the wanted one.
func (d *demo) equal(what, got, want string) error {
	if got != want {
		return fmt.Errorf("%s is %q, want %q", what, got, want)
	}
	d.report.Checks++
	return nil
}

// settlePatience bounds what may still be going on after a command returned.
const settlePatience = 30 * time.Second

// eventually asks until the answer is nil and returns the last one if time runs
// out.
func (d *demo) eventually(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, settlePatience)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			d.report.Checks++
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}
