package guestfiles

import (
	"bufio"
	"context"
	"errors"
	"io"
	"regexp"

	"golang.org/x/sys/unix"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// sedLine bounds a line in which is replaced, in bytes; a file with a longer one
// is left as it is.
const sedLine = 16 << 20

// Sed replaces in the lines of files. Each is written anew beside the old one
// and renamed, so that readers never see half of it.
func (t *Tree) Sed(ctx context.Context, spec daemon.SedSpec) (daemon.SedResult, error) {
	expression, err := sedExpression(spec)
	if err != nil {
		return daemon.SedResult{}, err
	}
	s := &sed{ctx: ctx, spec: spec, expression: expression, result: daemon.SedResult{Files: []daemon.SedFile{}}}
	if len(spec.Files) > 0 {
		err = t.sedNamed(s)
	} else {
		err = t.selectFiles(ctx, spec.Selection, s.selected)
	}
	return s.result, err
}

func sedExpression(spec daemon.SedSpec) (*regexp.Regexp, error) {
	if spec.Regex {
		return CompilePattern(spec.Pattern, spec.IgnoreCase)
	}
	if spec.Pattern == "" {
		return nil, &daemon.ArgumentError{Reason: "pattern is empty and regex is false"}
	}
	return CompilePattern(regexp.QuoteMeta(spec.Pattern), spec.IgnoreCase)
}

type sed struct {
	ctx        context.Context
	spec       daemon.SedSpec
	expression *regexp.Regexp
	result     daemon.SedResult
	size       int
}

// sedNamed handles the files that the caller named, each with a row.
func (t *Tree) sedNamed(s *sed) error {
	for _, name := range s.spec.Files {
		count := 0
		err := s.ctx.Err()
		if err == nil {
			err = t.selectFiles(s.ctx, daemon.Selection{Path: name}, func(f found) (err error) {
				count, err = s.file(f)
				return err
			})
		}
		if err := s.add(name, count, err); err != nil {
			return err
		}
	}
	return nil
}

// selected handles one file of a walk, where binary ones are left out.
func (s *sed) selected(f found) error {
	count, err := s.file(f)
	if errors.Is(err, errBinary) || err == nil && count == 0 && f.path != s.spec.Path {
		return nil
	}
	return s.add(f.path, count, err)
}

// add fails only when the rows become too many to be answered.
func (s *sed) add(path string, count int, err error) error {
	row := daemon.SedFile{Path: path, Replacements: count}
	if err != nil {
		row.Replacements, row.Error = 0, err.Error()
	}
	s.result.Total += row.Replacements
	s.result.Files = append(s.result.Files, row)
	if s.size += len(path) + len(row.Error) + rowBytes; s.size > resultBytes {
		return errors.New("the result is too large; what was replaced until then stays so")
	}
	return nil
}

var (
	errBinary   = errors.New("binary file")
	errLongLine = errors.New("a line is too long")
)

// file replaces in one file and returns how often; one where it is never stays
// untouched.
func (s *sed) file(f found) (int, error) {
	source, info, err := openFileAt(f.folder, f.base)
	if err != nil {
		return 0, err
	}
	defer source.Close()
	reader := bufio.NewReaderSize(&cancelReader{ctx: s.ctx, source: source}, 64<<10)
	if isBinary(reader) {
		return 0, errBinary
	}
	folder, err := unix.FcntlInt(uintptr(f.folder), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	upload, err := createBeside(folder, f.base, info.Mode)
	if err != nil {
		return 0, err
	}
	defer upload.Abort()
	count, err := s.copy(upload, reader)
	if err != nil || count == 0 {
		return 0, err
	}
	if status, err := stat(f.folder, f.base); err == nil {
		// A guest without the right to give files away keeps them as its own.
		_ = unix.Fchown(int(upload.file.Fd()), int(status.Uid), int(status.Gid))
	}
	return count, upload.Commit()
}

func (s *sed) copy(to io.Writer, from *bufio.Reader) (int, error) {
	buffered := bufio.NewWriterSize(to, 64<<10)
	count := 0
	for {
		next, err := readLine(from, sedLine)
		if errors.Is(err, io.EOF) {
			return count, buffered.Flush()
		}
		if err == nil && next.cut {
			err = errLongLine
		}
		if err != nil {
			return 0, err
		}
		replaced, n := s.replace(next.content)
		count += n
		if _, err := buffered.Write(replaced); err != nil {
			return 0, err
		}
		if _, err := buffered.WriteString(next.ending); err != nil {
			return 0, err
		}
	}
}

// replace handles one line.
func (s *sed) replace(content []byte) ([]byte, int) {
	limit := -1
	if s.spec.FirstOnly {
		limit = 1
	}
	matches := s.expression.FindAllSubmatchIndex(content, limit)
	if len(matches) == 0 {
		return content, 0
	}
	var out []byte
	last := 0
	for _, match := range matches {
		out = append(out, content[last:match[0]]...)
		if s.spec.Regex {
			out = s.expression.Expand(out, []byte(s.spec.Replacement), content, match)
		} else {
			out = append(out, s.spec.Replacement...)
		}
		last = match[1]
	}
	return append(out, content[last:]...), len(matches)
}
