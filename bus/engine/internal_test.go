package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

func TestMatches(t *testing.T) {
	for name, tc := range map[string]struct {
		pattern, id string
		want        bool
	}{
		"an exact id":                       {"a::b", "a::b", true},
		"an exact id is whole":              {"a::b", "a::bc", false},
		"a star at the end":                 {"sandbox::*", "sandbox::fs::read", true},
		"a star needs what is before":       {"sandbox::*", "sand::x", false},
		"a star in the middle":              {"a::*::z", "a::b::c::z", true},
		"parts do not overlap":              {"ab*ba", "aba", false},
		"two stars":                         {"*::fs::*", "sandbox::fs::read", true},
		"a star alone covers everything":    {"*", "", true},
		"the last part is at the very end":  {"*b", "abc", false},
		"case counts":                       {"A*", "ab", false},
		"stars side by side are one star":   {"a**b", "ab", true},
		"middle parts come in their order":  {"*x*y*", "yx", false},
		"a pattern's other marks are plain": {"a?", "ab", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := matches(tc.pattern, tc.id); got != tc.want {
				t.Errorf("matches(%q, %q) = %v", tc.pattern, tc.id, got)
			}
		})
	}
}

func TestWithCaller(t *testing.T) {
	for name, tc := range map[string]struct{ data, want string }{
		"an empty object":            {`{}`, `{"_caller_worker_id":"w"}`},
		"an object with blanks":      {" { \"a\" : 1 } ", `{"a" : 1,"_caller_worker_id":"w"}`},
		"a forged key is replaced":   {`{"_caller_worker_id":"x"}`, `{"_caller_worker_id":"w"}`},
		"an escaped key is replaced": {`{"_caller_worker\u005fid":"x"}`, `{"_caller_worker_id":"w"}`},
		"a list stays":               {`[1]`, `[1]`},
		"null stays":                 {`null`, `null`},
		"a text stays":               {`"{}"`, `"{}"`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(withCaller(json.RawMessage(tc.data), "w")); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestCleanLabel(t *testing.T) {
	for name, tc := range map[string]struct {
		label string
		want  *string
	}{
		"control characters go":     {"a\x1b[31m\nb", pointer("a[31mb")},
		"bidirectional marks go":    {"a\u202e\u2066b", pointer("ab")},
		"blanks around go":          {"  a b ", pointer("a b")},
		"nothing left is none":      {" \t", nil},
		"280 characters are enough": {strings.Repeat("ü", 300), pointer(strings.Repeat("ü", 280))},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, cleanLabel(&tc.label)); diff != "" {
				t.Errorf("label (-want +got):\n%s", diff)
			}
		})
	}
}

func pointer(s string) *string { return &s }

func TestSession_permits(t *testing.T) {
	guest := &session{forbidden: []string{"secret::*"}, open: true}
	granted := &session{
		forbidden: []string{"public::b"}, allowed: []string{"extra"}, exposed: []Exposure{{Match: "public::*"}},
		namespaces: map[string][]string{"team": {"t::*"}},
	}
	for name, tc := range map[string]struct {
		session       *session
		namespace, id string
		want          bool
	}{
		"no session permits all":               {nil, "default", "engine::x", true},
		"an open session permits":              {guest, "default", "x", true},
		"an open session forbids":              {guest, "default", "secret::x", false},
		"forbidden counts in all namespaces":   {guest, "team", "secret::x", false},
		"a namespace's grant":                  {granted, "team", "t::x", true},
		"a namespace's grant ends there":       {granted, "default", "t::x", false},
		"allowed counts in default":            {granted, "default", "extra", true},
		"allowed counts only in default":       {granted, "team", "extra", false},
		"exposed":                              {granted, "default", "public::a", true},
		"forbidden wins over exposed":          {granted, "default", "public::b", false},
		"infrastructure":                       {granted, "default", "engine::log::warn", true},
		"what nobody granted is denied":        {granted, "default", "other", false},
		"listing workers is no infrastructure": {granted, "default", protocol.FunctionWorkersList, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.session.permits(target{namespace: tc.namespace, id: tc.id}); got != tc.want {
				t.Errorf("permits(%s, %s) = %v", tc.namespace, tc.id, got)
			}
		})
	}
}

func TestSession_grants(t *testing.T) {
	s := &session{}
	s.apply(grants{Namespaces: map[string][]string{"team": {`match("a::*")`, "b"}}})
	may := func(id string) bool { return s.permits(target{namespace: "team", id: id}) }
	if !s.registerFunctions || s.registerTypes || !may("a::x") || !may("b") || may("c") {
		t.Errorf("session %+v", s)
	}
	if s.mayJoin("team") != nil || s.mayJoin("default") == nil {
		t.Error("only granted namespaces may be joined")
	}
}

func TestRoutes_match(t *testing.T) {
	table := newRoutes()
	for _, path := range []string{"/", "/a", "/a/:id", "/a/fixed", "/a/:id/b", "/:x/:y/c"} {
		if err := table.bind(&binding{id: path, config: mustJSON(map[string]string{"api_path": path})}); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"/": "/ map[]", "/a": "/a map[]", "/a/": "/a map[]", "/a/7": "/a/:id map[id:7]", "/a/fixed": "/a/fixed map[]",
		"/a/7/b": "/a/:id/b map[id:7]", "/a/fixed/b": "/a/:id/b map[id:fixed]", "/a/7/c": "/:x/:y/c map[x:a y:7]",
		"/b": "", "/a/7/b/c": "",
	} {
		t.Run(path, func(t *testing.T) {
			got := ""
			if r, params := table.match("GET", path); r != nil {
				got = fmt.Sprint(r.binding.id, " ", params)
			}
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	if r, _ := table.match("POST", "/a"); r != nil {
		t.Errorf("another method matches %s", r.binding.id)
	}
}

func TestRoutes_replacement(t *testing.T) {
	table := newRoutes()
	old, young := &binding{id: "old", config: mustJSON(map[string]string{"api_path": "/a/:id"})}, &binding{id: "young"}
	young.config = old.config
	for _, b := range []*binding{old, young} {
		if err := table.bind(b); err != nil {
			t.Fatal(err)
		}
	}
	if r, _ := table.match("GET", "/a/1"); r.binding != young {
		t.Errorf("%s serves", r.binding.id)
	}
	table.unbind(young)
	if r, _ := table.match("GET", "/a/1"); r.binding != old {
		t.Errorf("%s serves", r.binding.id)
	}
	table.unbind(old)
	if len(table.methods) != 0 {
		t.Errorf("left over: %v", table.methods)
	}
}

func TestOutbox_bounds(t *testing.T) {
	o := newOutbox()
	for range outboxCapacity {
		if err := o.send(t.Context(), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	full, cancel := context.WithCancel(t.Context())
	cancel()
	if err := o.send(full, []byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("sending into a full outbox: %v", err)
	}
	waiting := make(chan error)
	go func() { waiting <- o.send(t.Context(), []byte("last")) }()
	if batch, ok := o.take(t.Context(), nil); !ok || len(batch) != outboxCapacity {
		t.Fatalf("took %d frames", len(batch))
	}
	if err := <-waiting; err != nil {
		t.Errorf("sending once there is room: %v", err)
	}
	for len(o.frames) < outboxFrameLimit {
		if err := o.push(nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.push(nil); !errors.Is(err, errOutboxFull) {
		t.Errorf("pushing beyond the limit: %v", err)
	}
}

func TestOutbox_finishLetsTheRestOut(t *testing.T) {
	o := newOutbox()
	if err := o.push([]byte("last")); err != nil {
		t.Fatal(err)
	}
	o.finish()
	if err := o.push([]byte("late")); !errors.Is(err, errOutboxClosed) {
		t.Errorf("pushing after the end: %v", err)
	}
	if batch, ok := o.take(t.Context(), nil); !ok || len(batch) != 1 || string(batch[0]) != "last" {
		t.Errorf("took %q, %v", batch, ok)
	}
	if batch, ok := o.take(t.Context(), nil); ok {
		t.Errorf("took %q after the end", batch)
	}
}

func TestChannels_sweep(t *testing.T) {
	s := newChannels()
	paired, unpaired := s.create(0), s.create(9999)
	for _, direction := range []string{protocol.DirectionRead, protocol.DirectionWrite} {
		if !s.take(paired, direction) || s.take(paired, direction) {
			t.Fatalf("the %s end is not taken exactly once", direction)
		}
	}
	if got := cap(unpaired.items); got != maxChannelItems {
		t.Errorf("buffer of %d", got)
	}
	s.sweep(time.Now().Add(unpairedChannelTTL - time.Second))
	if len(s.open) != 2 {
		t.Errorf("swept too early: %d left", len(s.open))
	}
	s.sweep(time.Now().Add(unpairedChannelTTL + time.Second))
	if s.find(unpaired.id, unpaired.key) != nil || s.find(paired.id, paired.key) == nil {
		t.Error("the sweep must remove the unpaired one alone")
	}
	s.endWriter(paired)
	s.endReader(paired)
	if len(s.open) != 0 {
		t.Errorf("%d channels left", len(s.open))
	}
}

func TestBaggageOf(t *testing.T) {
	got := baggageOf(&call{baggage: "a=1, b = x%20y;prop=1,broken,c=%zz"})
	if diff := cmp.Diff(map[string]string{"a": "1", "b": "x y"}, got); diff != "" {
		t.Errorf("baggage (-want +got):\n%s", diff)
	}
}

func TestSummarize(t *testing.T) {
	long := json.RawMessage(`"` + strings.Repeat("ü", 100) + `"`)
	if got := []rune(summarize(long)); len(got) != maxConfigSummary+1 || got[maxConfigSummary] != '…' {
		t.Errorf("got %q", string(got))
	}
}

func TestNew_refusesBadConfig(t *testing.T) {
	for name, listeners := range map[string][]Listener{
		"two listeners of one name": {{Name: "a"}, {Name: "a"}},
		"a blank pattern":           {{Name: "a", Policy: &Policy{ForbiddenFunctions: []string{" "}}}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := New(Config{Listeners: listeners}); err == nil {
				t.Error("accepted")
			}
		})
	}
}
