package textutil

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// Remainder returns the part of structured content that the texts do not repeat: "" if one of them, or all together, equal it,
// and an object without the members that equal one of the texts. Each text accounts for one member.
func Remainder(structured json.RawMessage, texts []string) string {
	parts := texts
	if len(texts) > 1 {
		texts = append(slices.Clip(texts), strings.Join(texts, "\n"))
	}
	repeated := map[int]bool{}
	repeats := func(v json.RawMessage) bool {
		for i, text := range texts {
			if !repeated[i] && same(text, v) {
				repeated[i] = true
				return true
			}
		}
		return sameList(parts, v)
	}
	if len(structured) == 0 || string(structured) == "null" || repeats(structured) {
		return ""
	}
	return members(Compact(structured), func(v json.RawMessage) bool { return !repeats(v) })
}

// same reports whether a text equals a value: as a string, as JSON, or as the JSON in a string.
func same(text string, v json.RawMessage) bool {
	var own string
	if json.Unmarshal(v, &own) != nil {
		return sameJSON([]byte(text), v)
	}
	return own != "" && (own == text || sameJSON([]byte(text), []byte(own))) || sameJSON([]byte(text), v)
}

// sameList reports whether a value is a list whose elements equal several texts, one each.
func sameList(texts []string, v json.RawMessage) bool {
	var list []json.RawMessage
	if len(texts) < 2 || json.Unmarshal(v, &list) != nil || len(list) != len(texts) {
		return false
	}
	for i := range list {
		if !same(texts[i], list[i]) {
			return false
		}
	}
	return true
}

// members returns an object with the members for which keep returns true, as they are written, or "" if there are none.
// Other values are returned unchanged.
func members(all string, keep func(json.RawMessage) bool) string {
	d := json.NewDecoder(strings.NewReader(all))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return all
	}
	var kept []string
	count := 0
	for ; d.More(); count++ {
		begin := d.InputOffset()
		var v json.RawMessage
		if _, err := d.Token(); err != nil || d.Decode(&v) != nil {
			return all
		}
		if keep(v) {
			kept = append(kept, strings.TrimLeft(all[begin:d.InputOffset()], ","))
		}
	}
	switch len(kept) {
	case count:
		return all
	case 0:
		return ""
	}
	return "{" + strings.Join(kept, ",") + "}"
}

// Compact returns JSON without white space. Other text is returned unchanged.
func Compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return string(raw)
	}
	return b.String()
}

// sameJSON reports whether two texts are equal as JSON; numbers are compared as text.
func sameJSON(a, b []byte) bool {
	x, ok := DecodeExact(a)
	if !ok {
		return false
	}
	y, ok := DecodeExact(b)
	return ok && reflect.DeepEqual(x, y)
}

// DecodeExact decodes one JSON value, with numbers as [json.Number].
func DecodeExact(raw []byte) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil, false
	}
	return v, !d.More()
}
