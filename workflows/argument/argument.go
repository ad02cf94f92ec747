// Package argument decodes input from clients: the inputs of runs, and the arguments of Updates and signals.
package argument

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// DecodeStrict decodes a client's argument, which must be one JSON object (null is rejected), as [contract.DecodeExactly] does.
func DecodeStrict(raw json.RawMessage, to any) error {
	switch text := bytes.TrimSpace(raw); {
	case len(text) == 0:
		return errors.New("missing argument")
	case text[0] != '{':
		return fmt.Errorf("expected a JSON object, got %.100s", text)
	}
	return contract.DecodeExactly(raw, to)
}

// Read decodes an argument like [contract.Decode]: less strictly than [DecodeStrict].
func Read(raw converter.RawValue, to any) error {
	body, err := jsonOf(raw)
	if err != nil {
		return err
	}
	return contract.Decode(body, to)
}

// jsonOf returns the argument as JSON, without parsing it; it rejects any other encoding.
func jsonOf(raw converter.RawValue) (json.RawMessage, error) {
	p := raw.Payload()
	e := string(p.GetMetadata()[converter.MetadataEncoding])
	if f := contract.Unread(p); f != nil {
		return nil, f
	}
	switch {
	case p == nil || e == converter.MetadataEncodingNil:
		return nil, errors.New("missing argument")
	case e != converter.MetadataEncodingJSON:
		return nil, fmt.Errorf("the argument's encoding is %.100q, expected %s", e, converter.MetadataEncodingJSON)
	}
	return p.GetData(), nil
}

// AssertReadable fails the workflow task if, during a replay, an argument that the run has read before can no longer be decoded.
func AssertReadable(ctx workflow.Context, raw converter.RawValue) {
	if f := contract.Unread(raw.Payload()); f != nil && workflow.IsReplaying(ctx) {
		panic(f.Error())
	}
}

// JSON returns the argument of an Update or a run as JSON, to be decoded strictly. Handlers take raw arguments, because the SDK
// rejects one that it cannot decode without a failure class.
func JSON(raw converter.RawValue, what, shape string) (json.RawMessage, error) {
	body, err := jsonOf(raw)
	if _, unread := errors.AsType[*contract.Failure](err); err != nil && !unread {
		err = contract.Failf(contract.ClassBadRequest, "send JSON: "+shape, "%s: %v", what, err)
	}
	return body, err
}
