package engine

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/url"
	"strings"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// maxLogBytes cuts what one worker can put into one line of the log.
const maxLogBytes = 4 << 10

// logLevels are the functions engine::log::* (contracts/iii-bus.md §7.2).
var logLevels = map[string]slog.Level{
	"trace": slog.LevelDebug, "debug": slog.LevelDebug, "info": slog.LevelInfo,
	"warn": slog.LevelWarn, "error": slog.LevelError,
}

func (e *Engine) logAt(level slog.Level) func(context.Context, *call) (any, *protocol.ErrorBody) {
	return func(ctx context.Context, k *call) (any, *protocol.ErrorBody) {
		request, failed := decode[struct {
			Message     string          `json:"message"`
			Data        json.RawMessage `json:"data"`
			ServiceName string          `json:"service_name"`
		}](k.data)
		if failed != nil {
			return nil, failed
		}
		e.log.Log(ctx, level, "Worker says", "message", cut(request.Message, maxLogBytes),
			"data", cut(string(request.Data), maxLogBytes), "service", cut(request.ServiceName, maxLabelRunes))
		return nil, nil
	}
}

func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// baggageOf parses the W3C baggage that came with a call.
func baggageOf(k *call) map[string]string {
	entries := map[string]string{}
	for entry := range strings.SplitSeq(k.baggage, ",") {
		entry, _, _ = strings.Cut(entry, ";")
		name, value, ok := strings.Cut(strings.TrimSpace(entry), "=")
		if !ok {
			continue
		}
		if plain, err := url.PathUnescape(strings.TrimSpace(value)); err == nil {
			entries[strings.TrimSpace(name)] = plain
		}
	}
	return entries
}

func baggageGet(_ context.Context, k *call) (any, *protocol.ErrorBody) {
	request, failed := decode[struct {
		Key string `json:"key"`
	}](k.data)
	if failed != nil {
		return nil, failed
	}
	if value, ok := baggageOf(k)[request.Key]; ok {
		return value, nil
	}
	return nil, nil
}

// baggageSet accepts the call; the engine keeps no trace that an entry could
// be added to, callers send theirs with each call.
func baggageSet(context.Context, *call) (any, *protocol.ErrorBody) { return nil, nil }

func baggageGetAll(_ context.Context, k *call) (any, *protocol.ErrorBody) { return baggageOf(k), nil }
