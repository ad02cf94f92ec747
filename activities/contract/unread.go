package contract

import (
	"encoding/json"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
)

// encodingLost marks a payload that stands for one that cannot be read: it is missing, or its key is.
// No worker or client of ours sends one.
const encodingLost = "weft/lost"

// Unreadable is the payload that stands for one that cannot be read, and says why.
func Unreadable(why *Failure) (*commonpb.Payload, error) {
	raw, err := json.Marshal(why)
	return &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encodingLost)}, Data: raw}, err
}

// Unread is why the payload cannot be read for which p stands, or nil.
func Unread(p *commonpb.Payload) *Failure {
	if string(p.GetMetadata()[converter.MetadataEncoding]) != encodingLost {
		return nil
	}
	f := &Failure{}
	if err := json.Unmarshal(p.GetData(), f); err != nil || f.Text == "" {
		return &Failure{Class: ClassPayloadLost, Text: "a payload stands for one that is gone, and does not say why"}
	}
	return f
}
