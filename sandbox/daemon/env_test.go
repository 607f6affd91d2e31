package daemon

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEnvironment_shapes(t *testing.T) {
	for name, tc := range map[string]struct {
		text      string
		want      map[string]string
		wantErr   bool
		wantFault string
	}{
		"a map":                            {text: `{"A":"1","_b2":"x=y"}`, want: map[string]string{"A": "1", "_b2": "x=y"}},
		"a list":                           {text: `["A=1","B=x=y","C="]`, want: map[string]string{"A": "1", "B": "x=y", "C": ""}},
		"an empty list":                    {text: `[]`, want: map[string]string{}},
		"null is none":                     {text: `null`},
		"names of a list are not checked":  {text: `["1-x=1"]`, want: map[string]string{"1-x": "1"}},
		"names of a map are checked":       {text: `{"1x":"1"}`, want: map[string]string{"1x": "1"}, wantFault: "must match"},
		"a NUL is refused in either shape": {text: `["A=\u0000"]`, want: map[string]string{"A": "\x00"}, wantFault: "NUL"},
		"a number is no environment":       {text: `7`, wantErr: true},
		"a value must be text":             {text: `{"A":1}`, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			var got environment
			err := json.Unmarshal([]byte(tc.text), &got)
			if (err != nil) != tc.wantErr {
				t.Fatalf("decoding: %v", err)
			}
			if tc.wantErr {
				return
			}
			if diff := cmp.Diff(tc.want, got.values); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
			checkFault(t, got.check(), codeInvalidRequest, tc.wantFault)
		})
	}
}

func TestForGuest(t *testing.T) {
	got := forGuest(map[string]string{
		"III_URL": "ws://localhost:49134", "OTHER": "http://127.0.0.1:80/a?b=ws://localhost:1/",
		"PLAIN": "localhost:1", "BARE": "ws://localhost",
	})
	want := map[string]string{
		"III_URL": "ws://100.96.0.1:49134", "OTHER": "http://100.96.0.1:80/a?b=ws://100.96.0.1:1/",
		"PLAIN": "localhost:1", "BARE": "ws://localhost",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}
