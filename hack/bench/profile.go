package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sandbox-operator/sandbox-operator/hack/bench/results"
)

// profileLength is how long calls are profiled.
const profileLength = 20 * time.Second

// measureProfile has all published functions with an empty handler called at once,
// and takes a profile of the operator meanwhile, if the operator is one that has them.
func (b *bench) measureProfile(ctx context.Context, o options) error {
	if o.profile == "" {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var calls []*load
	var group sync.WaitGroup
	for _, l := range languages {
		for isolation := range isolations {
			cell := results.Saturated(l.name)
			one := &load{bench: b, way: b.published(cell, isolation), work: works[0], closes: time.Now().Add(profileLength)}
			calls = append(calls, one)
			for caller := range connections {
				group.Go(func() { one.repeat(ctx, caller) })
			}
		}
	}
	path := strings.TrimSuffix(o.out, filepath.Ext(o.out)) + "-operator.pprof"
	err := fetch(ctx, fmt.Sprintf("%s?seconds=%.0f", o.profile, profileLength.Seconds()), path)
	if err != nil {
		cancel()
	}
	group.Wait()
	count := 0
	for _, one := range calls {
		count += one.slot.Calls
	}
	fmt.Printf("  %s is a profile of about %d calls\n", path, count)
	return err
}

// fetch writes what a URL answers into a file.
func fetch(ctx context.Context, url, path string) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer closing(&err, file.Close)
	_, err = io.Copy(file, response.Body)
	return err
}
