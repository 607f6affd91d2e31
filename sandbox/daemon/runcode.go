package daemon

import (
	"context"
	"encoding/base64"
	"errors"
	"path"
	"strings"
)

// runRequest is that of sandbox::run (contracts/iii-sandbox.md §3.6).
type runRequest struct {
	Image       string       `json:"image" jsonschema_description:"Name of an image of the catalog."`
	Code        string       `json:"code"`
	Lang        string       `json:"lang" jsonschema_description:"node, python, shell, a synonym of these, or an interpreter's path in the guest."`
	Files       []runFile    `json:"files,omitempty" jsonschema_description:"Text files to write first; relative paths stand beside the code."`
	Env         *environment `json:"env,omitempty"`
	Stdin       *string      `json:"stdin,omitempty" jsonschema_description:"Standard input in base64."`
	TimeoutMs   *uint64      `json:"timeout_ms,omitempty" jsonschema_description:"Milliseconds that the code may take."`
	KeepSandbox bool         `json:"keep_sandbox,omitempty" jsonschema_description:"Leaves the sandbox running and tells its id."`
}

type runFile struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

type runResponse struct {
	execResponse
	SandboxID string `json:"sandbox_id,omitempty" jsonschema_description:"Only with keep_sandbox."`
}

// Steps of a run, by the names that a failure carries.
const (
	stepCreate  = "create"
	stepSibling = "fs::write (sibling file)"
	stepCode    = "fs::write (code)"
	stepExec    = "exec"
)

// codeFolder is the guest's temporary directory.
const codeFolder = "/tmp"

// languages maps a lang to its interpreter and the code's file name extension.
var languages = map[string][2]string{
	"node": {"node", "js"}, "js": {"node", "js"}, "javascript": {"node", "js"},
	"python": {"python3", "py"}, "py": {"python3", "py"},
	"shell": {"/bin/sh", "sh"}, "sh": {"/bin/sh", "sh"}, "bash": {"/bin/sh", "sh"},
}

// interpreter returns the program for a lang and the path of the code's file.
func interpreter(lang string) (program, file string) {
	known, found := languages[lang]
	if !found {
		known = [2]string{lang, "txt"}
	}
	return known[0], path.Join(codeFolder, "run."+known[1])
}

// runCode creates a sandbox, runs code in it and stops it.
func (d *Daemon) runCode(ctx context.Context, req runRequest) (runResponse, error) {
	if err := req.check(); err != nil {
		return runResponse{}, err
	}
	made, err := d.create(ctx, createRequest{Image: req.Image, Env: req.Env})
	if err != nil {
		return runResponse{}, runFault(err, stepCreate, "")
	}
	response, step, err := d.runSteps(ctx, req, made.SandboxID)
	if req.KeepSandbox {
		response.SandboxID = made.SandboxID
	} else if _, failed := d.stop(ctx, stopRequest{SandboxID: made.SandboxID}); failed != nil {
		// The answer stands; the reaper tries again.
		d.logger.Warn("Stopping the sandbox of a run failed", "error_code", faultCode(failed))
	}
	if err != nil {
		return runResponse{}, runFault(err, step, made.SandboxID)
	}
	return response, nil
}

// check refuses before anything is created what would only fail later.
func (r runRequest) check() error {
	if strings.TrimSpace(r.Lang) == "" {
		return invalidRequest("lang is empty")
	}
	if _, err := base64.StdEncoding.DecodeString(orDefault(r.Stdin, "")); err != nil {
		return invalidRequest("stdin is not base64: %v", err)
	}
	return nil
}

// runSteps returns the name of the step that failed along with its error.
func (d *Daemon) runSteps(ctx context.Context, req runRequest, id string) (runResponse, string, error) {
	for _, file := range req.Files {
		if err := d.writeText(ctx, id, siblingPath(file.Path), file.Content); err != nil {
			return runResponse{}, stepSibling, err
		}
	}
	program, code := interpreter(req.Lang)
	if err := d.writeText(ctx, id, code, req.Code); err != nil {
		return runResponse{}, stepCode, err
	}
	answer, err := d.exec(ctx, execRequest{
		SandboxID: id, Argv: []string{program, code}, Stdin: req.Stdin, Env: req.Env, TimeoutMs: req.TimeoutMs,
	})
	return runResponse{execResponse: answer}, stepExec, err
}

// siblingPath puts relative paths beside the code.
func siblingPath(name string) string {
	if path.IsAbs(name) {
		return name
	}
	return path.Join(codeFolder, name)
}

func (d *Daemon) writeText(ctx context.Context, id, file, text string) error {
	_, err := d.writeFile(ctx, writeRequest{SandboxID: id, Path: file, Parents: true, Content: &content{text: text}})
	return err
}

// runFault is a step's own fault with the step named in its fix (§2.3).
func runFault(err error, step, id string) error {
	var inner *fault
	if !errors.As(err, &inner) {
		inner = newFault(codeBoot, "VM boot failed: %v", err)
	}
	return &fault{code: inner.code, message: inner.message, bare: true, fix: map[string]any{
		"context": "during sandbox::run step `" + step + "`", "sandbox_id": id, "inner_code": inner.code,
	}}
}

func faultCode(err error) string {
	var f *fault
	if errors.As(err, &f) {
		return f.code
	}
	return codeBoot
}
