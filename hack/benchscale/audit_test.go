package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	watched  = `{"verb":"watch","objectRef":{"resource":"sandboxfunctions"},"responseStatus":{"code":200}}` + "\n"
	patched  = `{"verb":"patch","objectRef":{"resource":"sandboxfunctions","subresource":"status"},"responseStatus":{"code":200}}` + "\n"
	refused  = `{"verb":"patch","objectRef":{"resource":"sandboxfunctions"},"responseStatus":{"code":409}}` + "\n"
	reviewed = `{"verb":"create","objectRef":{"resource":"events"},"responseStatus":{"code":201}}` + "\n"
)

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, log *auditLog) requests {
	t.Helper()
	all, err := log.read()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAuditLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log := newAuditLog(path)
	appendTo(t, path, watched+patched+refused+patched[:20])
	first := read(t, log)
	want := requests{"watch sandboxfunctions": 1, "patch sandboxfunctions/status": 1, "patch sandboxfunctions (409)": 1}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("the first reading (-want +got):\n%s", diff)
	}
	if first.writes().sum() != 2 || first.conflicts() != 1 {
		t.Errorf("writes %v, %d of them conflicts", first.writes(), first.conflicts())
	}
	appendTo(t, path, patched[20:]+reviewed)
	want = requests{"patch sandboxfunctions/status": 1, "create events": 1}
	if diff := cmp.Diff(want, read(t, log).since(first)); diff != "" {
		t.Errorf("what came since (-want +got):\n%s", diff)
	}
}

func TestAuditLog_failures(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log := newAuditLog(path)
	if _, err := log.read(); err == nil {
		t.Error("a log that is not there was read")
	}
	appendTo(t, path, watched+patched)
	read(t, log)
	if err := os.WriteFile(path, []byte(watched), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := log.read(); err == nil {
		t.Error("a log that was begun anew was read on")
	}
	appendTo(t, path, watched+"no JSON\n")
	if _, err := log.read(); err == nil {
		t.Error("what is no audit event was counted")
	}
}
