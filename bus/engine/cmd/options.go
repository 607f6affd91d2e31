package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
)

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
}

func defaults() options {
	return options{
		Listen: engine.DefaultAddress, HTTP: "127.0.0.1:3111",
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
	return o, nil
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
	set.StringVar(path, "config", *path, "YAML file with the same settings: listen, guestListen, guestForbid, guestToken, guestFunctions, http")
	return set
}

func (o options) engineConfig() engine.Config {
	config := engine.Config{
		Listeners:   []engine.Listener{{Name: "workers", Address: o.Listen}},
		HTTPAddress: o.HTTP,
	}
	if o.GuestListen != "" {
		config.Listeners = append(config.Listeners, engine.Listener{
			Name: "guests", Address: o.GuestListen,
			Policy: &engine.Policy{
				Token: o.GuestToken, ForbiddenFunctions: o.GuestForbid, AllowFunctionRegistration: o.GuestFunctions,
			},
		})
	}
	return config
}
