package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// TryMachine runs a program in a machine and stops it: what the self-test of a
// back end does with the machine it has booted. The program may take limit.
func TryMachine(ctx context.Context, machine Machine, limit time.Duration) error {
	outcome, err := machine.Exec(ctx, ExecSpec{Argv: []string{"/bin/true"}, Timeout: limit, OutputLimit: 4096})
	if err == nil && outcome.ExitCode != 0 {
		err = fmt.Errorf("/bin/true in a guest ended with %d: %s", outcome.ExitCode, outcome.Stderr)
	}
	return errors.Join(err, machine.Stop(context.WithoutCancel(ctx)))
}
