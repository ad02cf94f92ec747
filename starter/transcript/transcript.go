// Package transcript reads the conversations of a run, its branches and its sub-agents from histories.
package transcript

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/starter/runtree"
)

// Transcript holds the conversations in the histories of a run.
type Transcript struct {
	*runtree.Tree

	threads []*thread
	named   map[string]*thread
	// content holds encoded messages by hash; switched holds the models that failed before a message, by its hash.
	content  map[string]json.RawMessage
	switched map[string][]contract.Fallback
}

type thread struct {
	// name is the thread's name, prefixed with the place of its sub-agent.
	name string
	// execution is the execution of the thread, node#step, in the run's own flow.
	execution string
	// noModel reports that a node without a model wrote it.
	noModel bool
	// isConversation reports that it is a flow's conversation. Its first inherited messages come from the thread above, or from
	// the workflow's input.
	isConversation bool
	inherited      int
	parent         *thread
	hashes         []string
	// made is the origin of each message.
	made []made
	// unread are tool results that have not been sent to a model yet.
	unread []string
}

// made is the execution that added a message, node#step, and the time; it is zero for the input of a run.
type made struct {
	Execution string    `json:"execution,omitempty"`
	Time      time.Time `json:"time,omitzero"`
}

// put stores the message at an index, and reports whether there was none.
func (t *thread) put(i int, hash string, by made) (isNew bool) {
	for len(t.hashes) <= i {
		t.hashes, t.made = append(t.hashes, ""), append(t.made, made{})
	}
	if isNew = t.hashes[i] == ""; isNew {
		t.made[i] = by
	}
	t.hashes[i] = hash
	return isNew
}

func (t *thread) all() []string {
	out := slices.Clone(t.hashes)
	if t.parent != nil {
		for i, hash := range t.parent.all() {
			if i < min(t.inherited, len(out)) && out[i] == "" {
				out[i] = hash
			}
		}
	}
	for _, hash := range t.unread {
		if !slices.Contains(out, hash) {
			out = append(out, hash)
		}
	}
	return out
}

func (t *Transcript) keep(raw json.RawMessage) string {
	hash := contract.SHA(raw)
	t.content[hash] = raw
	return hash
}

// message decodes a stored message with the texts that it refers to. It returns nil on failure.
func (t *Transcript) message(hash string) *contract.Message {
	m, err := contract.DecodeMessage(t.content[hash])
	if err != nil {
		return nil
	}
	for _, p := range m.Parts {
		text := p.Text
		if p.Ref != nil {
			text = "(a text that is not in the history)"
			if other, err := contract.DecodeMessage(t.content[p.Ref.SHA]); err == nil {
				text = other.Text
			}
		}
		m.Text += p.Shown(text)
	}
	m.Parts, m.Provider = nil, nil
	return m
}

// Thread is a conversation. A message that is missing in the history is nil.
type Thread struct {
	Thread   string              `json:"thread"`
	Messages []*contract.Message `json:"messages"`
	// made is the origin of each message, if known.
	made []made
	// Fallbacks are the models that failed before a fallback answered.
	Fallbacks []Switch `json:"fallbacks,omitempty"`
}

// Switch is a fallback before a message, counted from 0.
type Switch struct {
	N int `json:"n"`
	contract.Fallback
}

// Threads returns the conversations in the order in which they started.
func (t *Transcript) Threads() []Thread {
	out := []Thread{}
	for _, x := range t.threads {
		thread := Thread{Thread: x.name, Messages: []*contract.Message{}, made: x.made}
		for _, hash := range x.all() {
			for _, s := range t.switched[hash] {
				thread.Fallbacks = append(thread.Fallbacks, Switch{len(thread.Messages), s})
			}
			thread.Messages = append(thread.Messages, t.message(hash))
		}
		out = append(out, thread)
	}
	return out
}

// Line is one message of a transcript as a line of JSON; N counts from 0.
type Line struct {
	Thread  string            `json:"thread"`
	N       int               `json:"n"`
	Message *contract.Message `json:"message"`
	made
}

// Lines returns the messages of conversations in sequence.
func Lines(threads []Thread) []Line {
	var out []Line
	for _, t := range threads {
		for n, m := range t.Messages {
			line := Line{Thread: t.Thread, N: n, Message: m}
			if n < len(t.made) {
				line.made = t.made[n]
			}
			out = append(out, line)
		}
	}
	return out
}

// Status returns a closed run's status as far as its histories contain it.
func (t *Transcript) Status() *contract.Status {
	root := t.Root()
	st := &contract.Status{Flow: contract.LabelOf(root.Flow), Model: root.Model, Usage: t.Usage()}
	if st.Model == "" && root.Input != nil {
		st.Model = root.Input.Model
	}
	if root.Result != nil {
		st.Model, st.Usage = root.Result.Model, root.Result.Usage
	}
	for _, x := range t.threads {
		if x.execution != "" {
			st.Executions = append(st.Executions, history.ExecutionOf(x.execution))
		}
	}
	if x := t.named[contract.ConversationThread]; x != nil {
		var all []json.RawMessage
		for _, hash := range x.all() {
			all = append(all, t.content[hash])
		}
		st.Conversation = contract.LastMessages(all)
	}
	slices.SortStableFunc(st.Executions, func(x, y contract.Execution) int {
		return cmp.Or(cmp.Compare(x.Step, y.Step), cmp.Compare(x.Node, y.Node))
	})
	return st
}

// Unfinished returns the nodes whose conversation ends without an answer.
func (t *Transcript) Unfinished() []string {
	var out []string
	for _, x := range t.threads {
		if x.execution == "" || x.noModel {
			continue
		}
		all := x.all()
		last := (*contract.Message)(nil)
		if len(all) > 0 {
			last = t.message(all[len(all)-1])
		}
		if last == nil || last.Role != contract.RoleAssistant || len(last.Calls) > 0 || strings.TrimSpace(last.Text) == "" {
			out = append(out, history.ExecutionOf(x.execution).Node)
		}
	}
	return out
}

// Text formats threads.
func Text(threads []Thread) string {
	var b strings.Builder
	for i, t := range threads {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "== %s\n", plaintext.Line(t.Thread, 200))
		for n, m := range t.Messages {
			for _, s := range t.Fallbacks {
				if s.N == n {
					fmt.Fprintf(&b, "(switched from %s to %s: %s: %s)\n", plaintext.Line(s.Model, 100), plaintext.Line(s.To, 100), plaintext.Line(s.Class, 40), plaintext.Line(s.Text, 300))
				}
			}
			b.WriteString(messageText(m))
		}
	}
	return b.String()
}

func messageText(m *contract.Message) string {
	if m == nil {
		return "?\n  (a message that is not in the history, or cannot be decoded here)\n"
	}
	var b strings.Builder
	b.WriteString(plaintext.Line(m.Role, 20) + plaintext.If(m.Name != "", " %s", plaintext.Line(m.Name, 64)) + plaintext.If(m.Error, ", error") + "\n")
	if m.Text != "" {
		for _, line := range strings.Split(strings.TrimRight(plaintext.Lines(m.Text), "\n"), "\n") {
			b.WriteString(strings.TrimRight("  "+line, " ") + "\n")
		}
	}
	for _, c := range m.Calls {
		fmt.Fprintf(&b, "  → %s %s\n", plaintext.Line(c.Name, 64), plaintext.Lines(strings.ReplaceAll(c.Arguments, "\n", " ")))
	}
	return b.String()
}
