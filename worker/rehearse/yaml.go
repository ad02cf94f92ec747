package rehearse

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"go.yaml.in/yaml/v3"
)

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
	n.HeadComment = "A recorded run. Replay it offline: starter test FILE"
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		return err
	}
	return e.Close()
}
