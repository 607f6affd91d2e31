package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/hack/bench/results"
)

// report prints the numbers and writes them as JSON, Markdown and SVG, side by side;
// with publish the page and its picture in docs get them too.
func (b *bench) report(ctx context.Context, out string, publish bool) error {
	b.set.Store(b.metrics)
	failed, calls := b.set.Failed()
	b.metrics["calls"], b.metrics["calls_failed"] = float64(calls), float64(failed)
	b.printMetrics()
	if err := b.metrics.Write(out); err != nil {
		return err
	}
	var picture bytes.Buffer
	if err := b.set.Plot(&picture); err != nil {
		return fmt.Errorf("drawing the plot: %w", err)
	}
	text := b.text(ctx)
	base := strings.TrimSuffix(out, filepath.Ext(out))
	if err := writeFiles(map[string][]byte{base + ".md": []byte(text), base + ".svg": picture.Bytes()}); err != nil {
		return err
	}
	fmt.Printf("\n%s\nwritten: %s, %s.md and %s.svg\n", results.Verdicts(b.metrics), out, base, base)
	if !publish || failed > 0 {
		return nil
	}
	return b.publish(text, picture.Bytes())
}

// printMetrics leaves out the numbers of single cells, which the Markdown has as a
// table.
func (b *bench) printMetrics() {
	shown := maps.Clone(b.metrics)
	for name := range shown {
		if strings.HasPrefix(name, "cell.") {
			delete(shown, name)
		}
	}
	shown.Print(os.Stdout, targets)
}

func (b *bench) publish(text string, picture []byte) error {
	pagePath := filepath.Join(b.root, "docs/performance.md")
	page, err := os.ReadFile(pagePath)
	if err != nil {
		return err
	}
	changed, err := results.Replace(string(page), text)
	if err != nil {
		return fmt.Errorf("%s: %w", pagePath, err)
	}
	return writeFiles(map[string][]byte{
		pagePath: []byte(changed), filepath.Join(b.root, "docs/performance.svg"): picture,
	})
}

func writeFiles(files map[string][]byte) error {
	for path, content := range files {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// text is what the page says of this run.
func (b *bench) text(ctx context.Context) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n\n", b.machine(ctx))
	for _, note := range b.notes {
		fmt.Fprintf(&text, "%s\n\n", note)
	}
	text.WriteString(results.Verdicts(b.metrics))
	text.WriteString("\n")
	text.WriteString(results.Parts(b.metrics))
	text.WriteString(b.set.Table())
	return text.String()
}

// machine says what the numbers are of.
func (b *bench) machine(ctx context.Context) string {
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	kernel, _, _ := strings.Cut(strings.TrimSpace(string(release)), "-") // without the builder's suffix
	versions := []string{}
	for _, l := range languages {
		version, err := exec.CommandContext(ctx, b.host.interpreters[l.name], "--version").Output()
		if err == nil {
			versions = append(versions, l.name+" "+strings.TrimLeft(string(bytes.TrimSpace(version)), "vPython "))
		}
	}
	return fmt.Sprintf("One run with seed %d on %d processors (%s), Linux %s, %s, which run everything: callers, engine, control plane, operator, "+
		"daemon and guests. The load average was %s before it and %s at its end, the run itself included.",
		b.seed, runtime.NumCPU(), runtime.GOARCH, kernel, strings.Join(versions, ", "), b.loadBefore, loadAverage())
}

// loadAverage is that of the last minute, as the kernel prints it.
func loadAverage() string {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(content), " ")
	return first
}
