package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
)

// requests counts requests by what they ask for, such as
// "patch sandboxfunctions/status", and by " (409)" behind that if they failed.
type requests map[string]int

// auditLog counts what the operator asks of the API server, from the API server's
// own log of the requests of its service account.
type auditLog struct {
	path string
	// offset is up to where the log was read.
	offset int64
	total  requests
}

func newAuditLog(path string) *auditLog { return &auditLog{path: path, total: requests{}} }

// entry is the part of an audit.k8s.io/v1 Event that is counted.
type entry struct {
	Verb           string `json:"verb"`
	ObjectRef      ref    `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

type ref struct {
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
}

func (e entry) String() string {
	text := e.Verb + " " + e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		text += "/" + e.ObjectRef.Subresource
	}
	if e.ResponseStatus.Code >= 400 {
		text += fmt.Sprintf(" (%d)", e.ResponseStatus.Code)
	}
	return text
}

// read takes in what was logged since the last time, and returns all so far.
func (a *auditLog) read() (requests, error) {
	file, err := os.Open(a.path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() < a.offset {
		return nil, fmt.Errorf("the API server began a new %s; what it logged before is not counted", a.path)
	}
	if _, err := file.Seek(a.offset, io.SeekStart); err != nil {
		return nil, err
	}
	err = a.readLines(bufio.NewReaderSize(file, 1<<20))
	return maps.Clone(a.total), err
}

// readLines leaves a last line that is not complete yet for the next time.
func (a *auditLog) readLines(reader *bufio.Reader) error {
	for {
		line, err := reader.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		a.offset += int64(len(line))
		var e entry
		if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil {
			return fmt.Errorf("reading the audit log: %w", err)
		}
		a.total[e.String()]++
	}
}

// since returns what has been asked after an earlier count.
func (r requests) since(before requests) requests {
	difference := requests{}
	for what, count := range r {
		if more := count - before[what]; more > 0 {
			difference[what] = more
		}
	}
	return difference
}

// writes leaves out what only reads.
func (r requests) writes() requests {
	writes := requests{}
	for what, count := range r {
		switch verb, _, _ := strings.Cut(what, " "); verb {
		case "get", "list", "watch":
		default:
			writes[what] = count
		}
	}
	return writes
}

func (r requests) sum() int {
	sum := 0
	for _, count := range r {
		sum += count
	}
	return sum
}
