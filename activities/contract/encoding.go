package contract

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// Encode is json.Marshal of Go 1.27, which takes half the time of Go 1.26's if much of the value is already encoded. The
// value must not contain a json.Number of encoding/json, which would become a string.
func Encode(v any) ([]byte, error) { return jsonv1.Marshal(v) }

// Size returns the size of a value in a payload, in bytes.
func Size(v any) (int, error) {
	b, err := Encode(v)
	if err != nil {
		return 0, fmt.Errorf("encode: %w", err)
	}
	return len(b), nil
}

// Decode is json.Unmarshal of Go 1.27, which takes less than half the time of Go 1.26's.
func Decode(raw []byte, to any) error { return jsonv1.Unmarshal(raw, to) }

// DecodeExactly is [Decode], but rejects unknown fields, and duplicate names in an object, because parsers differ in
// which value they use. Fields match case-insensitively, because Decode accepts "Approve" for approve.
func DecodeExactly(raw []byte, to any) error {
	exactly := json.JoinOptions(jsonv1.DefaultOptionsV1(), json.RejectUnknownMembers(true), jsontext.AllowDuplicateNames(false))
	err := json.Unmarshal(raw, to, exactly)
	if err == nil {
		return nil
	}
	// Only errors of the new kind say where a name stands.
	placed := json.Unmarshal(raw, reflect.New(reflect.TypeOf(to).Elem()).Interface(), exactly, jsonv1.ReportErrorsWithLegacySemantics(false))
	if twice, ok := errors.AsType[*jsontext.SyntacticError](placed); ok && errors.Is(twice.Err, jsontext.ErrDuplicateName) {
		return fmt.Errorf("%.200q appears twice, again at byte %d: %.50s; remove one of them", pathOf(twice.JSONPointer), twice.ByteOffset+1, raw[twice.ByteOffset:])
	}
	return err
}

// pathOf formats a JSON pointer for messages, such as arguments.list[0].to.
func pathOf(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		if _, err := strconv.ParseUint(token, 10, 0); err == nil {
			token = "[" + token + "]"
		} else if b.Len() > 0 {
			token = "." + token
		}
		b.WriteString(token)
	}
	return b.String()
}
