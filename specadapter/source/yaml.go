package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxYAMLBytes bounds YAML, whose parser costs far more per byte than JSON's.
const maxYAMLBytes = 4 << 20

// yaml reads the text as one YAML document with JSON's data model.
func (p *parser) yaml() *Value {
	if len(p.data) > maxYAMLBytes {
		p.fail(Pos{}, CodeTooLarge, "split the document, or write it as JSON", "the document has %d bytes, want at most %d in YAML",
			len(p.data), maxYAMLBytes)
		return nil
	}
	y := &yamlReader{parser: p, cursor: yamlCursor{data: p.data, starts: yamlStarts(p.data)}, anchors: map[*yaml.Node]*anchored{}}
	node := y.parse()
	if node == nil {
		return nil
	}
	v, _ := y.value(node, 1)
	return v
}

// yamlReader turns YAML nodes into values.
type yamlReader struct {
	*parser
	cursor  yamlCursor
	anchors map[*yaml.Node]*anchored
}

// anchored is a value that aliases may repeat, and its cost; nil while it is being read.
type anchored struct {
	value *Value
	cost  cost
}

// cost is what a value adds to the document, its parts included.
type cost struct{ values, text, depth int }

func (c *cost) add(o cost) {
	c.values += o.values
	c.text += o.text
	c.depth = max(c.depth, o.depth+1)
}

// parse reads the only document, or reports why not.
func (y *yamlReader) parse() (node *yaml.Node) {
	defer func() {
		// The library panics on some hostile texts.
		if r := recover(); r != nil {
			y.fail(y.pos(0), CodeSyntax, "", "not YAML: %v", r)
			node = nil
		}
	}()
	d := yaml.NewDecoder(bytes.NewReader(y.data))
	var doc, next yaml.Node
	if err := d.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			y.fail(y.pos(0), CodeEmpty, "write a flow, or name another file", "the document is empty")
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
		y.fail(y.at(&next), CodeUnsupported, "keep one document per file", "more than one document")
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

// value turns a node that nests depth deep into a value, or returns nil after a report.
func (y *yamlReader) value(n *yaml.Node, depth int) (*Value, cost) {
	if n.Kind == yaml.AliasNode {
		return y.alias(n, depth)
	}
	a := &anchored{}
	if n.Anchor != "" {
		y.anchors[n] = a
	}
	pos := y.at(n)
	var v *Value
	c := cost{values: 1, depth: 1}
	switch n.Kind {
	case yaml.ScalarNode:
		v = y.scalar(n, pos)
		if v != nil {
			c.text = len(v.Text)
		}
		if !y.grow(pos, 1, c.text) {
			return nil, c
		}
	case yaml.SequenceNode:
		v = y.sequence(n, pos, depth, &c)
	case yaml.MappingNode:
		v = y.mapping(n, pos, depth, &c)
	default:
		y.fail(pos, CodeUnsupported, "", "unsupported YAML node of kind %d", n.Kind)
	}
	a.value, a.cost = v, c
	return v, c
}

func (y *yamlReader) alias(n *yaml.Node, depth int) (*Value, cost) {
	pos := y.at(n)
	a := y.anchors[n.Alias]
	if a == nil || a.value == nil {
		y.fail(pos, CodeUnsupported, "write the value out", "the alias *%s contains itself or refers to an invalid value", n.Value)
		return nil, cost{}
	}
	if y.tooDeep(pos, depth+a.cost.depth-1) || !y.grow(pos, a.cost.values, a.cost.text) {
		return nil, cost{}
	}
	return a.value, a.cost
}

func (y *yamlReader) sequence(n *yaml.Node, pos Pos, depth int, c *cost) *Value {
	if !y.plainTag(n, pos, "!!seq") || y.tooDeep(pos, depth) || !y.grow(pos, 1, 0) {
		return nil
	}
	v := &Value{Kind: Array, Pos: pos, Items: make([]*Value, 0, len(n.Content))}
	ok := true
	for _, item := range n.Content {
		iv, ic := y.value(item, depth+1)
		if ok = ok && iv != nil; iv == nil {
			continue
		}
		c.add(ic)
		v.Items = append(v.Items, iv)
	}
	if !ok {
		return nil
	}
	return v
}

func (y *yamlReader) mapping(n *yaml.Node, pos Pos, depth int, c *cost) *Value {
	if !y.plainTag(n, pos, "!!map") || y.tooDeep(pos, depth) || !y.grow(pos, 1, 0) {
		return nil
	}
	members := make([]Member, 0, len(n.Content)/2)
	ok := true
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, keyOK := y.key(n.Content[i])
		v, vc := y.value(n.Content[i+1], depth+1)
		if !keyOK || v == nil || !y.grow(pos, 0, len(key)) {
			ok = false
			continue
		}
		c.add(vc)
		c.text += len(key)
		members = append(members, Member{Key: key, KeyPos: y.at(n.Content[i]), Value: v})
	}
	v := y.object(pos, members)
	if !ok {
		return nil
	}
	return v
}

// key reads a mapping's key, which JSON wants to be a string.
func (y *yamlReader) key(n *yaml.Node) (string, bool) {
	pos := y.at(n)
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode {
		y.fail(pos, CodeUnsupported, "use a string as the key", "a key is %s, want a string", yamlKind(n))
		return "", false
	}
	if n.Anchor != "" && y.anchors[n] == nil {
		y.anchors[n] = &anchored{value: &Value{Kind: String, Pos: pos, Text: n.Value}, cost: cost{1, len(n.Value), 1}}
	}
	if n.ShortTag() == "!!merge" {
		y.fail(pos, CodeUnsupported, "write the members out", "merge keys (<<) are not supported")
		return "", false
	}
	return n.Value, true
}

func yamlKind(n *yaml.Node) string {
	if n.Kind == yaml.SequenceNode {
		return Array.String()
	}
	return Object.String()
}

// plainTag refuses tags that ask for a type that JSON does not have.
func (y *yamlReader) plainTag(n *yaml.Node, pos Pos, want string) bool {
	if tag := n.ShortTag(); tag != want {
		y.fail(pos, CodeUnsupported, "remove the tag", "the tag %s is not supported", Quote(tag))
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
			y.fail(pos, CodeSyntax, "write true or false", "%s is not a boolean", Quote(n.Value))
			return nil
		}
		return &Value{Kind: Bool, Pos: pos, True: b}
	case "!!int", "!!float":
		text, err := yamlNumber(n)
		if err != nil {
			y.fail(pos, CodeUnsupported, "write a decimal number, or quote it to make it a string", "%v", err)
			return nil
		}
		return &Value{Kind: Number, Pos: pos, Text: text}
	default:
		y.plainTag(n, pos, "!!str")
		return nil
	}
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// yamlNumber returns a number in JSON's grammar: as written where possible, or its value.
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
