package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

// page is a text for users with commands in it.
type page struct {
	// name is its path in the repository.
	name string
	text string
	// commands are those of its console blocks, in order.
	commands []command
}

// command is a line that a user types, and what the page shows of its answer.
type command struct {
	line  string
	shown []string
	// interrupted says that the user ends it with Ctrl-C.
	interrupted bool
}

const (
	prompt = "$ "
	// ctrlC stands below the output of a command that the user ends.
	ctrlC = "^C"
)

var (
	fence = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)\n```$")
	// sampleCommand is a command in the comment of a sample.
	sampleCommand = regexp.MustCompile(`(?m)^#   (\S.*)$`)
	// looksLikeCommand is what must stand in a console block.
	looksLikeCommand = regexp.MustCompile(`(?m)^(\$ |(kubectl|make|go|npm|node|python3?|curl|source|docker|git|\./|bin/|hack/)\b)`)
)

// readPages reads the README, the pages of docs in the order of their names, and
// the comments of the samples. It runs while the specs are collected.
func readPages() []page {
	paths := []string{"README.md"}
	for _, pattern := range []string{"docs/*.md", "config/samples/*.yaml", "config/samples/configmap/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			panic(err)
		}
		for _, path := range found {
			name, err := filepath.Rel(root, path)
			if err != nil {
				panic(err)
			}
			paths = append(paths, name)
		}
	}
	var pages []page
	for _, name := range paths {
		pages = append(pages, readPage(name))
	}
	return pages
}

func readPage(name string) page {
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		panic(err)
	}
	p := page{name: name, text: string(text)}
	if filepath.Ext(name) == ".yaml" {
		for _, found := range sampleCommand.FindAllStringSubmatch(p.text, -1) {
			p.commands = append(p.commands, command{line: found[1]})
		}
		return p
	}
	for _, block := range p.blocks("console") {
		commands, err := parseConsole(block)
		if err != nil {
			panic(fmt.Errorf("%s: %w", name, err))
		}
		p.commands = append(p.commands, commands...)
	}
	return p
}

// blocks are the fenced blocks in that language.
func (p page) blocks(language string) []string {
	var found []string
	for _, block := range fence.FindAllStringSubmatch(p.text, -1) {
		if block[1] == language {
			found = append(found, block[2])
		}
	}
	return found
}

// parseConsole reads what a user types after the prompt, a backslash at the end
// of a line included, and what stands below it.
func parseConsole(block string) ([]command, error) {
	var commands []command
	continues := false
	for line := range strings.Lines(block) {
		line = strings.TrimSuffix(line, "\n")
		typed, isCommand := strings.CutPrefix(line, prompt)
		if !isCommand && len(commands) == 0 {
			return nil, fmt.Errorf("a console block begins with %q instead of a command", line)
		}
		switch {
		case isCommand:
			commands = append(commands, command{line: typed})
		case continues:
			commands[len(commands)-1].line += "\n" + line
		case line == ctrlC:
			commands[len(commands)-1].interrupted = true
		default:
			last := &commands[len(commands)-1]
			last.shown = append(last.shown, line)
		}
		continues = (isCommand || continues) && strings.HasSuffix(line, `\`)
	}
	return commands, nil
}

// files are the objects that the page shows, by the names under which its
// commands know them: that of the first object in the block.
func (p page) files() map[string]string {
	found := map[string]string{}
	for _, block := range p.blocks("yaml") {
		first, _, _ := strings.Cut(block, "\n---\n")
		var object struct {
			Metadata struct{ Name string }
		}
		Expect(yaml.Unmarshal([]byte(first), &object)).To(Succeed(), "%s:\n%s", p.name, block)
		Expect(object.Metadata.Name).NotTo(BeEmpty(), "%s:\n%s", p.name, block)
		found[object.Metadata.Name+".yaml"] = block
	}
	return found
}

// age is what kubectl shows of an object's time of creation.
var age = regexp.MustCompile(`^[0-9]+(s|m|h|d)$`)

// missingIn names the shown lines that an output lacks. In them … stands for
// anything, and one age for any other.
func (c command) missingIn(output string) []string {
	var missing []string
	for _, line := range c.shown {
		if !shownLine(line).MatchString(output) {
			missing = append(missing, line)
		}
	}
	return missing
}

func shownLine(line string) *regexp.Regexp {
	var words []string
	for _, word := range strings.Fields(line) {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(word), "…", `.*?`)
		if age.MatchString(word) {
			pattern = `[0-9hms]+`
		}
		words = append(words, pattern)
	}
	return regexp.MustCompile(`(?m)^[ \t]*` + strings.Join(words, `[ \t]+`) + `[ \t]*$`)
}
