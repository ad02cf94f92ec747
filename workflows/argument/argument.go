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

// Strictly decodes what somebody sent: one JSON object, as [contract.DecodeExactly] does. null, which decodes into anything, is
// none.
func Strictly(raw json.RawMessage, to any) error {
	switch text := bytes.TrimSpace(raw); {
	case len(text) == 0:
		return errors.New("there is no argument")
	case text[0] != '{':
		return fmt.Errorf("want a JSON object, not %.100s", text)
	}
	return contract.DecodeExactly(raw, to)
}

// Read decodes what came as it came.
func Read(raw converter.RawValue, to any) error {
	body, err := jsonOf(raw)
	if err != nil {
		return err
	}
	return contract.Decode(body, to)
}

// jsonOf is the JSON of an argument, which nobody has looked at yet.
func jsonOf(raw converter.RawValue) (json.RawMessage, error) {
	p := raw.Payload()
	e := string(p.GetMetadata()[converter.MetadataEncoding])
	if f := contract.Unread(p); f != nil {
		return nil, f
	}
	switch {
	case p == nil || e == converter.MetadataEncodingNil:
		return nil, errors.New("there is no argument")
	case e != converter.MetadataEncodingJSON:
		return nil, fmt.Errorf("the argument's encoding is %.100q, want %s", e, converter.MetadataEncodingJSON)
	}
	return p.GetData(), nil
}

// AssertReadable stops the workflow task of a run that is rebuilt where an argument cannot be read any more
// that the run had read before.
func AssertReadable(ctx workflow.Context, raw converter.RawValue) {
	if f := contract.Unread(raw.Payload()); f != nil && workflow.IsReplaying(ctx) {
		panic(f.Error())
	}
}

// JSON is the argument of an Update or a run as JSON, to be decoded strictly. An Update takes its argument as it came: one that the
// SDK cannot decode would be refused without a class.
func JSON(raw converter.RawValue, what, want string) (json.RawMessage, error) {
	body, err := jsonOf(raw)
	if _, unread := errors.AsType[*contract.Failure](err); err != nil && !unread {
		err = contract.Failf(contract.ClassBadRequest, "send JSON: "+want, "%s: %v", what, err)
	}
	return body, err
}
