package e2e

import (
	"io"
	"net/http"
)

// exchange sends a request over a connection of its own, and reads the answer: a kept
// one would go on with an operator or engine that has been replaced.
func exchange(request *http.Request) (status int, answer []byte, err error) {
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}
