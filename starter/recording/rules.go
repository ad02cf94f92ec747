package recording

import (
	"encoding/json"
	"fmt"
	"strings"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/worker/rehearse"
)

// rule adds or replaces what a call's model did; switched are the models that failed before.
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
		c.Fallbacks = rehearse.Switches(switched)
	}
	if i, ok := r.ruleIndex[at]; ok {
		r.rules[i] = x
		return
	}
	r.ruleIndex[at] = len(r.rules)
	r.rules = append(r.rules, x)
}

// scriptClass is the class of a failure as a script can play it.
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
		if args := strings.TrimSpace(c.Arguments); strings.HasPrefix(args, "{") && json.Valid([]byte(args)) && !hasDuplicateKeys([]byte(args)) {
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
	r.rule(at, llm.KindAgent, out.Fallbacks, x)
}

// hasDuplicateKeys reports whether an object has a key twice, which a script cannot have.
func hasDuplicateKeys(raw []byte) bool {
	_, err := llm.ParseScript("", fmt.Appendf(nil, `{"default":{"call":{"tool":"t","arguments":%s}}}`, raw))
	return err != nil
}

func usageOf(u contract.Usage) *llm.ScriptUsage {
	out := llm.ScriptUsage{Input: u.Input, Output: u.Output, Cached: u.Cached, Written: u.CacheWrite, Reasoning: u.Reasoning}
	if out == (llm.ScriptUsage{}) {
		return nil
	}
	return &out
}
