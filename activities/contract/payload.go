package contract

import (
	"encoding/json"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
)

// MaxPayload is the most that one call's arguments, or one result, may hold without a store. The server's limit is
// 2 MiB: it would refuse a larger one, and the call would be retried for ever.
const MaxPayload = 1_900 << 10

// Envelope is what a payload holds beside its data, with room.
const Envelope = 4 << 10

// HeldResult says that a run holds its encoded result for whoever started it, who fetches it by [ActivityFetchResult]
// once there is room in its history for so many bytes. One of more than [MaxPayload] is fetched in parts.
type HeldResult struct {
	ContentRef
	Bytes int `json:"bytes"`
	// Offset is where the part begins that is fetched, as a [ContentPage].
	Offset int `json:"offset,omitempty"`
}

// Metadata of payloads that only workers read: they are offloaded to the store from its threshold on, or always.
const (
	MetadataInternal      = "weft-internal"
	InternalFromThreshold = "1"
	InternalAlways        = "2"
)

// MarkInternal marks a payload that only workers read.
func MarkInternal(p *commonpb.Payload) { p.Metadata[MetadataInternal] = internalFromThreshold }

var internalFromThreshold = []byte(InternalFromThreshold)

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
		return &Failure{Class: ClassPayloadLost, Text: "a payload is missing from the store, for an unknown reason"}
	}
	return f
}
