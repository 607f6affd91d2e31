package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// printer writes the story. Colours only where a person looks on.
type printer struct {
	w      io.Writer
	colour bool
}

func newPrinter(file *os.File) *printer {
	return &printer{w: file, colour: term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == ""}
}

// Escape codes of terminals.
const (
	bold  = "\x1b[1m"
	cyan  = "\x1b[36m"
	green = "\x1b[32m"
	dim   = "\x1b[2m"
	plain = "\x1b[0m"
)

func (p *printer) paint(code, text string) string {
	if !p.colour {
		return text
	}
	return code + text + plain
}

func (p *printer) title(number, of int, text string) {
	p.heading(fmt.Sprintf("%d/%d  %s", number, of, text))
}

func (p *printer) heading(text string) {
	fmt.Fprintf(p.w, "\n%s\n", p.paint(bold, text))
}

// command shows what a user would type.
func (p *printer) command(text string) {
	fmt.Fprintf(p.w, "  %s\n", p.paint(cyan, "$ "+text))
}

// text shows an answer, indented.
func (p *printer) text(answer string) {
	for line := range strings.Lines(strings.TrimRight(answer, "\n") + "\n") {
		fmt.Fprintf(p.w, "    %s", line)
	}
}

func (p *printer) line(format string, args ...any) {
	fmt.Fprintf(p.w, "    "+format+"\n", args...)
}

func (p *printer) done(took time.Duration) {
	fmt.Fprintf(p.w, "  %s %s\n", p.paint(green, "✓"), p.paint(dim, fmt.Sprintf("%.1f s", took.Seconds())))
}
