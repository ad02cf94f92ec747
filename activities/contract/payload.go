package contract

import (
	"encoding/json"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
)

// MaxPayload is the largest size of a call's arguments or of a result without a store, in bytes. The server rejects
// payloads of more than 2 MiB, and the call would be retried forever.
const MaxPayload = 1_900 << 10

// Envelope is an upper estimate of a payload's size apart from its data, in bytes.
const Envelope = 4 << 10

// HeldResult says that a run holds its encoded result until the run that started it has room for that many bytes in its
// history and fetches it by [ActivityFetchResult]. A result larger than [MaxPayload] is fetched in parts.
type HeldResult struct {
	ContentRef
	Bytes int `json:"bytes"`
	// Offset is where the part to fetch begins; a part is a [ContentPage].
	Offset int `json:"offset,omitempty"`
}

// Metadata of payloads that only workers read. They are offloaded to the store above its threshold, or always.
const (
	MetadataInternal      = "weft-internal"
	InternalFromThreshold = "1"
	InternalAlways        = "2"
)

// MarkInternal marks a payload that only workers read.
func MarkInternal(p *commonpb.Payload) { p.Metadata[MetadataInternal] = internalFromThreshold }

var internalFromThreshold = []byte(InternalFromThreshold)

// encodingLost marks a placeholder for an unreadable payload: it is missing, or its key is. No worker or client sends
// one.
const encodingLost = "weft/lost"

// Unreadable returns a placeholder for a payload that cannot be read, with the reason.
func Unreadable(why *Failure) (*commonpb.Payload, error) {
	raw, err := json.Marshal(why)
	return &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encodingLost)}, Data: raw}, err
}

// Unread returns the reason that p is a placeholder for an unreadable payload, or nil if it is not.
func Unread(p *commonpb.Payload) *Failure {
	if string(p.GetMetadata()[converter.MetadataEncoding]) != encodingLost {
		return nil
	}
	f := &Failure{}
	if err := json.Unmarshal(p.GetData(), f); err != nil || f.Text == "" {
		return &Failure{Class: ClassPayloadLost, Text: "a payload is missing from the store, for an unknown reason", Remedy: "start the run again"}
	}
	return f
}
