package main

import (
	"net/url"
	"testing"
)

func TestFileURL(t *testing.T) {
	for _, path := range []string{"/sandbox-operator/ab/hosts", "/with blank", "/50%/a?b#c", `/back\slash`, "/ünï/日本"} {
		got, err := url.Parse(fileURL(path))
		if err != nil || got.Scheme != "file" || got.Path != path || got.RawQuery != "" || got.Fragment != "" {
			t.Errorf("%s: %s is %+v, %v", path, fileURL(path), got, err)
		}
	}
}
