package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

const defaultEngine = "ws://localhost:49134"

// settings are the command line and the configuration file together.
type settings struct {
	engine   string
	config   daemon.Config
	logLevel slog.Level
}

// ports is a flag of port numbers, separated by commas or repeated.
type ports []int

// String implements flag.Value.
func (p *ports) String() string { return strings.Trim(fmt.Sprint([]int(*p)), "[]") }

// Set implements flag.Value.
func (p *ports) Set(text string) error {
	for _, word := range strings.Split(text, ",") {
		port, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil {
			return fmt.Errorf("%q is not a port", word)
		}
		*p = append(*p, port)
	}
	return nil
}

func parseSettings(arguments []string, output io.Writer) (settings, error) {
	var s settings
	var file string
	var hostPorts ports
	flags := flag.NewFlagSet("sandbox-daemon", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&s.engine, "engine", engineFromEnvironment(), "worker URL of the iii engine (environment: III_ENGINE_URL, III_URL)")
	flags.StringVar(&file, "config", "", "YAML configuration file (required)")
	flags.Var(&hostPorts, "guest-host-port", "loopback port of this host that guests with a network reach; added to guest_host_ports")
	flags.TextVar(&s.logLevel, "log-level", slog.LevelInfo, "debug, info, warn or error")
	if err := flags.Parse(arguments); err != nil {
		return settings{}, err
	}
	if flags.NArg() > 0 {
		return settings{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if file == "" {
		return settings{}, errors.New("--config is required")
	}
	if err := s.readConfig(file, hostPorts); err != nil {
		return settings{}, err
	}
	return s, nil
}

func (s *settings) readConfig(file string, hostPorts ports) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	if s.config, err = daemon.ParseConfig(text); err != nil {
		return err
	}
	s.config.GuestHostPorts = append(s.config.GuestHostPorts, hostPorts...)
	return s.config.Validate()
}

func engineFromEnvironment() string {
	for _, name := range []string{"III_ENGINE_URL", "III_URL"} {
		if url := os.Getenv(name); url != "" {
			return url
		}
	}
	return defaultEngine
}
