package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// callOverHTTP uses the function's http trigger, for an item that exists and one
// that does not, since the handler chooses the status.
func (d *demo) callOverHTTP(ctx context.Context) error {
	body, took, err := d.post(ctx, `{"item":"tea","quantity":2}`, http.StatusOK)
	if err != nil {
		return err
	}
	d.report.HTTPCallMS = milliseconds(took)
	if err := d.same("POST /price", body, priceAnswer); err != nil {
		return err
	}
	body, _, err = d.post(ctx, `{"item":"caviar"}`, http.StatusNotFound)
	if err != nil {
		return err
	}
	return d.same("POST /price", body, `{"error":"no such item: caviar"}`)
}

func (d *demo) post(ctx context.Context, payload string, wantStatus int) (json.RawMessage, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	url := d.stack.HTTPURL + "/price"
	d.out.command(fmt.Sprintf("curl -d '%s' -H 'content-type: application/json' %s", payload, url))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewBufferString(payload))
	if err != nil {
		return nil, 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	began := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, 0, err
	}
	took := time.Since(began)
	d.out.line("%s  %s", response.Status, body)
	d.report.Calls++
	return body, took, d.equal("the status", fmt.Sprint(response.StatusCode), fmt.Sprint(wantStatus))
}
