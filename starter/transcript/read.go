package transcript

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/starter/history"
	"weft/starter/runtree"
	"weft/workflows/plan"
)

// Read reads the transcript of a run.
func Read(ctx context.Context, from history.Source, id, run string) (*Transcript, error) {
	r := NewReader()
	r.Tree = runtree.New(id, run)
	for e, err := range history.Read(ctx, from, id, run) {
		if err != nil {
			return nil, err
		}
		r.Tree.Add(&e)
		r.Add(&e)
	}
	return r.Transcript, nil
}

// Reader reads the conversations of a run from the events of its histories. Events of different workflows may be added in any
// order. Use [NewReader] to create one.
type Reader struct {
	*Transcript
	// added are the entries that the last event added.
	added []Entry
	// forked are the executions of the original run that added the initial messages of a fork, by hash, in order.
	forked map[string][]string
	// inputs are the inputs of workflows.
	inputs map[*history.Workflow]*contract.RunInput
	// calls are the positions for the results of calls in flight.
	calls map[*history.Call]slot
}

type slot struct {
	thread *thread
	at     int
}

// NewReader returns an empty reader.
func NewReader() *Reader {
	return &Reader{Transcript: &Transcript{named: map[string]*thread{}, content: map[string]json.RawMessage{}, switched: map[string][]contract.Fallback{}},
		forked: map[string][]string{}, inputs: map[*history.Workflow]*contract.RunInput{}, calls: map[*history.Call]slot{}}
}

// Entry is a message that was added to a flow's conversation.
type Entry struct {
	Message *contract.Message
	made
	// Place is the place of the [history.Call] or the record that contains it.
	Place string
}

// Add adds the next event. It returns the new entries of flows' conversations, each only once: a conversation that continues
// another flow's adds only its own entries.
func (r *Reader) Add(e *history.Event) []Entry {
	r.added = nil
	w := e.Run.Workflow
	switch d := e.Data.(type) {
	case *history.Started:
		r.started(w, d)
	case *history.MessagesRecorded:
		for _, part := range d.Threads() {
			t := r.thread(w, part.Thread)
			t.noModel = strings.Contains(part.Thread, "#")
			t.inherited = part.Inherited
			r.tail(t, part.From, part.Messages, origin{made: made{history.Unescape(part.Execution), e.Time}, place: d.Place, below: part.Below})
		}
	case *history.CallScheduled:
		r.scheduled(w, d.Call)
	case *history.CallCompleted:
		r.completed(w, e.Time, d)
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
			r.messages(d.Failure.Messages)
		}
	}
	return r.added
}

func (r *Reader) started(w *history.Workflow, s *history.Started) {
	if s.Branch != nil {
		r.addSuspended(s.Branch.Suspended)
		r.conversation(s.Branch.Conversation)
	}
	in := s.Input
	if in == nil {
		return
	}
	if in.Snapshot != nil {
		r.snapshot(w, in.Snapshot)
		return
	}
	if in.Conversation != nil {
		r.conversation(in.Conversation)
		r.addConversation(w, in.Conversation.Messages, len(in.Conversation.Messages))
	}
	if in.Fork != nil {
		r.fork(in.Fork)
	}
	r.inputs[w] = in
	r.addInput(w, in.Input)
	if len(in.History) > 0 {
		if chat, err := json.Marshal(in.History); err == nil {
			r.write(w, "chat", &contract.Message{Role: contract.RoleUser, Text: string(chat)})
		}
	}
}

// addInput writes the input of a workflow: its text, which a later call may derive from its parameters, or else the values of the
// root run. The values of descendants are in their nodes' threads.
func (r *Reader) addInput(w *history.Workflow, text string) {
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

func (r *Reader) write(w *history.Workflow, name string, m *contract.Message) {
	if raw, err := m.Encode(); err == nil {
		r.thread(w, name).put(0, r.keep(raw), made{})
	}
}

// addConversation stores the messages with which the conversation of a workflow begins or continues.
func (r *Reader) addConversation(w *history.Workflow, messages []contract.ThreadMessage, inherited int) {
	if len(messages) == 0 {
		return
	}
	t := r.thread(w, contract.ConversationThread)
	t.inherited = inherited
	for i, m := range messages {
		t.put(i, r.keep(m.Raw), made{})
	}
}

func (r *Reader) fork(k *contract.ForkedFrom) {
	for _, m := range k.Content {
		r.keep(m)
	}
	for i := range k.Executions {
		x := &k.Executions[i]
		r.conversation(x.Conversation)
		if x.Conversation == nil {
			continue
		}
		for _, m := range x.Conversation.Messages {
			sha := contract.SHA(m.Raw)
			r.forked[sha] = append(r.forked[sha], history.Label(x.Execution))
		}
	}
}

// snapshot stores the messages of a run's snapshot, and the positions of its conversation.
func (r *Reader) snapshot(w *history.Workflow, s *contract.RunSnapshot) {
	r.keepSnapshot(s)
	if s.Conversation != nil {
		r.addConversation(w, s.Conversation.Messages, s.Conversation.Inherited)
	}
	for _, x := range s.Live {
		if s.Plan == nil {
			break
		}
		if n := s.Plan.Node(x.Node); n != nil && n.Agent != nil && n.Agent.Conversation == plan.ConversationFlow && x.Suspended != nil && x.Suspended.Agent != nil {
			r.addConversation(w, x.Suspended.Agent.Messages, r.thread(w, contract.ConversationThread).inherited)
		}
	}
}

func (r *Reader) conversation(c *contract.Conversation) {
	if c == nil {
		return
	}
	r.messages(c.Messages)
	for _, f := range c.Forks {
		r.messages(f.Messages)
	}
}

func (r *Reader) messages(list []contract.ThreadMessage) {
	for _, m := range list {
		r.keep(m.Raw)
	}
}

// addSuspended stores the messages of a suspended execution, including those of sub-agents.
func (r *Reader) addSuspended(x *contract.SuspendedExecution) {
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
		r.addSuspended(s.Execution)
		if s.Run != nil {
			r.keepSnapshot(s.Run)
		}
	}
}

func (r *Reader) keepSnapshot(s *contract.RunSnapshot) {
	for _, m := range s.Content {
		r.keep(m)
	}
	r.conversation(s.Conversation)
	for _, x := range s.Live {
		r.addSuspended(x.Suspended)
	}
}

// maxThread limits the length of a thread in a history.
const maxThread = 1_000_000

func (r *Reader) scheduled(w *history.Workflow, c *history.Call) {
	if in, ok := c.Input.(*contract.ModelInput); ok && in.Base.Len >= 0 && in.Base.Len < maxThread {
		t := r.thread(w, in.Base.Thread)
		t.inherited = in.Inherited
		r.tail(t, in.Base.Len, in.Tail, originOf(c, c.Time))
		r.calls[c] = slot{t, in.Base.Len + len(in.Tail)}
	}
	if node, _, ok := strings.Cut(c.ID, "/tool/"); ok && c.Kind == contract.ActivityCallTool {
		r.calls[c] = slot{thread: r.named[w.Place+history.Unescape(node)]}
	}
}

func (r *Reader) tail(t *thread, from int, messages []contract.TailEntry, by origin) {
	if from < 0 || from >= maxThread {
		return
	}
	for i, m := range messages {
		if len(m.Message) > 0 {
			r.keep(m.Message)
		}
		r.put(t, from+i, m.SHA, by)
	}
}

// origin is the origin of a message.
type origin struct {
	made
	place string
	// below reports that a flow below added the message and recorded it itself.
	below bool
}

func originOf(c *history.Call, at time.Time) origin {
	exec, _ := history.SplitCallID(c.ID)
	return origin{made: made{exec, at}, place: c.Place}
}

// put stores a message in a thread, and adds an entry if it is new in a flow's conversation.
func (r *Reader) put(t *thread, i int, sha string, by origin) {
	if list := r.forked[sha]; len(list) > 0 && t.isConversation {
		by.Execution, r.forked[sha] = list[0], list[1:]
	}
	if t.put(i, sha, by.made) && t.isConversation && !by.below && i >= t.inherited {
		if m := r.message(sha); m != nil {
			r.added = append(r.added, Entry{Message: m, made: by.made, Place: by.place})
		}
	}
}

func (r *Reader) completed(w *history.Workflow, at time.Time, c *history.CallCompleted) {
	slot := r.calls[c.Call]
	delete(r.calls, c.Call)
	switch out := c.Result.(type) {
	case *contract.CompileFlowResult:
		if out.Input != nil {
			r.addInput(w, *out.Input)
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
		r.put(slot.thread, slot.at, hash, originOf(c.Call, at))
		for i := range out.Fallbacks {
			out.Fallbacks[i].To = out.Fallbacks[i].Next(out.Model)
		}
		if len(out.Fallbacks) > 0 {
			r.switched[hash] = out.Fallbacks
		}
	}
}

func (r *Reader) thread(w *history.Workflow, name string) *thread {
	full := w.Place + history.Unescape(name)
	if t := r.named[full]; t != nil {
		return t
	}
	t := &thread{name: full, isConversation: name == contract.ConversationThread}
	if t.isConversation && w.Within != nil {
		t.parent = r.named[w.Within.Place+name]
	}
	if w.Place == "" && strings.Contains(name, "#") {
		t.execution = name
	}
	r.threads, r.named[full] = append(r.threads, t), t
	return t
}
