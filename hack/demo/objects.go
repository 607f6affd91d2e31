package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// showObjects lists what there is and checks that nothing in it is unwell.
func (d *demo) showObjects(ctx context.Context) error {
	if _, err := d.kubectl(ctx, "get", "sandbox"); err != nil {
		return err
	}
	text, err := d.kubectlQuietly(ctx, "get", "sandboxfunctions,sandboxruntimes", "-o",
		`jsonpath={range .items[*]}{.kind}/{.metadata.name}={.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}`)
	if err != nil {
		return err
	}
	for _, line := range strings.Fields(text) {
		object, ready, _ := strings.Cut(line, "=")
		if err := d.equal("Ready of "+object, ready, "True"); err != nil {
			return err
		}
	}
	return nil
}

// deleteAll deletes what the samples made and sees that nothing stays: no object,
// no function on the bus, no sandbox.
func (d *demo) deleteAll(ctx context.Context) error {
	if _, err := d.kubectl(ctx, "delete", "-k", "config/samples", "--timeout=60s"); err != nil {
		return err
	}
	if _, err := d.kubectl(ctx, "delete", "sandboxrun", "--all", "--timeout=60s"); err != nil {
		return err
	}
	for _, check := range []func(context.Context) error{d.noObjects, d.noFunctions, d.noSandboxes} {
		if err := d.eventually(ctx, check); err != nil {
			return err
		}
	}
	d.out.line("no object, no function, no sandbox left")
	return nil
}

func (d *demo) noObjects(ctx context.Context) error {
	text, err := d.kubectlQuietly(ctx, "get", "sandbox", "--all-namespaces", "-o", "name")
	if err == nil && strings.TrimSpace(text) != "" {
		err = fmt.Errorf("objects are left: %s", strings.Join(strings.Fields(text), ", "))
	}
	return err
}

func (d *demo) noFunctions(ctx context.Context) error {
	ids, err := d.busFunctions(ctx, "shop::")
	if err == nil && len(ids) > 0 {
		err = fmt.Errorf("functions are left on the bus: %s", strings.Join(ids, ", "))
	}
	return err
}

// noSandboxes counts only: the ids in the daemon's list are secrets.
func (d *demo) noSandboxes(ctx context.Context) error {
	value, _, err := d.client.call(ctx, "sandbox::list", map[string]any{}, callTimeout)
	if err != nil {
		return err
	}
	var list struct {
		Sandboxes []json.RawMessage `json:"sandboxes"`
	}
	if err := json.Unmarshal(value, &list); err != nil {
		return fmt.Errorf("sandbox::list: %w", err)
	}
	if len(list.Sandboxes) > 0 {
		return fmt.Errorf("%d sandboxes are left", len(list.Sandboxes))
	}
	return nil
}
