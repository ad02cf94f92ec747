package contract

import (
	"github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// Encode is Marshal of Go 1.27's encoding/json, which takes half the time of Go 1.26's where much is encoded already. A value must not
// hold a json.Number of encoding/json, which would become a string.
func Encode(v any) ([]byte, error) { return jsonv1.Marshal(v) }

// Decode is Unmarshal of Go 1.27's encoding/json, which takes a third of the time of Go 1.26's.
func Decode(raw []byte, to any) error { return jsonv1.Unmarshal(raw, to) }

// DecodeExactly is [Decode], but a field that to does not have is an error.
func DecodeExactly(raw []byte, to any) error {
	return json.Unmarshal(raw, to, jsonv1.DefaultOptionsV1(), json.RejectUnknownMembers(true))
}
