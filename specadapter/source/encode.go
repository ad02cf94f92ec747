package source

import (
	"strconv"

	"weft/workflows/plan/value"
)

// JSON is the value as compact JSON: members in the author's order, numbers as they were
// written, strings with the fewest escapes. Two texts of the same value give the same
// bytes, whatever their format.
func (v *Value) JSON() []byte { return v.appendJSON(nil) }

func (v *Value) appendJSON(b []byte) []byte {
	switch v.Kind {
	case Bool:
		return strconv.AppendBool(b, v.True)
	case Number:
		return append(b, v.Text...)
	case String:
		return value.AppendString(b, v.Text)
	case Array:
		b = append(b, '[')
		for i, item := range v.Items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.appendJSON(b)
		}
		return append(b, ']')
	case Object:
		b = append(b, '{')
		for i, m := range v.Members {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(value.AppendString(b, m.Key), ':')
			b = m.Value.appendJSON(b)
		}
		return append(b, '}')
	}
	return append(b, "null"...)
}
