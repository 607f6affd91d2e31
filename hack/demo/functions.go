package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// callTimeout bounds one call, the boot of a stopped sandbox included.
const callTimeout = 30 * time.Second

// calls is over how many calls of a function the median is.
const calls = 20

// The samples' functions and what they must answer.
const (
	priceFunction = "shop::price"
	quoteFunction = "shop::quote"
	priceAnswer   = `{"item":"tea","quantity":2,"total":700}`
	quoteAnswer   = `{"lines":[{"item":"tea","quantity":2,"total":700},{"item":"cake","quantity":1,"total":500}],"total":1200,"currency":"EUR"}`
)

var (
	pricePayload = map[string]any{"item": "tea", "quantity": 2}
	quotePayload = map[string]any{"lines": []any{
		map[string]any{"item": "tea", "quantity": 2}, map[string]any{"item": "cake", "quantity": 1},
	}}
)

// connectClient shows that the bus is an ordinary one: a program of npm's SDK
// finds its built-in functions.
func (d *demo) connectClient(ctx context.Context) error {
	dir, err := installClient(ctx, func(text string) { d.out.line("%s", text) })
	if err != nil {
		return err
	}
	if d.client, err = startClient(dir, d.stack.BusURL); err != nil {
		return err
	}
	functions, err := d.busFunctions(ctx, "")
	if err != nil {
		return err
	}
	d.out.line("%s on %s: %d functions on the bus", "iii-sdk", d.stack.BusURL, len(functions))
	if len(functions) == 0 {
		return fmt.Errorf("the bus lists no function; want at least the operator's")
	}
	return nil
}

// busFunctions lists the ids on the bus that begin with a prefix.
func (d *demo) busFunctions(ctx context.Context, prefix string) ([]string, error) {
	value, _, err := d.client.call(ctx, "engine::functions::list", map[string]any{}, callTimeout)
	if err != nil {
		return nil, err
	}
	var list struct {
		Functions []struct {
			ID string `json:"function_id"`
		} `json:"functions"`
	}
	if err := json.Unmarshal(value, &list); err != nil {
		return nil, fmt.Errorf("engine::functions::list: %w", err)
	}
	var ids []string
	for _, f := range list.Functions {
		if strings.HasPrefix(f.ID, prefix) {
			ids = append(ids, f.ID)
		}
	}
	return ids, nil
}

func (d *demo) applySamples(ctx context.Context) error {
	began := time.Now()
	if _, err := d.kubectl(ctx, "apply", "-k", "config/samples"); err != nil {
		return err
	}
	if _, err := d.kubectl(ctx, "wait", "--for=condition=Ready", "sandboxfunction", "--all", "--timeout=120s"); err != nil {
		return err
	}
	d.report.ApplyReadyMS = milliseconds(time.Since(began))
	ids, err := d.busFunctions(ctx, "shop::")
	if err != nil {
		return err
	}
	d.report.Functions = len(ids)
	return d.equal("the number of functions on the bus", fmt.Sprint(len(ids)), "2")
}

// callFunctions checks every answer, not only the first.
func (d *demo) callFunctions(ctx context.Context) error {
	var err error
	if d.report.NodeCallMS, err = d.callMany(ctx, priceFunction, pricePayload, priceAnswer); err != nil {
		return err
	}
	d.report.PythonCallMS, err = d.callMany(ctx, quoteFunction, quotePayload, quoteAnswer)
	return err
}

func (d *demo) callMany(ctx context.Context, function string, payload any, want string) (float64, error) {
	var times []float64
	for i := range calls {
		value, ms, err := d.client.call(ctx, function, payload, callTimeout)
		if err != nil {
			return 0, err
		}
		if i == 0 {
			d.showCall(function, payload, value)
		}
		if err := d.same(function, value, want); err != nil {
			return 0, err
		}
		d.report.Calls++
		times = append(times, ms)
	}
	d.out.line("%d calls, each in a fresh process: median %.1f ms", calls, median(times))
	return median(times), nil
}

// showCall shows a call as the client's program has it.
func (d *demo) showCall(function string, payload any, value json.RawMessage) {
	text, err := json.Marshal(payload)
	if err != nil {
		text = []byte(err.Error())
	}
	d.out.command(fmt.Sprintf("iii.trigger({ function_id: '%s', payload: %s })", function, text))
	d.out.text(string(value))
}

// editSource changes one number in the sample. kubectl wait returns only once the
// new generation is Ready, so the very next call must have the new answer.
func (d *demo) editSource(ctx context.Context) error {
	const before, after = "tea: 350", "tea: 400"
	text, err := os.ReadFile(filepath.Join(d.root, "config", "samples", "function-node.yaml"))
	if err != nil {
		return err
	}
	edited := strings.Replace(string(text), before, after, 1)
	if edited == string(text) {
		return fmt.Errorf("config/samples/function-node.yaml has no %q any more", before)
	}
	path := filepath.Join(d.dir, "function-node.yaml")
	if err := os.WriteFile(path, []byte(edited), 0o600); err != nil {
		return err
	}
	d.out.command(fmt.Sprintf("sed -i 's/%s/%s/' function-node.yaml", before, after))
	began := time.Now()
	if _, err := d.kubectl(ctx, "apply", "-f", path); err != nil {
		return err
	}
	if _, err := d.kubectl(ctx, "wait", "--for=condition=Ready", "sandboxfunction/price", "--timeout=60s"); err != nil {
		return err
	}
	value, _, err := d.client.call(ctx, priceFunction, pricePayload, callTimeout)
	if err != nil {
		return err
	}
	d.report.EditReadyMS = milliseconds(time.Since(began))
	d.report.Calls++
	d.showCall(priceFunction, pricePayload, value)
	return d.same(priceFunction, value, strings.Replace(priceAnswer, "700", "800", 1))
}
