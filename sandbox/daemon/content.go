package daemon

import (
	"encoding/json"
	"errors"

	"github.com/invopop/jsonschema"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// content is the field of sandbox::fs::write that is either text or a channel's
// reading end (contracts/iii-sandbox.md §4.1).
type content struct {
	text string
	// channel is nil for text.
	channel *protocol.ChannelRef
}

// UnmarshalJSON implements json.Unmarshaler for both shapes.
func (c *content) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &c.text) == nil {
		return nil
	}
	var ref protocol.ChannelRef
	if json.Unmarshal(data, &ref) != nil || ref.ChannelID == "" || ref.AccessKey == "" {
		return errors.New("content must be a string or a channel reference")
	}
	c.channel = &ref
	return nil
}

// JSONSchema publishes both shapes.
func (content) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Description: "Text, or the reading end of a channel that carries the bytes.",
		OneOf:       []*jsonschema.Schema{{Type: "string"}, schemaOf[protocol.ChannelRef]()},
	}
}
