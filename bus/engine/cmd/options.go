package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
)

// graceVariable overrides the wait for a worker's metadata, in milliseconds.
const graceVariable = "III_NAMESPACE_GRACE_MS"

// options are the program's settings; a flag wins over the file.
type options struct {
	// Listen is the address for trusted workers.
	Listen string `json:"listen"`
	// GuestListen is the address for guests, empty for none.
	GuestListen string `json:"guestListen"`
	// GuestForbid has the patterns of functions that guests may not call.
	GuestForbid []string `json:"guestForbid"`
	// GuestToken is what guests must present; empty asks for none. There is no
	// flag for it: command lines are public.
	GuestToken string `json:"guestToken"`
	// GuestFunctions lets guests publish functions.
	GuestFunctions bool `json:"guestFunctions"`
	// HTTP is the address of http triggers, empty for none.
	HTTP string `json:"http"`
	// HTTPTimeout is how long a function may take to begin its answer to a
	// request.
	HTTPTimeout duration `json:"httpTimeout"`
	// NamespaceGrace is how long registrations wait for a worker's metadata. The
	// variable III_NAMESPACE_GRACE_MS wins over it.
	NamespaceGrace duration `json:"namespaceGrace"`
	// Queue serves the queue in the engine, in memory; without it a worker may.
	Queue bool `json:"queue"`
	// Queues are policies of queues and topics, by name.
	Queues map[string]engine.QueuePolicy `json:"queues,omitempty"`
	// Listeners are further ports for workers.
	Listeners []listenerOptions `json:"listeners,omitempty"`
}

func defaults() options {
	return options{
		Listen: engine.DefaultAddress, HTTP: "127.0.0.1:3111", Queue: true,
		HTTPTimeout: duration(engine.DefaultHTTPTimeout), NamespaceGrace: duration(engine.DefaultNamespaceGrace),
		GuestForbid: []string{"sandbox::*", "engine::register_trigger", "engine::unregister_trigger"},
	}
}

// parse reads the file that --config names, then the flags over it.
func parse(args []string, stderr io.Writer) (options, error) {
	o, first := defaults(), defaults()
	path := ""
	if err := flags(&first, &path, stderr).Parse(args); err != nil {
		return o, err
	}
	if path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return o, err
		}
		if err := yaml.UnmarshalStrict(text, &o); err != nil {
			return o, fmt.Errorf("reading %s: %w", path, err)
		}
	}
	set := flags(&o, &path, stderr)
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if set.NArg() > 0 {
		return o, errors.New("unexpected argument " + set.Arg(0))
	}
	err := o.readEnvironment()
	return o, err
}

// readEnvironment takes the one variable that wins over everything
// (contracts/iii-bus.md §1.1).
func (o *options) readEnvironment() error {
	text := os.Getenv(graceVariable)
	if text == "" {
		return nil
	}
	ms, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return fmt.Errorf("%s must be a number of milliseconds", graceVariable)
	}
	o.NamespaceGrace = duration(time.Duration(ms) * time.Millisecond)
	return nil
}

// flags binds the flags to o, whose present values are the defaults.
func flags(o *options, path *string, stderr io.Writer) *flag.FlagSet {
	set := flag.NewFlagSet("engine", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&o.Listen, "listen", o.Listen, "address for trusted workers")
	set.StringVar(&o.GuestListen, "guest-listen", o.GuestListen, "address for guests, empty for none")
	set.Func("guest-forbid", "comma-separated patterns of functions that guests may not call", func(list string) error {
		o.GuestForbid = strings.Split(list, ",")
		return nil
	})
	set.StringVar(&o.HTTP, "http", o.HTTP, "address of http triggers, empty for none")
	set.BoolVar(&o.GuestFunctions, "guest-functions", o.GuestFunctions, "let guests publish functions")
	set.Var(&o.HTTPTimeout, "http-timeout", "how long a function may take to begin its answer to a request")
	set.Var(&o.NamespaceGrace, "namespace-grace", "how long registrations wait for a worker's metadata")
	set.BoolVar(&o.Queue, "queue", o.Queue, "serve the queue in the engine, in memory")
	set.StringVar(path, "config", *path, "YAML file with the same settings in camel case, and guestToken, queues and listeners")
	return set
}

func (o options) engineConfig() engine.Config {
	config := engine.Config{
		Listeners:   []engine.Listener{{Name: "workers", Address: o.Listen}},
		HTTPAddress: o.HTTP, HTTPTimeout: time.Duration(o.HTTPTimeout), NamespaceGrace: time.Duration(o.NamespaceGrace),
		DisableQueue: !o.Queue, Queues: o.Queues,
	}
	if o.GuestListen != "" {
		config.Listeners = append(config.Listeners, engine.Listener{
			Name: "guests", Address: o.GuestListen,
			Policy: &engine.Policy{
				Token: o.GuestToken, ForbiddenFunctions: o.GuestForbid, AllowFunctionRegistration: o.GuestFunctions,
			},
		})
	}
	for i, l := range o.Listeners {
		config.Listeners = append(config.Listeners, l.listener(i))
	}
	return config
}
