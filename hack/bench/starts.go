package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// coldStarts asks the operator how many calls had an interpreter started for them.
func (b *bench) coldStarts(ctx context.Context) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.stack.MetricsURL, nil)
	if err != nil {
		return 0, err
	}
	// To compress the answer takes the operator longer than the calls of a slot.
	request.Header.Set("Accept-Encoding", "identity")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the operator's metrics: %s", response.Status)
	}
	return readCounter(response.Body, `sandbox_function_process_starts_total{start="cold"} `)
}

// readCounter finds the line of a series; one that is not there has not counted yet.
func readCounter(from io.Reader, series string) (int, error) {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		if value, is := strings.CutPrefix(lines.Text(), series); is {
			count, err := strconv.ParseFloat(value, 64)
			return int(count), err
		}
	}
	return 0, lines.Err()
}
