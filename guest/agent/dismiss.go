package main

import (
	"os"
	"path/filepath"
)

// dismiss asks whatever supervisor listens in a folder to make way. It need not
// be this agent's: an older one, or one whose executable was written anew, is not
// known by it.
func dismiss(home folder) {
	connection, err := dial(home)
	if connection == nil {
		return
	}
	defer connection.Close()
	if err == nil || err == errStranger { //nolint:errorlint // It is never wrapped.
		_, _ = exchange(connection, quickAnswer, askQuit, nil)
	}
}

// dismissOthers ends the supervisors of other versions of the agent: the operator
// that planted this one calls them no more. What they have begun they finish.
func dismissOthers(home folder) {
	entries, _ := os.ReadDir(home.base())
	for _, entry := range entries {
		other := folder(filepath.Join(home.base(), entry.Name()))
		if other != home {
			dismiss(other)
		}
	}
}
