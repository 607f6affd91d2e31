package redact_test

import (
	"strings"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/controllers/internal/redact"
)

const capability = "rt-0123abcd-0123-4567-89ab-0123456789ab"

func TestText(t *testing.T) {
	for name, tc := range map[string]struct {
		text    string
		secrets []string
		want    string
	}{
		"every occurrence goes":                     {"a hunter2 hunter2", []string{"hunter2"}, "a [redacted] [redacted]"},
		"a short value is no secret":                {"yes, 1 and abc", []string{"1", "abc"}, "yes, 1 and abc"},
		"a secret within another leaves no rest":    {"password123", []string{"pass", "password123"}, "[redacted]"},
		"a file's last line break is not the point": {"token!", []string{"token\n"}, "[redacted]!"},
		"capabilities go wherever they stand":       {"x" + capability + "y", nil, "x[redacted]y"},
		"capabilities go in capitals too":           {strings.ToUpper(capability), nil, "[redacted]"},
		"a guest's way to the bus goes":             {"ws://h:1/?token=sog1.eyJraW5kIjo.c2lnbmF0dXJl and", nil, "ws://h:1/?token=[redacted] and"},
		"and where its end was cut off":             {"sog1.eyJraW5kIjo", nil, "[redacted]"},
		"and of a later version":                    {"sog12.eyJraW5kIjo.c2lnbmF0dXJl", nil, "[redacted]"},
		"nothing else changes":                      {"rt-short", nil, "rt-short"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := redact.Text(tc.text, tc.secrets); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestJSON(t *testing.T) {
	for name, tc := range map[string]struct {
		raw     string
		secrets []string
		want    string
		notSafe bool
	}{
		"nothing is nothing":                         {},
		"null is no value":                           {raw: "null"},
		"a value without secrets stays":              {raw: `{"a":[1,2.50,true,null,"<x>"]}`, want: `{"a":[1,2.50,true,null,"<x>"]}`},
		"large numbers keep their digits":            {raw: `12345678901234567`, want: `12345678901234567`},
		"a secret in escapes is found":               {raw: `"say \"hi\" now"`, secrets: []string{`"hi"`}, want: `"say [redacted] now"`},
		"a secret may be a name":                     {raw: `{"hunter2":1}`, secrets: []string{"hunter2"}, want: `{"[redacted]":1}`},
		"a secret in a number leaves valid JSON":     {raw: `[123456]`, secrets: []string{"2345"}, want: `["1[redacted]6"]`},
		"capabilities go":                            {raw: `"` + capability + `"`, want: `"[redacted]"`},
		"a number that cannot be stored is no value": {raw: `1e999`, notSafe: true},
		"what is no JSON is no value":                {raw: `{`, notSafe: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, whole := redact.JSON([]byte(tc.raw), tc.secrets)
			if string(got) != tc.want || whole == tc.notSafe {
				t.Errorf("got %q, %t; want %q, %t", got, whole, tc.want, !tc.notSafe)
			}
		})
	}
}
