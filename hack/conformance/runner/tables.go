package main

import (
	"fmt"
	"strings"
)

// Marks of docs/code-runner.md around what tables prints.
const (
	tablesBegin = "<!-- bin/conformance-runner --table -->"
	tablesEnd   = "<!-- end of the tables -->"
)

// tables are the rows and the weaknesses as the documentation shows them.
func tables() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## Rows\n\n%s\n\n| Row | | What holds | Why not the same |\n|---|---|---|---|\n", summary())
	for _, e := range catalog {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", e.name, e.is, e.says, orDash(e.why))
	}
	b.WriteString("\n## Weaknesses\n\n| | In the original | Here | Tests |\n|---|---|---|---|\n")
	for _, w := range weaknesses {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", w.id, w.what, w.ours, w.proof())
	}
	return b.String()
}

// summary counts the rows by verdict.
func summary() string {
	count := map[verdict]int{}
	for _, e := range catalog {
		count[e.is]++
	}
	return fmt.Sprintf("%d rows: %d same, %d better, %d replaced.", len(catalog), count[same], count[better], count[replaced])
}

func (w weakness) proof() string {
	if len(w.tests) == 0 {
		return notBuilt
	}
	return "`" + strings.Join(w.tests, "`, `") + "`"
}

func orDash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}
