package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
)

// kubectl shows a command and its answer, and fails if the command does.
func (d *demo) kubectl(ctx context.Context, args ...string) (string, error) {
	d.out.command("kubectl " + shown(args, d.dir))
	text, err := d.kubectlQuietly(ctx, args...)
	if err != nil {
		return "", err
	}
	d.out.text(text)
	return text, nil
}

// kubectlQuietly is for questions that are no part of the story.
func (d *demo) kubectlQuietly(ctx context.Context, args ...string) (string, error) {
	command := d.stack.Kubectl(ctx, args...)
	command.Dir = d.root
	var stderr bytes.Buffer
	command.Stderr = &stderr
	text, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return string(text), nil
}

// shown quotes what a shell would split and hides the demo's own folder.
func shown(args []string, dir string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		arg = strings.ReplaceAll(arg, dir+"/", "")
		if strings.ContainsAny(arg, " {}[]'\"$*") {
			arg = "'" + arg + "'"
		}
		words[i] = arg
	}
	return strings.Join(words, " ")
}
