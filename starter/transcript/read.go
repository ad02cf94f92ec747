package transcript

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/starter/history"
	"weft/starter/runtree"
)

// Read reads the transcript of a run.
func Read(ctx context.Context, from history.Source, id, run string) (*Transcript, error) {
	r := &reader{Transcript: &Transcript{Tree: runtree.New(id, run), content: map[string]json.RawMessage{}, switched: map[string][]contract.Fallback{}},
		inputs: map[*history.Workflow]*contract.RunInput{}, calls: map[*history.Call]slot{}}
	for e, err := range history.Read(ctx, from, id, run) {
		if err != nil {
			return nil, err
		}
		r.Add(&e)
		r.event(&e)
	}
	return r.Transcript, nil
}

type reader struct {
	*Transcript
	// inputs are what workflows were given.
	inputs map[*history.Workflow]*contract.RunInput
	// calls are the places of the results of calls under way.
	calls map[*history.Call]slot
}

type slot struct {
	thread *thread
	at     int
}

func (r *reader) event(e *history.Event) {
	w := e.Run.Workflow
	switch d := e.Data.(type) {
	case *history.Started:
		r.started(w, d)
	case *history.Said:
		for _, part := range d.Threads() {
			t := r.thread(w, part.Thread)
			t.noModel = strings.Contains(part.Thread, "#")
			r.tail(t, part.From, part.Messages)
		}
	case *history.CallScheduled:
		r.scheduled(w, d.Call)
	case *history.CallCompleted:
		r.completed(w, d)
	case *history.Message:
		if in, ok := d.Body.(*contract.PromptInput); ok && in.Prompt != "" {
			// Messages refer to a prompt that is long or has images.
			if raw, err := contract.InputMessage(in.Prompt, in.Media).Encode(); err == nil {
				r.keep(raw)
			}
		}
	case *history.ChildEnded:
		if d.Branch != nil {
			for _, m := range d.Branch.Messages {
				r.keep(m)
			}
			r.conversation(d.Branch.Conversation)
		}
		if d.Result != nil {
			r.conversation(d.Result.Conversation)
		}
		if d.Failure != nil {
			r.messages(d.Failure.Said)
		}
	}
}

func (r *reader) started(w *history.Workflow, s *history.Started) {
	if s.Branch != nil {
		r.carried(s.Branch.Suspended)
		r.conversation(s.Branch.Conversation)
	}
	in := s.Input
	if in == nil {
		return
	}
	if in.Snapshot != nil {
		r.snapshot(in.Snapshot)
		return
	}
	r.conversation(in.Conversation)
	r.inputs[w] = in
	r.given(w, in.Input)
	if len(in.History) > 0 {
		if chat, err := json.Marshal(in.History); err == nil {
			r.write(w, "chat", &contract.Message{Role: contract.RoleUser, Text: string(chat)})
		}
	}
}

// given writes what a workflow was given: a text, which a later call may make of its parameters, or else the values of the
// whole run. Those of a workflow below depend on how its flow is run, and are in its nodes' threads.
func (r *reader) given(w *history.Workflow, text string) {
	in := cmp.Or(r.inputs[w], &contract.RunInput{})
	for _, values := range []json.RawMessage{in.Params, in.Value} {
		switch {
		case text != "" || len(in.Media) > 0 || !isSet(values):
		case w.Place != "":
			return
		default:
			text = string(textutil.Unescape(values))
		}
	}
	r.write(w, "input", contract.InputMessage(text, in.Media))
}

func isSet(raw json.RawMessage) bool {
	return len(raw) > 0 && string(raw) != "null" && string(raw) != "{}"
}

func (r *reader) write(w *history.Workflow, name string, m *contract.Message) {
	if raw, err := m.Encode(); err == nil {
		r.thread(w, name).put(0, r.keep(raw))
	}
}

// snapshot keeps the messages with which a run goes on.
func (r *reader) snapshot(s *contract.RunSnapshot) {
	for _, m := range s.Content {
		r.keep(m)
	}
	r.conversation(s.Conversation)
	for _, x := range s.Live {
		r.carried(x.Suspended)
	}
}

// conversation keeps messages that a run hands to another.
func (r *reader) conversation(c *contract.Conversation) {
	if c == nil {
		return
	}
	r.messages(c.Messages)
	for _, f := range c.Forks {
		r.messages(f.Messages)
	}
}

func (r *reader) messages(list []contract.ThreadMessage) {
	for _, m := range list {
		r.keep(m.Raw)
	}
}

// carried keeps the messages with which an execution goes on, and those of agents below.
func (r *reader) carried(x *contract.SuspendedExecution) {
	if x == nil {
		return
	}
	if x.Agent != nil {
		r.messages(x.Agent.Messages)
	}
	if x.Map != nil {
		for _, f := range x.Map.Flows {
			r.conversation(f.Conversation)
		}
	}
	for i := range x.Steps {
		s := &x.Steps[i]
		var out struct {
			Message json.RawMessage `json:"message"`
		}
		call := strings.Contains(s.ID, "/model/") || strings.Contains(s.ID, "/tool/")
		if call && json.Unmarshal(s.Result, &out) == nil && len(out.Message) > 0 {
			r.keep(out.Message)
		}
		r.carried(s.Execution)
		if s.Run != nil {
			r.snapshot(s.Run)
		}
	}
}

// maxThread bounds the length of a thread that a history may claim.
const maxThread = 1_000_000

func (r *reader) scheduled(w *history.Workflow, c *history.Call) {
	if in, ok := c.Input.(*contract.ModelInput); ok && in.Base.Len >= 0 && in.Base.Len < maxThread {
		t := r.thread(w, in.Base.Thread)
		r.tail(t, in.Base.Len, in.Tail)
		r.calls[c] = slot{t, in.Base.Len + len(in.Tail)}
	}
	if node, _, ok := strings.Cut(c.ID, "/tool/"); ok && c.Kind == contract.ActivityCallTool {
		r.calls[c] = slot{thread: r.find(w.Place + history.Unescape(node))}
	}
}

// tail takes over the messages of a thread from an index on.
func (r *reader) tail(t *thread, from int, messages []contract.TailEntry) {
	if from < 0 || from >= maxThread {
		return
	}
	for i, m := range messages {
		if len(m.Message) > 0 {
			r.keep(m.Message)
		}
		t.put(from+i, m.SHA)
	}
}

func (r *reader) completed(w *history.Workflow, c *history.CallCompleted) {
	slot := r.calls[c.Call]
	delete(r.calls, c.Call)
	switch out := c.Result.(type) {
	case *contract.CompileFlowResult:
		if out.Input != nil {
			r.given(w, *out.Input)
		}
	case *contract.ToolResult:
		hash := r.keep(out.Message)
		if slot.thread != nil && out.Task == nil && out.Input == nil {
			slot.thread.unread = append(slot.thread.unread, hash)
		}
	case *contract.ModelResult:
		if slot.thread == nil {
			return
		}
		hash := r.keep(out.Message)
		slot.thread.put(slot.at, hash)
		for i := range out.Fallbacks {
			out.Fallbacks[i].To = out.Fallbacks[i].Next(out.Model)
		}
		if len(out.Fallbacks) > 0 {
			r.switched[hash] = out.Fallbacks
		}
	}
}

func (r *reader) thread(w *history.Workflow, name string) *thread {
	full := w.Place + history.Unescape(name)
	if t := r.find(full); t != nil {
		return t
	}
	t := &thread{name: full}
	if w.Place == "" && strings.Contains(name, "#") {
		t.execution = name
	}
	r.threads = append(r.threads, t)
	return t
}
