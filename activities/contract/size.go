package contract

import commonpb "go.temporal.io/api/common/v1"

// MaxPayload is the most that one call's arguments, or one result, may hold without a store. The server's limit is
// 2 MiB: it would refuse a larger one, and the call would be retried for ever.
const MaxPayload = 1_900 << 10

// Envelope is what a payload holds beside its data, with room.
const Envelope = 4 << 10

// HeldResult says that a run holds its encoded result for whoever started it, who fetches it by [ActivityFetchResult]
// once there is room in its history for so many bytes.
type HeldResult struct {
	ContentRef
	Bytes int `json:"bytes"`
}

// Metadata of payloads that only workers read: they are offloaded to the store from its threshold on, or always.
const (
	MetadataInternal      = "weft-internal"
	InternalFromThreshold = "1"
	InternalAlways        = "2"
)

// MarkInternal marks a payload that only workers read.
func MarkInternal(p *commonpb.Payload) { p.Metadata[MetadataInternal] = []byte(InternalFromThreshold) }
