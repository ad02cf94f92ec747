package agentspec

import (
	"bytes"
	"encoding/json"

	"weft/specadapter/agentspec/model"
)

// schemaOf returns a type as a JSON Schema, nil for any type.
func schemaOf(s *model.Shape) json.RawMessage {
	if s == nil || s.Kind == model.AnyShape && s.Enum == nil {
		return nil
	}
	var b bytes.Buffer
	writeShape(&b, s)
	return b.Bytes()
}

func writeShape(b *bytes.Buffer, s *model.Shape) {
	if s.Enum == nil {
		writeKind(b, s)
		return
	}
	b.WriteString(`{"anyOf":[`)
	writeKind(b, s)
	b.WriteString(`],"enum":[`)
	for i, v := range s.Enum {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(v.JSON())
	}
	b.WriteString("]}")
}

func writeKind(b *bytes.Buffer, s *model.Shape) {
	switch s.Kind {
	case model.AnyShape:
		b.WriteString("{}")
	case model.ArrayShape:
		b.WriteString(`{"type":"array","items":`)
		writeShape(b, s.Items)
		b.WriteByte('}')
	case model.ObjectShape:
		b.WriteString(`{"type":"object","properties":{`)
		for i, p := range s.Props {
			if i > 0 {
				b.WriteByte(',')
			}
			writeText(b, p.Name)
			b.WriteByte(':')
			writeShape(b, p.Type)
		}
		b.WriteString(`},"additionalProperties":`)
		if s.More == nil {
			b.WriteString("false}")
			return
		}
		writeShape(b, s.More)
		b.WriteByte('}')
	case model.UnionShape:
		b.WriteString(`{"anyOf":[`)
		for i, m := range s.Members {
			if i > 0 {
				b.WriteByte(',')
			}
			writeShape(b, m)
		}
		b.WriteString("]}")
	default:
		b.WriteString(`{"type":`)
		writeText(b, s.Kind.String())
		b.WriteByte('}')
	}
}

func writeText(b *bytes.Buffer, s string) {
	raw, _ := json.Marshal(s) // a string always encodes
	b.Write(raw)
}

// objectOf returns the schema of an object whose members are properties; those without a default are required.
func objectOf(list []model.Property) json.RawMessage {
	var b, required bytes.Buffer
	b.WriteString(`{"type":"object","properties":{`)
	for i := range list {
		p := &list[i]
		if i > 0 {
			b.WriteByte(',')
		}
		writeText(&b, p.Title)
		b.WriteByte(':')
		switch {
		case p.Schema != nil:
			b.Write(p.Schema.JSON())
		case p.Type == nil:
			b.WriteString("{}")
		default:
			writeShape(&b, p.Type)
		}
		if p.Default == nil {
			if required.Len() > 0 {
				required.WriteByte(',')
			}
			writeText(&required, p.Title)
		}
	}
	b.WriteString(`},"required":[`)
	b.Write(required.Bytes())
	b.WriteString(`],"additionalProperties":false}`)
	return b.Bytes()
}
