package guestfiles

import (
	"bufio"
	"context"
	"errors"
	"io"
	"regexp"
	"unicode/utf8"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

const (
	// searchedBytes is how much of one line is searched.
	searchedBytes = 1 << 20
	// resultBytes bounds paths and contents of one result together, so that it
	// fits a message of the bus.
	resultBytes = 8 << 20
	// rowBytes is what a row takes beside its texts.
	rowBytes = 64
)

// CompilePattern makes the expression of a search, or a daemon.PatternError.
func CompilePattern(pattern string, ignoreCase bool) (*regexp.Regexp, error) {
	if ignoreCase {
		pattern = "(?i)" + pattern
	}
	expression, err := regexp.Compile(pattern)
	if err != nil {
		return nil, &daemon.PatternError{Reason: err.Error()}
	}
	return expression, nil
}

// Grep finds lines in the files of a selection. Binary files and those that
// cannot be read are left out.
func (t *Tree) Grep(ctx context.Context, spec daemon.GrepSpec) (daemon.GrepResult, error) {
	expression, err := CompilePattern(spec.Pattern, spec.IgnoreCase)
	if err != nil {
		return daemon.GrepResult{}, err
	}
	g := &grep{ctx: ctx, spec: spec, expression: expression}
	err = t.selectFiles(ctx, spec.Selection, g.file)
	if errors.Is(err, errEnough) {
		g.result.Truncated, err = true, nil
	}
	return g.result, err
}

type grep struct {
	ctx        context.Context
	spec       daemon.GrepSpec
	expression *regexp.Regexp
	result     daemon.GrepResult
	size       int
}

func (g *grep) file(f found) error {
	file, _, err := openFileAt(f.folder, f.base)
	if err != nil {
		return nil
	}
	defer file.Close()
	reader := bufio.NewReaderSize(&cancelReader{ctx: g.ctx, source: file}, 64<<10)
	if isBinary(reader) {
		return nil
	}
	for number := 1; ; number++ {
		next, err := readLine(reader, searchedBytes)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return g.ctx.Err() // a file that breaks midway has no more lines
		}
		if !g.expression.Match(next.content) {
			continue
		}
		if err := g.add(daemon.GrepMatch{Path: f.path, Line: number, Content: prefix(next.content, g.spec.MaxLineBytes)}); err != nil {
			return err
		}
	}
}

func (g *grep) add(match daemon.GrepMatch) error {
	g.size += len(match.Path) + len(match.Content) + rowBytes
	if len(g.result.Matches) >= g.spec.MaxMatches || g.size > resultBytes {
		return errEnough
	}
	g.result.Matches = append(g.result.Matches, match)
	return nil
}

// prefix cuts a text without cutting a character.
func prefix(text []byte, limit int) string {
	if len(text) <= limit {
		return string(text)
	}
	cut := limit
	for cut > 0 && limit-cut < utf8.UTFMax && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return string(text[:cut])
}
