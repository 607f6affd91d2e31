package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

func TestCapture(t *testing.T) {
	tests := map[string]struct {
		limit  int
		writes []string
		want   string
		cut    bool
	}{
		"nothing":                         {10, nil, "", false},
		"less than the limit":             {10, []string{"abc", "def"}, "abcdef", false},
		"exactly the limit":               {10, []string{"abcdefg", "hij"}, "abcdefghij", false},
		"one more: 60 % head, 40 % tail":  {10, []string{"abcdefghijk"}, "abcdef\n[... 1 bytes left out ...]\nhijk", true},
		"much more, in small writes":      {10, strings.Split(strings.Repeat("a|b|", 5000), "|"), "ababab\n[... 9990 bytes left out ...]\nabab", true},
		"no character is split":           {10, []string{"ääääääää"}, "äää\n[... 6 bytes left out ...]\nää", true},
		"no character is split at an odd": {11, []string{"xääääääääää"}, "xää\n[... 12 bytes left out ...]\nää", true},
		"bytes that are no text":          {10, []string{"a\xff\xfeb"}, "a\uFFFDb", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCapture(tc.limit)
			for _, text := range tc.writes {
				_, _ = io.WriteString(c, text)
			}
			got, cut := c.text()
			if diff := cmp.Diff(tc.want, got); diff != "" || cut != tc.cut {
				t.Errorf("cut %t, text (-want +got):\n%s", cut, diff)
			}
		})
	}
}

func FuzzCapture(f *testing.F) {
	f.Add([]byte("grüße"), 7, 3)
	f.Add(bytes.Repeat([]byte("äöü"), 100), 50, 11)
	f.Fuzz(func(t *testing.T, data []byte, limit, step int) {
		limit, step = 1+abs(limit)%1000, 1+abs(step)%100
		c := newCapture(limit)
		for rest := data; len(rest) > 0; rest = rest[min(step, len(rest)):] {
			_, _ = c.Write(rest[:min(step, len(rest))])
		}
		text, cut := c.text()
		if !utf8.ValidString(text) {
			t.Fatal("not text")
		}
		if cut != (len(data) > limit) {
			t.Fatalf("cut %t with %d of %d", cut, len(data), limit)
		}
		if utf8.Valid(data) && len(text) > limit+len(marker(int64(len(data)))) {
			t.Fatalf("%d bytes, limit %d", len(text), limit)
		}
	})
}

func abs(value int) int { return max(value, -(value + 1)) }

func TestCapture_end(t *testing.T) {
	c := newCapture(2000)
	_, _ = io.WriteString(c, strings.Repeat("ä", 600))
	if got := c.end(501); got != strings.Repeat("ä", 250) {
		t.Errorf("got %d bytes, valid %t", len(got), utf8.ValidString(got))
	}
}

func TestReadFrame(t *testing.T) {
	encode := func(kind byte, body string) string {
		head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)))
		return string(head) + body
	}
	tests := map[string]struct {
		input string
		want  []frame
	}{
		"a result and the end":     {encode('R', "1") + encode('D', ""), []frame{{kind: 'R', body: []byte("1"), size: 1}, {kind: 'D', body: []byte{}}}},
		"a frame that is cut":      {encode('R', "12345")[:7], nil},
		"a header that is cut":     {"R\x00", nil},
		"something that is none":   {"hello world", nil},
		"noise ends the stream":    {encode('R', "1") + "noise", []frame{{kind: 'R', body: []byte("1"), size: 1}}},
		"a length beyond sense":    {"R\xff\xff\xff\xff", nil},
		"a result that is too big": {encode('R', strings.Repeat("x", wire.MaxResultBytes+1)), []frame{{kind: 'R', size: wire.MaxResultBytes + 1}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			out := make(chan frame, 4)
			readFrames(strings.NewReader(tc.input), out)
			var got []frame
			for next := range out {
				got = append(got, next)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(frame{})); diff != "" {
				t.Errorf("frames (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFit(t *testing.T) {
	control := strings.Repeat("\x01", wire.MaxBodyBytes)
	tests := map[string]wire.Reply{
		"two full streams":       {Run: &wire.Run{Stdout: strings.Repeat("o", wire.MaxBodyBytes), Stderr: strings.Repeat("e", wire.MaxBodyBytes)}},
		"six bytes for each":     {Run: &wire.Run{Stdout: control, Stderr: control}},
		"a result and long logs": {Result: []byte(`"` + strings.Repeat("r", inlineResultBytes) + `"`), Logs: control},
	}
	for name, reply := range tests {
		t.Run(name, func(t *testing.T) {
			encoded, err := fit(reply)
			if err != nil {
				t.Fatal(err)
			}
			got, err := wire.DecodeReply(encoded)
			if err != nil {
				t.Fatal(err)
			}
			if len(encoded) < wire.MaxBodyBytes/2 {
				t.Errorf("only %d bytes are used", len(encoded))
			}
			if got.Run != nil && (!got.Run.StdoutTruncated || !got.Run.StderrTruncated) || got.Run == nil && !got.LogsTruncated {
				t.Error("a cut is not marked")
			}
			if string(got.Result) != string(reply.Result) {
				t.Error("the result changed")
			}
		})
	}
}
