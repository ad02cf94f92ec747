package rehearse

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// field finds a field of a mapping, or nil.
func field(n *yaml.Node, name string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// linesOf are the lines of a list's items, no more than there are items in what was decoded of it;
// nil where the field is not a list. JSON's decoder also takes a field for another one's whose name has
// capitals, so that the two may differ.
func linesOf(n *yaml.Node, name string, items int) []int {
	list := field(n, name)
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil
	}
	out := make([]int, min(items, len(list.Content)))
	for i := range out {
		out[i] = list.Content[i].Line
	}
	return out
}

// strict decodes JSON whose fields are all known.
func strict(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// toJSON turns a tree into JSON, keys in their order, numbers with the digits that are written.
func toJSON(n *yaml.Node) (json.RawMessage, error) {
	var b bytes.Buffer
	err := putJSON(&b, n)
	return b.Bytes(), err
}

func putJSON(b *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.MappingNode:
		return putAll(b, n, '{', '}', 2)
	case yaml.SequenceNode:
		return putAll(b, n, '[', ']', 1)
	case yaml.ScalarNode:
		return putScalar(b, n)
	}
	return fmt.Errorf("%d: aliases are not supported; write the value out", n.Line)
}

// putAll writes a list, or a mapping, whose keys are every second item.
func putAll(b *bytes.Buffer, n *yaml.Node, from, to byte, every int) error {
	b.WriteByte(from)
	seen := map[string]bool{}
	for i, item := range n.Content {
		switch {
		case i > 0 && i%every == 0:
			b.WriteByte(',')
		case i%every == 1:
			b.WriteByte(':')
		}
		if every == 2 && i%2 == 0 {
			if item.Kind != yaml.ScalarNode {
				return fmt.Errorf("%d: a key is no text", item.Line)
			}
			if seen[item.Value] {
				return fmt.Errorf("%d: %q is there twice; leave out one of them", item.Line, item.Value)
			}
			seen[item.Value] = true
			quoted, _ := json.Marshal(item.Value) // a string always encodes
			b.Write(quoted)
			continue
		}
		if err := putJSON(b, item); err != nil {
			return err
		}
	}
	b.WriteByte(to)
	return nil
}

func putScalar(b *bytes.Buffer, n *yaml.Node) error {
	var v any
	switch n.ShortTag() {
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			b.WriteString(n.Value)
			return nil
		}
		if err := n.Decode(&v); err != nil {
			return fmt.Errorf("%d: %w", n.Line, err)
		}
	case "!!bool", "!!null":
		if err := n.Decode(&v); err != nil {
			return fmt.Errorf("%d: %w", n.Line, err)
		}
	default:
		v = n.Value
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%d: %w", n.Line, err)
	}
	b.Write(raw)
	return nil
}

// toYAML turns JSON into a tree.
func toYAML(raw []byte) (*yaml.Node, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return getYAML(d)
}

func getYAML(d *json.Decoder) (*yaml.Node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		if t == '{' {
			n.Kind = yaml.MappingNode
		}
		for d.More() {
			item, err := getYAML(d)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, item)
		}
		_, err := d.Token()
		if len(n.Content) == 0 {
			n.Style = yaml.FlowStyle
		}
		return n, err
	case string:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: t}, nil
	case json.Number:
		tag := "!!float"
		if _, err := strconv.Atoi(t.String()); err == nil {
			tag = "!!int"
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: t.String()}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(t)}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
}

// Write writes a recording: its script as rules, then the rest. rules is JSON.
func (r *Recording) Write(w io.Writer, rules json.RawMessage) error {
	rest, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the recording: %w", err)
	}
	whole := fmt.Appendf(nil, `{"rules":%s,"recorded":%s}`, rules, rest)
	n, err := toYAML(whole)
	if err != nil {
		return fmt.Errorf("encode the recording: %w", err)
	}
	n.HeadComment = "A recorded run. Play it again without network: starter test FILE"
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		return err
	}
	return e.Close()
}
