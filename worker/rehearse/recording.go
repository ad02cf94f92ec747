// Package rehearse replays a recorded run: the interpreter and the real activities run in Temporal's
// test environment inside this process, with model answers from the recording's script and the
// recorded results of tools. No server, network or model is needed, and time is virtual:
// a run that waited a week for an answer takes milliseconds.
//
// Start at [Play]. A recording is made by starter record; its format is [Recording].
package rehearse

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/specadapter/source"
	"weft/workflows/plan"
)

// Recording is a recorded run: a script with the answers of models and, in its field "recorded",
// everything else that a replay needs.
type Recording struct {
	// Name is the file's name, for messages.
	Name string `json:"-"`
	// Script holds the answers of models, as [llm.ParseScript] returns it.
	Script  json.RawMessage `json:"-"`
	Version int             `json:"version"`
	// ID is the run's workflow id.
	ID string `json:"id"`
	// Run is the input of the run, with its flow as a plan.
	Run contract.RunInput `json:"run"`
	// Calls are the calls of the run, in the order in which they were scheduled.
	Calls []Call `json:"calls"`
	// Answers are the answers and messages that clients sent to the run.
	Answers []Answer `json:"answers,omitempty"`
	// Inbox holds the deliveries to the runs, in order; absent if only one order is possible.
	Inbox  []Delivery `json:"inbox,omitempty"`
	Expect Expect     `json:"expect"`
}

// Version is the version of the format.
const Version = 1

// Call is one activity of the run. Absent fields of its input are not compared.
type Call struct {
	// At is the path of the call: the names of the sub-agents and elements of maps that contain it, and the activity's id.
	At string `json:"at"`
	// Kind is the activity's type.
	Kind string `json:"kind"`
	// Sent is the text of the last message that a model was sent, if it is from a user or the flow;
	// Question is the question to a judge.
	Sent     *string `json:"sent,omitempty"`
	Question string  `json:"question,omitempty"`
	// Asks reports whether a remote agent's answer is a question to the user.
	Asks bool `json:"asks,omitempty"`
	// Fallbacks are the models that failed before another one of the list answered.
	Fallbacks []Fallback `json:"fallbacks,omitempty"`
	// Tool and Arguments describe the call of a tool; Result is its text, Error reports whether it is an
	// error.
	Tool      string          `json:"tool,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Result    *string         `json:"result,omitempty"`
	Error     bool            `json:"error,omitempty"`
	// Data is the result of any other activity.
	Data json.RawMessage `json:"data,omitempty"`
	// Fail is the failure of the call; Pending reports whether it had no result when the run ended.
	Fail    *contract.Failure `json:"fail,omitempty"`
	Pending bool              `json:"pending,omitempty"`
	// Line is the line of the call in the file, from 1.
	Line int `json:"-"`
}

// Fallback is a model that failed before another one answered; Class is the class of its failure.
type Fallback struct {
	Model string `json:"model"`
	Class string `json:"class"`
}

// Fallbacks converts fallbacks to their recorded form.
func Fallbacks(list []contract.Fallback) []Fallback {
	var out []Fallback
	for _, s := range list {
		out = append(out, Fallback{s.Model, s.Class})
	}
	return out
}

// HasFallbacks reports whether any call of the run fell back to another model.
func (r *Recording) HasFallbacks() bool {
	return slices.ContainsFunc(r.Calls, func(c Call) bool { return len(c.Fallbacks) > 0 })
}

// Answer is an answer to a request, or a message, that a client sent to the run.
type Answer struct {
	// Kind is one of [contract.Requests]; Value is the answer.
	Kind  string          `json:"kind"`
	Value json.RawMessage `json:"value"`
	// During is set for a message that answers no request: the path of the call during which it was
	// received, "start" or "unread".
	During string `json:"during,omitempty"`
}

// Start and Unread are values of [Answer].During besides paths of calls: received before the first
// call, and never sent to a model.
const (
	Start  = "start"
	Unread = "unread"
)

// HasMessageRequests reports whether a flow may open requests of kind message.
func HasMessageRequests(f *plan.Flow) bool {
	raw, err := json.Marshal(f)
	return err != nil || strings.Contains(string(raw), `"kind":"ask"`) || strings.Contains(string(raw), `"chat":{`)
}

// Expect is the outcome of the run. Absent fields are not compared.
type Expect struct {
	// Status is completed, failed, cancelled or terminated.
	Status     string          `json:"status"`
	ResultText *string         `json:"result_text,omitempty"`
	ResultData json.RawMessage `json:"result_data,omitempty"`
	ResultNode string          `json:"result_node,omitempty"`
	// Class is the class of the failure.
	Class string `json:"class,omitempty"`
	// Turns are the turns of a session: all of them if it was not terminated or cancelled, else
	// those whose outcome is in the history.
	Turns []Turn `json:"turns,omitempty"`
	// Said are the texts of messages that nodes added to the flow's conversation, in order; others may be between them.
	Said []string `json:"said,omitempty"`
	Line int      `json:"-"`
}

// Read parses a recording. Its error names the position of each problem.
func Read(name string, data []byte) (*Recording, error) {
	script, err := llm.ParseScript(name, data)
	if err != nil {
		return nil, fmt.Errorf("%s", contract.FailureOf(err).Text)
	}
	format := "script.yaml"
	if json.Valid(data) {
		format = "script.json"
	}
	doc, diags := source.Parse(format, data)
	if doc == nil {
		return nil, fmt.Errorf("%s:%d: %s", name, diags[0].Line, diags[0].Text)
	}
	n := doc.Root.Get(llm.RecordedField)
	if n == nil {
		return nil, fmt.Errorf("%s:1: the script has no field %q, so there is nothing to compare with; create one with: starter record ID", name, llm.RecordedField)
	}
	r := &Recording{Name: name, Script: script}
	d := json.NewDecoder(bytes.NewReader(n.JSON()))
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("%s:%d: %s: %w", name, n.Pos.Line, llm.RecordedField, err)
	}
	r.lines(n)
	if err := r.check(n.Pos.Line); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Recording) lines(n *source.Value) {
	r.Expect.Line = n.Pos.Line
	if e := n.Get("expect"); e != nil {
		r.Expect.Line = e.Pos.Line
		for i, item := range items(e, "turns", len(r.Expect.Turns)) {
			r.Expect.Turns[i].Line = item.Pos.Line
		}
	}
	for i, item := range items(n, "calls", len(r.Calls)) {
		r.Calls[i].Line = item.Pos.Line
	}
	for i, item := range items(n, "inbox", len(r.Inbox)) {
		d := &r.Inbox[i]
		d.Line = item.Pos.Line
		for k, turn := range items(item, "turns", len(d.Turns)) {
			d.Turns[k].Line = turn.Pos.Line
		}
	}
}

// items returns the items of a list, at most decoded: names that differ in case decode to the same field.
func items(n *source.Value, name string, decoded int) []*source.Value {
	list := n.Get(name)
	if list == nil {
		return nil
	}
	return list.Items[:min(decoded, len(list.Items))]
}

func (r *Recording) check(line int) error {
	switch {
	case r.Version != Version:
		return fmt.Errorf("%s:%d: version is %d, but this build replays %d; record the run again", r.Name, line, r.Version, Version)
	case r.ID == "":
		return fmt.Errorf("%s:%d: id is empty; set it to the run's workflow id", r.Name, line)
	case r.Run.Flow.Plan == nil:
		return fmt.Errorf("%s:%d: run.flow.plan is missing, so there is nothing to run; record the run again", r.Name, line)
	}
	seen := map[string]int{}
	for _, c := range r.Calls {
		if c.At == "" || c.Kind == "" {
			return fmt.Errorf("%s:%d: a call without at or kind; set both", r.Name, c.Line)
		}
		if seen[c.At] > 0 {
			return fmt.Errorf("%s:%d: duplicate call %s, first used at line %d; remove one of them", r.Name, c.Line, c.At, seen[c.At])
		}
		seen[c.At] = c.Line
	}
	return nil
}

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
	n := &yaml.Node{Kind: yaml.ScalarNode}
	switch t := token.(type) {
	case json.Delim:
		n.Kind, n.Style = yaml.SequenceNode, yaml.FlowStyle // if it is empty
		if t == '{' {
			n.Kind = yaml.MappingNode
		}
		for d.More() {
			item, err := getYAML(d)
			if err != nil {
				return nil, err
			}
			n.Content, n.Style = append(n.Content, item), 0
		}
		_, err = d.Token()
	case json.Number:
		n.Tag, n.Value = "!!float", t.String()
		if _, err := strconv.Atoi(n.Value); err == nil {
			n.Tag = "!!int"
		}
	case string:
		n.Tag, n.Value = "!!str", t
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(t)
	default:
		n.Tag, n.Value = "!!null", "null"
	}
	return n, err
}

// Write writes a recording: its script as rules, then the rest. rules is JSON.
func (r *Recording) Write(w io.Writer, rules json.RawMessage) error {
	recorded, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the recording: %w", err)
	}
	n, err := toYAML(fmt.Appendf(nil, `{"rules":%s,"recorded":%s}`, rules, recorded))
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
