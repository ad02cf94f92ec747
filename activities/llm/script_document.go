package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"weft/activities/textutil"
)

// maxDepth bounds how deep values go into each other.
const maxDepth = 100

// yamlLine finds the line in an error of the YAML parser.
var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// document parses JSON or YAML to a tree with positions; nil if there is a problem.
func (r *scriptReader) document(data []byte) (root *yaml.Node) {
	if json.Valid(data) {
		p := &jsonTree{data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1, column: 1}
		p.dec.UseNumber()
		return p.value(r, 0)
	}
	// A parser of untrusted text that panics must not take the worker with it.
	defer func() {
		if p := recover(); p != nil {
			r.at(&yaml.Node{}, "no YAML: %v", p)
			root = nil
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); err != nil {
		r.syntax(err)
		return nil
	}
	if err := dec.Decode(&second); err == nil {
		r.at(&second, "a second document; want one")
		return nil
	} else if !errors.Is(err, io.EOF) {
		r.syntax(err)
		return nil
	}
	if len(doc.Content) == 0 {
		r.at(&doc, "the script is empty")
		return nil
	}
	return doc.Content[0]
}

func (r *scriptReader) syntax(err error) {
	if errors.Is(err, io.EOF) {
		r.at(&yaml.Node{}, "the script is empty")
		return
	}
	line, text := 1, err.Error()
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		text = m[2]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
		}
	}
	r.at(&yaml.Node{Line: line}, "neither JSON nor YAML: %s", text)
}

// jsonTree reads JSON into YAML's tree: YAML's own parser refuses some JSON (pairs of
// \u escapes, tabs).
type jsonTree struct {
	data         []byte
	dec          *json.Decoder
	seen         int
	line, column int
}

// place is the position of the next token.
func (p *jsonTree) place() (line, column int) {
	to := int(p.dec.InputOffset())
	for to < len(p.data) && bytes.IndexByte([]byte(" \t\r\n,:"), p.data[to]) >= 0 {
		to++
	}
	for p.seen < to {
		if p.data[p.seen] == '\n' {
			p.line, p.column = p.line+1, 1
			p.seen++
			continue
		}
		_, size := utf8.DecodeRune(p.data[p.seen:])
		p.column++
		p.seen += size
	}
	return p.line, p.column
}

func (p *jsonTree) value(r *scriptReader, depth int) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode}
	n.Line, n.Column = p.place()
	if depth > maxDepth {
		r.at(n, "values go more than %d deep", maxDepth)
		return nil
	}
	token, err := p.dec.Token()
	if err != nil {
		r.at(n, "%v", err)
		return nil
	}
	switch t := token.(type) {
	case json.Delim:
		n.Kind = yaml.SequenceNode
		if t == '{' {
			n.Kind = yaml.MappingNode
		}
		for p.dec.More() {
			item := p.value(r, depth+1)
			if item == nil {
				return nil
			}
			n.Content = append(n.Content, item)
		}
		_, _ = p.dec.Token() // its end: the document is valid
	case string:
		n.Tag, n.Value, n.Style = "!!str", t, yaml.DoubleQuotedStyle
	case json.Number:
		n.Tag, n.Value = "!!int", t.String()
		if _, err := strconv.Atoi(n.Value); err != nil {
			n.Tag = "!!float"
		}
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(t)
	case nil:
		n.Tag, n.Value = "!!null", "null"
	}
	return n
}

// value turns a tree into JSON, keys in the order in which they were written.
func (r *scriptReader) value(n *yaml.Node, depth int) json.RawMessage {
	if depth > maxDepth {
		r.at(n, "values go more than %d deep", maxDepth)
		return nil
	}
	switch n.Kind {
	case yaml.ScalarNode:
		return r.scalar(n)
	case yaml.SequenceNode:
		var b bytes.Buffer
		for i, item := range n.Content {
			comma(&b, i)
			b.Write(r.value(item, depth+1))
		}
		return json.RawMessage("[" + b.String() + "]")
	case yaml.MappingNode:
		return r.object(n, depth)
	}
	r.at(n, "aliases are not supported; write the value out")
	return json.RawMessage("null")
}

// object turns a mapping into JSON.
func (r *scriptReader) object(n *yaml.Node, depth int) json.RawMessage {
	var b bytes.Buffer
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case key.Kind != yaml.ScalarNode, key.ShortTag() == "!!merge":
			r.at(key, "a key is no text; merges and keys that are objects are not supported")
			continue
		case seen[key.Value]:
			r.at(key, "key %q is given twice", textutil.Truncate(key.Value, 60))
			continue
		}
		comma(&b, len(seen))
		seen[key.Value] = true
		quoted, _ := textutil.JSON(key.Value) // a string always encodes
		b.Write(quoted)
		b.WriteByte(':')
		b.Write(r.value(n.Content[i+1], depth+1))
	}
	return json.RawMessage("{" + b.String() + "}")
}

func comma(b *bytes.Buffer, i int) {
	if i > 0 {
		b.WriteByte(',')
	}
}

// scalar keeps a number's digits as written where JSON can.
func (r *scriptReader) scalar(n *yaml.Node) json.RawMessage {
	var v any = n.Value
	switch n.ShortTag() {
	case "!!null":
		return json.RawMessage("null")
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return json.RawMessage(n.Value)
		}
		if err := n.Decode(&v); err != nil {
			r.at(n, "%v", err)
		}
		if f, ok := v.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
			r.at(n, "number %s is none in JSON", n.Value)
			v = 0
		}
	case "!!bool":
		if err := n.Decode(&v); err != nil {
			r.at(n, "%v", err)
		}
	case "!!str", "!!timestamp":
	default:
		r.at(n, "tag %s is not supported", n.Tag)
	}
	raw, err := textutil.JSON(v)
	if err != nil {
		r.at(n, "%v", err)
		return json.RawMessage("null")
	}
	return raw
}
