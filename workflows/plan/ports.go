package plan

import "encoding/json"

// Ports are the values that a node takes and leaves by name. A flow with such nodes has
// [Values.Named]. What a node leaves is written to state keys, from where others take it; of
// several that write one key the last one counts.
//
// Sources: Agent Spec's inputs, outputs and DataFlowEdge.
type Ports struct {
	In  []In  `json:"in,omitempty"`
	Out []Out `json:"out,omitempty"`
	// Clear, if set, is a prefix: what is written under such keys is forgotten before the node
	// leaves its own values.
	Clear string `json:"clear,omitempty"`
}

// In is a value that a node takes.
type In struct {
	Name string `json:"name"`
	// Key is the state key of the value; empty: there is only the default.
	Key string `json:"key,omitempty"`
	// Type is what the value is made to be before the node has it; see package value.
	Type json.RawMessage `json:"type,omitempty"`
	// Default is the value where nothing has been written; absent: the node fails then.
	Default json.RawMessage `json:"default,omitempty"`
}

// Out is a value that a node leaves.
type Out struct {
	Name string `json:"name"`
	// Keys are the state keys to which it is written; there may be none.
	Keys []string `json:"keys,omitempty"`
	// Write is one of [Writes]: what becomes of a value that is already under the keys. Where none is, it is the default
	// for all but overwrite.
	Write string `json:"write,omitempty"`
	// Type and Default are as those of [In]; the default replaces what the node does not
	// give.
	Type    json.RawMessage `json:"type,omitempty"`
	Default json.RawMessage `json:"default,omitempty"`
}

// Writes are the values of [Out.Write]: the new value takes the place of the old one, which is the meaning of none; a list is
// extended by a list, or an object by the members of another; a list is extended by one value.
var Writes = []string{"overwrite", "merge", "insert"}

// InKey is the state key of a run's own input with a name.
func InKey(name string) string { return "$in/" + name }

// ports checks what a node takes and leaves.
func (c *checker) ports(n *Node) {
	if n.Ports == nil {
		return
	}
	if c.f.Values == nil || !c.f.Values.Named {
		c.add("node %q takes values by name, but the flow has no named values", n.ID)
	}
	names := map[string]bool{}
	for _, in := range n.Ports.In {
		if in.Name == "" || names[in.Name] {
			c.add("node %q has an input without a name, or two named %q", n.ID, in.Name)
		}
		names[in.Name] = true
		c.portJSON(n, in.Name, in.Type, in.Default)
	}
	names = map[string]bool{}
	for _, out := range n.Ports.Out {
		if out.Name == "" || names[out.Name] {
			c.add("node %q has an output without a name, or two named %q", n.ID, out.Name)
		}
		names[out.Name] = true
		c.portJSON(n, out.Name, out.Type, out.Default)
		if out.Write != "" {
			c.oneOf(n, "the write of output "+out.Name, out.Write, Writes)
			if len(out.Keys) != 1 {
				c.add("node %q writes its output %q to %d state keys by %s, want one", n.ID, out.Name, len(out.Keys), out.Write)
			}
		}
		for _, k := range out.Keys {
			if len(k) < 2 || k[0] != '$' {
				c.add("node %q writes its output %q to the state key %q, want one that begins with $", n.ID, out.Name, k)
			}
		}
	}
}

func (c *checker) portJSON(n *Node, name string, parts ...json.RawMessage) {
	for _, p := range parts {
		if len(p) > 0 && !json.Valid(p) {
			c.add("node %q has an invalid type or default of %q: not JSON", n.ID, name)
		}
	}
}
