// Package recording creates recordings of runs from their histories.
package recording

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/mask"
	"weft/specadapter/source"
	"weft/starter/history"
	"weft/starter/usage"
	"weft/worker/rehearse"
)

type recorder struct {
	root string
	runs map[history.Run]*recordedRun
	rec  rehearse.Recording
	// mask masks the secrets of the settings; nil means that there are none.
	mask  *mask.Mask
	rules []recordedRules
	// calls are the indexes in rec.Calls, ruleIndex the indexes in rules, by the call's place.
	calls, ruleIndex map[string]int
	// content holds stored messages by hash.
	content map[string]json.RawMessage
	// recorded is the number of messages of the run's conversation that have been read.
	recorded int
	// started reports whether the run's start was read; unstarted is the call that failed before the flow started, if any.
	started   bool
	unstarted *rehearse.Call
	// external are the activities of other workers, by task queue and type, outside by call.
	external map[[2]string]*externalTool
	outside  map[string]*externalTool
	// userTexts are the texts of users that were sent to models, in the order of the calls.
	userTexts []userText
	// inbox are the deliveries to workflow tasks of all runs, asked the times of calls, over the end of the run.
	inbox []delivery
	asked map[string]time.Time
	over  time.Time
	// takesTurns reports whether one of the runs is a session.
	takesTurns bool
	// prompted are the prompts that sessions received, by place and id.
	prompted map[[2]string]bool
	// turnResults are the turns of the run itself whose results are in its history, by number.
	turnResults map[int]rehearse.Turn
	warnings    []string
}

type recordedRules struct {
	at    string
	rules []llm.Rule
}

func newRecorder(root string) *recorder {
	r := &recorder{root: root, runs: map[history.Run]*recordedRun{}, calls: map[string]int{}, ruleIndex: map[string]int{}, content: map[string]json.RawMessage{},
		external: map[[2]string]*externalTool{}, outside: map[string]*externalTool{},
		asked: map[string]time.Time{}, prompted: map[[2]string]bool{}, turnResults: map[int]rehearse.Turn{}}
	r.rec.Version, r.rec.ID = rehearse.Version, root
	return r
}

// Record returns a recording of a run: a script, and everything else that is needed to replay it. hide knows the
// secrets of the settings; nil: there are none. The warnings say what the recording lacks.
func Record(ctx context.Context, from history.Source, id, run string, hide *mask.Mask) (raw []byte, warnings []string, err error) {
	r := newRecorder(id)
	r.mask = hide
	for e, err := range history.Read(ctx, from, id, run) {
		if missing, ok := e.Data.(*history.Missing); ok && e.Run.Root {
			err = fmt.Errorf("read the history of the run %q: %w", id, missing.Err)
		}
		if err != nil {
			return nil, r.warnings, err
		}
		r.event(&e)
	}
	raw, err = r.done()
	return raw, r.warnings, err
}

type userText struct{ at, text string }

// placeMessages assigns messages that answer no question to the model call before the one that included them.
func (r *recorder) placeMessages() {
	if rehearse.HasMessageRequests(r.rec.Run.Flow.Plan) {
		return
	}
	for i := range r.rec.Answers {
		a := &r.rec.Answers[i]
		var m contract.MessageAnswer
		if a.Kind != contract.RequestMessage || json.Unmarshal(a.Value, &m) != nil || m.ID != "" {
			continue
		}
		k := slices.IndexFunc(r.userTexts, func(h userText) bool { return h.text == m.Text })
		if k < 0 {
			a.During = rehearse.Unread
			continue
		}
		m.Node, _ = rehearse.ParseExecution(r.userTexts[k].at)
		a.During = r.before(r.userTexts[k].at, m.Node)
		r.userTexts[k].text = ""
		if raw, err := json.Marshal(m); err == nil {
			a.Value = raw
		}
	}
}

func (r *recorder) before(at, node string) string {
	last := rehearse.Start
	for _, c := range r.rec.Calls {
		if c.At == at {
			break
		}
		if of, _ := rehearse.ParseExecution(c.At); c.Kind == contract.ActivityCallModel && of == node {
			last = c.At
		}
	}
	return last
}

func (r *recorder) done() ([]byte, error) {
	if r.rec.Run.Flow.Plan == nil {
		return nil, usage.Errorf("the run %q cannot be recorded: its history has no plan that can be read here; its beginning may no longer be retained, or may be encrypted", r.root)
	}
	if r.unstarted != nil {
		r.put(*r.unstarted)
	}
	r.placeMessages()
	r.order()
	// A rule of the root would also match a call of the same name in a branch.
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
	// Encode as JSON: in YAML the mark that replaces a secret would be a list.
	rec, err := r.masked()
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

func (r *recorder) masked() (*rehearse.Recording, error) {
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
		return nil, fmt.Errorf("the recording has a secret where no text is allowed: %w", err)
	}
	return &out, nil
}

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

// rule adds or replaces the action of a model call; switched are the models that failed before.
func (r *recorder) rule(at, kind string, switched []contract.Fallback, act llm.Action) {
	x := recordedRules{at: at}
	seen := map[string]bool{}
	for _, s := range switched {
		if !seen[s.Model] {
			x.rules = append(x.rules, llm.Rule{At: at, Model: s.Model, Action: llm.Action{Fail: &llm.ScriptFail{Class: scriptClass(s.Class), Text: s.Text}}})
		}
		seen[s.Model] = true
	}
	x.rules = append(x.rules, llm.Rule{At: at, Kind: kind, Action: act})
	if c := r.call(at); c != nil {
		c.Fallbacks = rehearse.Fallbacks(switched)
	}
	if i, ok := r.ruleIndex[at]; ok {
		r.rules[i] = x
		return
	}
	r.ruleIndex[at] = len(r.rules)
	r.rules = append(r.rules, x)
}

func scriptClass(class string) string {
	if !llm.CanFail(class) {
		return contract.ClassBadRequest
	}
	return class
}

func (r *recorder) modelAnswer(at string, out *contract.ModelResult) {
	m, err := contract.DecodeMessage(out.Message)
	if err != nil {
		return
	}
	r.content[contract.SHA(out.Message)] = out.Message
	x := llm.Action{Usage: usageOf(out.Usage)}
	if m.Text != "" || len(m.Calls) == 0 {
		x.Say = &m.Text
	}
	for _, c := range m.Calls {
		call := llm.ScriptCall{Tool: c.Name, ID: c.ID}
		if isScriptObject(c.Arguments) {
			call.Arguments = json.RawMessage(c.Arguments)
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
	r.rule(at, llm.KindAgent, out.Fallbacks, x)
}

// isScriptObject reports whether arguments are an object that a script reproduces verbatim: ids of requests and
// messages depend on it.
func isScriptObject(args string) bool {
	doc, diags := source.ParseLoose("arguments.json", []byte(args))
	return len(diags) == 0 && doc.Root.Kind == source.Object && string(doc.Root.JSON()) == args
}

func usageOf(u contract.Usage) *llm.ScriptUsage {
	out := llm.ScriptUsage{Input: u.Input, Output: u.Output, Cached: u.Cached, Written: u.CacheWrite, Reasoning: u.Reasoning}
	if out == (llm.ScriptUsage{}) {
		return nil
	}
	return &out
}
