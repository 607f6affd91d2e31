package bus

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

func TestNew_refuses(t *testing.T) {
	good := Options{URL: "ws://127.0.0.1:1"}
	tests := map[string]struct {
		change func(*Options)
		want   string
	}{
		"no URL":               {func(o *Options) { o.URL = "" }, "scheme"},
		"an HTTP URL":          {func(o *Options) { o.URL = "http://127.0.0.1:1" }, "scheme"},
		"a URL without a host": {func(o *Options) { o.URL = "ws:///x" }, "host"},
		"a broken URL":         {func(o *Options) { o.URL = "ws://[s3cret" }, "does not parse"},
		"a blank name":         {func(o *Options) { o.Name = "  " }, "Name"},
		"a blank namespace":    {func(o *Options) { o.Namespace = "\t" }, "Namespace"},
		"negative handlers":    {func(o *Options) { o.MaxConcurrentHandlers = -1 }, "MaxConcurrentHandlers"},
		"a negative timeout":   {func(o *Options) { o.CallTimeout = -1 }, "timeout"},
		"a backoff that starts above its cap": {
			func(o *Options) { o.Backoff = Backoff{Initial: time.Hour, Max: time.Second} }, "Backoff",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			options := good
			tc.change(&options)
			_, err := New(options)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("New: %v, want an error naming %q", err, tc.want)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error repeats the URL: %v", err)
			}
		})
	}
	if _, err := New(good); err != nil {
		t.Errorf("New with only a URL: %v", err)
	}
}

func TestSecrets_printRedacted(t *testing.T) {
	pair := ReattachPair{WorkerID: "w1", Token: "s3cret"}
	ref := protocol.ChannelRef{ChannelID: "c1", AccessKey: "s3cret", Direction: protocol.DirectionRead}
	var logged bytes.Buffer
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("text", "pair", pair, "nested", struct{ P ReattachPair }{pair})
	tests := map[string]string{
		"pair with %v":        fmt.Sprintf("%v", pair),
		"pair with %+v":       fmt.Sprintf("%+v", struct{ P ReattachPair }{pair}),
		"pair with %#v":       fmt.Sprintf("%#v", pair),
		"pair in a log":       logged.String(),
		"channel end with %v": fmt.Sprintf("%v", ref),
		"channel end with %#v": fmt.Sprintf("%#v", protocol.ChannelPair{
			Reader: ref,
		}),
		"reattach frame": fmt.Sprintf("%v", &protocol.Reattach{ReattachToken: "s3cret"}),
	}
	for name, text := range tests {
		if strings.Contains(text, "s3cret") || text == "" {
			t.Errorf("%s prints %q", name, text)
		}
	}
}
