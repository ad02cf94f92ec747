package llm

import (
	"encoding/json"
	"maps"
	"slices"

	"weft/activities/textutil"
)

// marshal encodes a request and merges the author's extra fields into it.
func (c *remote) marshal(v any, extra json.RawMessage) ([]byte, error) {
	raw, err := textutil.JSON(v)
	if err != nil {
		return nil, c.unsendable("%v", err)
	}
	if !isSet(extra) {
		return raw, nil
	}
	merged, err := c.merged("", raw, extra)
	if err != nil {
		return nil, err
	}
	return merged, nil
}

// merged adds the members of one object to another, recursively. It never replaces a value that the engine has
// set.
func (c *remote) merged(path string, into, from json.RawMessage) (json.RawMessage, error) {
	var have, more map[string]json.RawMessage
	if json.Unmarshal(from, &more) != nil || more == nil {
		return nil, c.unsendable("extra parameters%s are no JSON object", path)
	}
	if json.Unmarshal(into, &have) != nil || have == nil {
		return nil, c.unsendable("extra parameter%s is set by the engine already; leave it out", path)
	}
	for _, key := range slices.Sorted(maps.Keys(more)) {
		value := more[key]
		if have[key] != nil {
			var err error
			if value, err = c.merged(path+" "+key, have[key], value); err != nil {
				return nil, c.unsendable("extra parameter%s is set by the engine already; use the parameter of its own, or leave it out", path+" "+key)
			}
		}
		have[key] = value
	}
	return textutil.JSON(have)
}
