package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sample() Reply {
	code := 3
	return Reply{
		Result: json.RawMessage(`{"id":9007199254740993,"html":"<&>"}`), Logs: "a\nb\u2028<c>", LogsTruncated: true,
		Error: &Failure{Kind: NoResult, Type: "ProcessExit", Message: "gone", ExitCode: &code},
		Run:   &Run{Stdout: "out", ExitCode: -1, TimedOut: true}, DurationMs: 12,
	}
}

func TestReply_roundTrip(t *testing.T) {
	tests := map[string]Reply{
		"an empty reply": {}, "every kind of content": sample(),
		"a null result":   {Result: json.RawMessage("null")},
		"a large stream":  {Run: &Run{Stdout: strings.Repeat("x", 700<<10)}},
		"a result's file": {ResultFile: &ResultFile{Path: "/p/r.json", Size: 1 << 21, SHA256: strings.Repeat("a", 64)}},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			frame, err := EncodeReply(want)
			if err != nil {
				t.Fatal(err)
			}
			got, err := DecodeReply(frame)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("reply (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEncodeReply_doesNotEscapeHTML(t *testing.T) {
	frame, err := EncodeReply(sample())
	if err != nil || !strings.Contains(string(frame), `"html":"<&>"`) {
		t.Errorf("got %s, %v", frame, err)
	}
}

func TestEncodeReply_tooLarge(t *testing.T) {
	_, err := EncodeReply(Reply{Logs: strings.Repeat("x", MaxBodyBytes)})
	wantReason(t, err, FrameTooLarge)
}

func TestDecodeReply_damage(t *testing.T) {
	frame, err := EncodeReply(sample())
	if err != nil {
		t.Fatal(err)
	}
	good := string(frame)
	header, body, _ := strings.Cut(good, "\n")
	tests := map[string]struct {
		output string
		want   FrameReason
	}{
		"nothing":                     {"", FrameMissing},
		"something else":              {"Segmentation fault\n", FrameMissing},
		"noise before the frame":      {"x" + good, FrameMissing},
		"a cut magic":                 {good[:10], FrameCut},
		"a cut header":                {header[:len(header)-1], FrameCut},
		"a header without body":       {header + "\n", FrameCut},
		"a body without its last":     {good[:len(good)-1], FrameCut},
		"bytes after the body":        {good + "\n", FrameTrailing},
		"two frames":                  {good + good, FrameTrailing},
		"a changed body":              {header + "\n" + strings.Replace(body, "gone", "here", 1), FrameDigest},
		"a changed digest":            {strings.Replace(header, header[len(header)-8:], "00000000", 1) + "\n" + body, FrameDigest},
		"a forged shorter length":     {strings.Replace(good, fmt.Sprint(" ", len(body), " "), " 2 ", 1), FrameTrailing},
		"a negative length":           {strings.Replace(good, fmt.Sprint(" ", len(body), " "), " -1 ", 1), FrameHeader},
		"a huge length":               {strings.Replace(good, fmt.Sprint(" ", len(body), " "), " 2000000000 ", 1), FrameTooLarge},
		"a length beyond any integer": {strings.Replace(good, fmt.Sprint(" ", len(body), " "), " 99999999999999999999 ", 1), FrameHeader},
		"a header without digest":     {magic + " 2\n{}", FrameHeader},
		"an endless header":           {magic + " " + strings.Repeat("1", 500), FrameHeader},
		"a body that is no reply":     {framed(`[]`), FrameBody},
		"a body that is no JSON":      {framed(`{`), FrameBody},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeReply([]byte(tc.output))
			wantReason(t, err, tc.want)
			if err != nil && strings.Contains(err.Error(), "Segmentation") {
				t.Error("the error quotes the output")
			}
		})
	}
}

func framed(body string) string {
	frame, _ := EncodeReply(Reply{})
	header, _, _ := strings.Cut(string(frame), "\n")
	fields := strings.Split(header, " ")
	return fmt.Sprintf("%s %d %s\n%s", fields[0], len(body), digestHex(body), body)
}

func wantReason(t *testing.T, err error, want FrameReason) {
	t.Helper()
	var frameError *FrameError
	if !errors.As(err, &frameError) || frameError.Reason != want {
		t.Errorf("want %s, got %v", want, err)
	}
}

func FuzzDecodeReply(f *testing.F) {
	good, err := EncodeReply(sample())
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range [][]byte{nil, good, good[:20], good[:len(good)-1], []byte(magic + " 0 \n")} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, output []byte) {
		reply, err := DecodeReply(output)
		if err != nil {
			wantOneOfOurs(t, err)
			return
		}
		again, err := EncodeReply(reply)
		if err != nil {
			t.Fatalf("what was decoded cannot be encoded: %v", err)
		}
		if _, err := DecodeReply(again); err != nil {
			t.Fatal(err)
		}
	})
}

func wantOneOfOurs(t *testing.T, err error) {
	t.Helper()
	var frameError *FrameError
	if !errors.As(err, &frameError) {
		t.Fatalf("not a frame error: %v", err)
	}
}

// Every truncation of a frame is noticed: the daemon cuts without a word.
func TestDecodeReply_everyCut(t *testing.T) {
	frame, err := EncodeReply(sample())
	if err != nil {
		t.Fatal(err)
	}
	for length := range len(frame) {
		if _, err := DecodeReply(frame[:length]); err == nil {
			t.Errorf("a cut to %d of %d bytes went unnoticed", length, len(frame))
		}
	}
}

func digestHex(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}
