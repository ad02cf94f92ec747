package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/mask"
	"weft/worker/rehearse"
)

// record prints a run that has ended as a recording: a script, and what else starter test needs
// to play it again. It reads history alone.
func (a *app) record(ctx context.Context, args []string) error {
	temporal, about, err := a.find(ctx, args[0])
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	if about.status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return a.unended(ctx, temporal.Client, args[0], about.run)
	}
	r := newRecorder(args[0], historyOf(ctx, temporal.Client))
	r.mask = a.mask
	if err := r.visit(args[0], about.run); err != nil {
		return fmt.Errorf("read the history of the run %q: %w", args[0], err)
	}
	for _, w := range r.warnings {
		a.say("warning: %s", w)
	}
	raw, err := r.done()
	if err != nil {
		return err
	}
	return a.exactly(raw)
}

// unended says why a run that has not ended is not recorded.
func (a *app) unended(ctx context.Context, c client.Client, id, run string) error {
	events := c.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	if events.HasNext() {
		if e, err := events.Next(); err == nil && takesPrompts(e.GetWorkflowExecutionStartedEventAttributes()) {
			return bad("the session %q is still open; a recording is made of a whole one: end it with starter stop %s, then record it", id, quoted(id))
		}
	}
	return bad("the run %q has not ended; a recording is made of a whole run: wait for it with starter watch %s, or end it with starter cancel %s", id, quoted(id), quoted(id))
}

// historyOf reads histories from a server.
func historyOf(ctx context.Context, c client.Client) func(id, run string) ([]*historypb.HistoryEvent, error) {
	return func(id, run string) ([]*historypb.HistoryEvent, error) {
		var all []*historypb.HistoryEvent
		events := c.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			e, err := events.Next()
			if err != nil {
				return nil, err
			}
			all = append(all, e)
		}
		return all, nil
	}
}

// recorder makes a recording of histories.
type recorder struct {
	root    string
	history func(id, run string) ([]*historypb.HistoryEvent, error)
	rec     rehearse.Recording
	// mask knows the secrets of the settings; nil: there are none.
	mask  *mask.Mask
	rules []recordedRules
	// calls are the places of rec.Calls, ruled those of rules, by the call's place.
	calls, ruled map[string]int
	// content are stored messages by hash.
	content map[string]json.RawMessage
	begun   bool
	// elsewhere are tools that are activities of other workers, by task queue and type; outside are
	// the places of their calls.
	elsewhere map[[2]string]*elsewhereTool
	outside   map[string]*elsewhereTool
	// heard are the texts that models were told by users, in the order of the calls.
	heard []toldText
	// prompted are prompts that sessions have had, by place and id.
	prompted map[[2]string]bool
	// took are the turns of the run itself of which its history tells what they gave, by number.
	took     map[int]rehearse.TurnOf
	warnings []string
}

// recordedRules are those of one call: of models that could not answer, then of the one that did.
type recordedRules struct {
	at    string
	rules []llm.Rule
}

func newRecorder(root string, history func(id, run string) ([]*historypb.HistoryEvent, error)) *recorder {
	r := &recorder{root: root, history: history, calls: map[string]int{}, ruled: map[string]int{}, content: map[string]json.RawMessage{},
		elsewhere: map[[2]string]*elsewhereTool{}, outside: map[string]*elsewhereTool{},
		prompted: map[[2]string]bool{}, took: map[int]rehearse.TurnOf{}}
	r.rec.Version, r.rec.ID = rehearse.Version, root
	return r
}

// visit reads a run's history, before it those of the runs that it continued, and where they
// start its children.
func (r *recorder) visit(id, run string) error {
	events, err := r.history(id, run)
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) && id != r.root {
		r.warnings = append(r.warnings, fmt.Sprintf("the history of %s is gone; its calls are not recorded", clean(id, 200)))
		return nil
	}
	if err != nil {
		return err
	}
	c := recordedRun{recorder: r, id: id, events: events, asked: map[int64]string{}, checks: map[int64]contract.CheckInput{}, inbox: newMailbox(r, id), resumed: map[int64]bool{}}
	for _, e := range events {
		if s := e.GetWorkflowExecutionStartedEventAttributes(); s != nil && s.GetContinuedExecutionRunId() != "" {
			if err := r.visit(id, s.GetContinuedExecutionRunId()); err != nil {
				return err
			}
		}
	}
	for i, e := range events {
		if err := c.event(i, e); err != nil {
			return err
		}
	}
	return nil
}

// toldText is a text that the model of a call was told.
type toldText struct{ at, text string }

func saidByUser(raw json.RawMessage) string {
	m, err := contract.DecodeMessage(raw)
	if err != nil || m.Role != contract.RoleUser {
		return ""
	}
	return m.Text
}

// steer finds for messages that answer no question the model call that was told them: they come
// while its node's call before that one is under way. A flow that asks people takes messages as
// answers.
func (r *recorder) steer() {
	if rehearse.Asks(r.rec.Run.Flow.Plan) {
		return
	}
	for i := range r.rec.Answers {
		a := &r.rec.Answers[i]
		var m contract.MessageAnswer
		if a.Kind != contract.RequestMessage || json.Unmarshal(a.Value, &m) != nil || m.ID != "" {
			continue
		}
		k := slices.IndexFunc(r.heard, func(h toldText) bool { return h.text == m.Text })
		if k < 0 {
			a.During = rehearse.Unread
			continue
		}
		m.Node, _ = rehearse.Execution(r.heard[k].at)
		a.During = r.before(r.heard[k].at, m.Node)
		r.heard[k].text = ""
		if raw, err := json.Marshal(m); err == nil {
			a.Value = raw
		}
	}
}

// before is the last call of a node's model before another one of it.
func (r *recorder) before(at, node string) string {
	last := rehearse.Start
	for _, c := range r.rec.Calls {
		if c.At == at {
			break
		}
		if of, _ := rehearse.Execution(c.At); c.Kind == contract.ActivityModel && of == node {
			last = c.At
		}
	}
	return last
}

// done is the recording's file.
func (r *recorder) done() ([]byte, error) {
	if r.rec.Run.Flow.Plan == nil {
		return nil, bad("the run %q cannot be recorded: its history has no plan that can be read here; its beginning may be gone, or encrypted", r.root)
	}
	r.steer()
	r.rec.Inbox = slices.DeleteFunc(r.rec.Inbox, func(d rehearse.Delivery) bool { return d.Empty() })
	// A rule of the root's would also hold for the call of the same name in a branch.
	slices.SortStableFunc(r.rules, func(x, y recordedRules) int {
		return cmp.Compare(strings.Count(y.at, "/"), strings.Count(x.at, "/"))
	})
	var all []llm.Rule
	for _, x := range r.rules {
		all = append(all, x.rules...)
	}
	if len(all) == 0 {
		text := "(no model was called)"
		all = []llm.Rule{{At: "none", Action: llm.Action{Say: &text}}}
	}
	rules, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("encode the script: %w", err)
	}
	// As JSON: in YAML the mark that hides a secret would be a list.
	rec, err := r.unveiled()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := rec.Write(&b, r.mask.JSON(rules)); err != nil {
		return nil, err
	}
	if _, err := rehearse.Read("the recording", b.Bytes()); err != nil {
		return nil, fmt.Errorf("the run %q cannot be recorded: %w", r.root, err)
	}
	return b.Bytes(), nil
}

// unveiled is the recording without the secrets of the settings.
func (r *recorder) unveiled() (*rehearse.Recording, error) {
	raw, err := json.Marshal(r.rec)
	if err != nil {
		return nil, fmt.Errorf("encode the recording: %w", err)
	}
	masked := r.mask.Answer(raw)
	if bytes.Equal(masked, raw) {
		return &r.rec, nil
	}
	var out rehearse.Recording
	if err := json.Unmarshal(masked, &out); err != nil {
		return nil, fmt.Errorf("the recording has a secret where no text may stand: %w", err)
	}
	return &out, nil
}

// put adds a call, or replaces one that was made again.
func (r *recorder) put(c rehearse.Call) {
	if i, ok := r.calls[c.At]; ok {
		r.rec.Calls[i] = c
		return
	}
	r.calls[c.At] = len(r.rec.Calls)
	r.rec.Calls = append(r.rec.Calls, c)
}

func (r *recorder) call(at string) *rehearse.Call {
	if i, ok := r.calls[at]; ok {
		return &r.rec.Calls[i]
	}
	return nil
}

// rule adds what a call's model did, or replaces it where the call was made again. switched are
// the models that could not answer before.
func (r *recorder) rule(at, kind string, switched []contract.Switch, act llm.Action) {
	x := recordedRules{at: at}
	seen := map[string]bool{}
	for _, s := range switched {
		if !seen[s.Model] {
			x.rules = append(x.rules, llm.Rule{At: at, Model: s.Model, Action: llm.Action{Fail: &llm.ScriptFail{Class: played(s.Class), Text: s.Text}}})
		}
		seen[s.Model] = true
	}
	x.rules = append(x.rules, llm.Rule{At: at, Kind: kind, Action: act})
	if c := r.call(at); c != nil {
		c.Switched = rehearse.Switches(switched)
	}
	if i, ok := r.ruled[at]; ok {
		r.rules[i] = x
		return
	}
	r.ruled[at] = len(r.rules)
	r.rules = append(r.rules, x)
}

// played is the class of a failure as a script can play it.
func played(class string) string {
	if !llm.CanFail(class) {
		return contract.ClassBadRequest
	}
	return class
}

// said makes a rule of what a model answered.
func (r *recorder) said(at string, out *contract.ModelResult) {
	m, err := contract.DecodeMessage(out.Message)
	if err != nil {
		return
	}
	r.content[contract.SHA(out.Message)] = out.Message
	x := llm.Action{Usage: spent(out.Usage)}
	if m.Text != "" || len(m.Calls) == 0 {
		x.Say = &m.Text
	}
	for _, c := range m.Calls {
		call := llm.ScriptCall{Tool: c.Name, ID: c.ID}
		if args := strings.TrimSpace(c.Arguments); strings.HasPrefix(args, "{") && json.Valid([]byte(args)) && !doubled([]byte(args)) {
			call.Arguments = json.RawMessage(args)
		} else {
			call.Raw = &c.Arguments
		}
		x.Call = append(x.Call, call)
	}
	if out.Stop == "length" || out.Stop == "content_filter" {
		x.Stop = out.Stop
	}
	if x := r.call(at); x != nil {
		x.Asks = out.Asks
	}
	r.rule(at, llm.KindAgent, out.Switched, x)
}

// doubled says whether an object has a key twice, which a script cannot say.
func doubled(raw []byte) bool {
	_, err := llm.ParseScript("", fmt.Appendf(nil, `{"default":{"call":{"tool":"t","arguments":%s}}}`, raw))
	return err != nil
}

func spent(u contract.Usage) *llm.ScriptUsage {
	out := llm.ScriptUsage{Input: u.Input, Output: u.Output, Cached: u.Cached, Written: u.CacheWrite, Reasoning: u.Reasoning}
	if out == (llm.ScriptUsage{}) {
		return nil
	}
	return &out
}
