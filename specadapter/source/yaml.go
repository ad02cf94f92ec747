package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxYAMLBytes is the maximum size of YAML, which costs far more to parse per byte than JSON.
const maxYAMLBytes = 4 << 20

func (p *parser) yaml() *Value {
	if len(p.data) > maxYAMLBytes {
		p.fail(Pos{}, CodeTooLarge, "split the document or convert it to JSON", "the document has %d bytes; the limit for YAML is %d",
			len(p.data), maxYAMLBytes)
		return nil
	}
	y := &yamlReader{parser: p, cursor: yamlCursor{data: p.data, starts: yamlStarts(p.data)}, anchors: map[*yaml.Node]*Value{}}
	node := y.parse()
	if node == nil {
		return nil
	}
	return y.value(node, 1)
}

// yamlReader converts YAML nodes to values. anchors are the values that aliases may refer to.
type yamlReader struct {
	*parser
	cursor  yamlCursor
	anchors map[*yaml.Node]*Value
}

// parse parses the only document in the text; it returns nil after reporting an error.
func (y *yamlReader) parse() (node *yaml.Node) {
	defer func() {
		// The library panics on some malicious input.
		if r := recover(); r != nil {
			y.fail(y.pos(0), CodeSyntax, "", "not YAML: %v", r)
			node = nil
		}
	}()
	d := yaml.NewDecoder(bytes.NewReader(y.data))
	var doc, next yaml.Node
	if err := d.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			y.fail(y.pos(0), CodeEmpty, "add a flow, or name another file", "the document is empty")
		} else {
			y.yamlSyntax(err)
		}
		return nil
	}
	switch err := d.Decode(&next); {
	case errors.Is(err, io.EOF):
	case err != nil:
		y.yamlSyntax(err)
		return nil
	default:
		y.fail(y.at(&next), CodeUnsupported, "use one document per file", "more than one document")
		return nil
	}
	return doc.Content[0]
}

var yamlLine = regexp.MustCompile(`^yaml: (?:unmarshal errors:\n\s*)?(?:line (\d+): )?`)

func (y *yamlReader) yamlSyntax(err error) {
	text := err.Error()
	m := yamlLine.FindStringSubmatch(text)
	line := 1
	if m != nil {
		text = strings.TrimPrefix(text, m[0])
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = min(max(n, 1), len(y.cursor.starts))
		}
	}
	if strings.Contains(text, "exceeded max depth") {
		y.tooDeep(y.pos(y.cursor.starts[line-1]), MaxDepth+1)
		return
	}
	help := "check indentation and colons; quote strings with special characters"
	if strings.Contains(text, "tab") || strings.Contains(text, "cannot start any token") {
		help = "indent YAML with spaces, not tabs; quote strings that begin with a special character"
	}
	y.fail(y.pos(y.cursor.starts[line-1]), CodeSyntax, help, "not YAML: %s", text)
}

func (y *yamlReader) at(n *yaml.Node) Pos { return y.pos(y.cursor.at(n.Line, n.Column)) }

// value converts a node at a nesting depth to a value; it returns nil after reporting an error.
func (y *yamlReader) value(n *yaml.Node, depth int) (v *Value) {
	pos := y.at(n)
	switch n.Kind {
	case yaml.AliasNode:
		if v = y.anchors[n.Alias]; v == nil {
			y.fail(pos, CodeUnsupported, "replace the alias by the value", "the alias *%s contains itself or refers to an invalid value", n.Value)
		} else if !y.repeat(v, pos, depth) {
			return nil
		}
		return v
	case yaml.ScalarNode:
		if v = y.scalar(n, pos); v != nil && !y.grow(pos, 1, len(v.Text)) {
			return nil
		}
	case yaml.SequenceNode:
		v = y.sequence(n, pos, depth)
	case yaml.MappingNode:
		v = y.mapping(n, pos, depth)
	default:
		y.fail(pos, CodeUnsupported, "", "unsupported YAML node of kind %d", n.Kind)
	}
	if n.Anchor != "" {
		y.anchors[n] = v
	}
	return v
}

// repeat counts the values that an alias at pos repeats, against the limits.
func (y *yamlReader) repeat(v *Value, pos Pos, depth int) bool {
	if !y.grow(pos, 1, len(v.Text)) || v.Kind >= Array && y.tooDeep(pos, depth) {
		return false
	}
	for _, item := range v.Items {
		if !y.repeat(item, pos, depth+1) {
			return false
		}
	}
	for _, m := range v.Members {
		if !y.grow(pos, 0, len(m.Key)) || !y.repeat(m.Value, pos, depth+1) {
			return false
		}
	}
	return true
}

func (y *yamlReader) sequence(n *yaml.Node, pos Pos, depth int) *Value {
	if !y.plainTag(n, pos, "!!seq") || y.tooDeep(pos, depth) || !y.grow(pos, 1, 0) {
		return nil
	}
	v := &Value{Kind: Array, Pos: pos}
	for _, item := range n.Content {
		v.Items = append(v.Items, y.value(item, depth+1))
	}
	if slices.Contains(v.Items, nil) {
		return nil
	}
	return v
}

func (y *yamlReader) mapping(n *yaml.Node, pos Pos, depth int) *Value {
	if !y.plainTag(n, pos, "!!map") || y.tooDeep(pos, depth) || !y.grow(pos, 1, 0) {
		return nil
	}
	var members []Member
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, ok := y.key(n.Content[i])
		if v := y.value(n.Content[i+1], depth+1); ok && v != nil && y.grow(pos, 0, len(key)) {
			members = append(members, Member{Key: key, KeyPos: y.at(n.Content[i]), Value: v})
		}
	}
	if v := y.object(pos, members); len(members) == len(n.Content)/2 {
		return v
	}
	return nil
}

// key returns the key of a mapping, which must be a string in JSON.
func (y *yamlReader) key(n *yaml.Node) (string, bool) {
	pos := y.at(n)
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode {
		kind := Object
		if n.Kind == yaml.SequenceNode {
			kind = Array
		}
		y.fail(pos, CodeUnsupported, "use a string as the key", "key is %s, expected a string", kind)
		return "", false
	}
	if n.Anchor != "" && y.anchors[n] == nil {
		y.anchors[n] = &Value{Kind: String, Pos: pos, Text: n.Value}
	}
	if n.ShortTag() == "!!merge" {
		y.fail(pos, CodeUnsupported, "list the members", "merge keys (<<) are not supported")
		return "", false
	}
	return n.Value, true
}

// plainTag rejects tags that stand for types that JSON does not have.
func (y *yamlReader) plainTag(n *yaml.Node, pos Pos, want string) bool {
	if tag := n.ShortTag(); tag != want {
		y.fail(pos, CodeUnsupported, "remove the tag", "unsupported tag %s", Quote(tag))
		return false
	}
	return true
}

func (y *yamlReader) scalar(n *yaml.Node, pos Pos) *Value {
	switch tag := n.ShortTag(); tag {
	case "!!str", "!!timestamp":
		return &Value{Kind: String, Pos: pos, Text: n.Value}
	case "!!null":
		return &Value{Kind: Null, Pos: pos}
	case "!!bool":
		var b bool
		if err := n.Decode(&b); err != nil {
			y.fail(pos, CodeSyntax, "use true or false", "%s is not a boolean", Quote(n.Value))
			return nil
		}
		return &Value{Kind: Bool, Pos: pos, True: b}
	case "!!int", "!!float":
		text, err := yamlNumber(n)
		if err != nil {
			y.fail(pos, CodeUnsupported, "use a decimal number, or quote it to make it a string", "%v", err)
			return nil
		}
		return &Value{Kind: Number, Pos: pos, Text: text}
	default:
		y.plainTag(n, pos, "!!str")
		return nil
	}
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// yamlNumber returns a number as a JSON literal: as written if it is one, else by its value.
func yamlNumber(n *yaml.Node) (string, error) {
	text := strings.TrimPrefix(n.Value, "+")
	if jsonNumber.MatchString(text) {
		return text, nil
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return "", fmt.Errorf("%s is not a number", Quote(n.Value))
	}
	switch v := v.(type) {
	case int, int64, uint64:
		return fmt.Sprint(v), nil
	case float64:
		if !math.IsInf(v, 0) && !math.IsNaN(v) {
			return strconv.FormatFloat(v, 'g', -1, 64), nil
		}
	}
	return "", fmt.Errorf("JSON has no number %s", Quote(n.Value))
}
