package llm

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/textutil"
)

// looseText is a string that some servers write as another JSON value. null is empty;
// other values keep their JSON text: arguments of a tool call come as an object, too.
type looseText string

// UnmarshalJSON takes any JSON value.
func (t *looseText) UnmarshalJSON(b []byte) error {
	switch {
	case bytes.Equal(b, []byte("null")):
		*t = ""
	case len(b) > 0 && b[0] == '"':
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*t = looseText(s)
	default:
		*t = looseText(b)
	}
	return nil
}

// looseCount is a count of tokens; what is none counts as 0.
type looseCount int

// UnmarshalJSON takes any JSON value.
func (n *looseCount) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	if err != nil || math.IsNaN(f) || f < 0 || f > math.MaxInt32 {
		f = 0
	}
	*n = looseCount(f)
	return nil
}

// chunk is an answer, or an event of a streamed one.
type chunk struct {
	Object  looseText       `json:"object"`
	Model   looseText       `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type choice struct {
	Message      *delta          `json:"message"`
	Delta        *delta          `json:"delta"`
	FinishReason looseText       `json:"finish_reason"`
	Error        json.RawMessage `json:"error"`
}

type delta struct {
	Content          json.RawMessage `json:"content"`
	Refusal          looseText       `json:"refusal"`
	ReasoningContent looseText       `json:"reasoning_content"`
	Reasoning        looseText       `json:"reasoning"`
	ReasoningDetails json.RawMessage `json:"reasoning_details"`
	ToolCalls        []deltaCall     `json:"tool_calls"`
}

// deltaCall is a tool call or a piece of one. Index is the piece's place, as text; it is
// empty where the server sends none.
type deltaCall struct {
	Index    looseText `json:"index"`
	ID       looseText `json:"id"`
	Function struct {
		Name      looseText `json:"name"`
		Arguments looseText `json:"arguments"`
	} `json:"function"`
	Extra json.RawMessage `json:"extra_content"`
}

type usage struct {
	Prompt     looseCount `json:"prompt_tokens"`
	Completion looseCount `json:"completion_tokens"`
	Total      looseCount `json:"total_tokens"`
	// CacheHit is DeepSeek's name for cached tokens.
	CacheHit looseCount `json:"prompt_cache_hit_tokens"`
	In       struct {
		Cached looseCount `json:"cached_tokens"`
		// Written is OpenRouter's: what was put into the cache.
		Written looseCount `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	Out struct {
		Reasoning looseCount `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// written are the tokens of an answer with its thoughts. Most servers count these into the answer;
// xAI and some others count them beside it, which their total tells.
func (u *usage) written() int {
	beside := u.Completion + u.Out.Reasoning
	if u.Out.Reasoning > u.Completion || u.Total > 0 && u.Prompt+beside == u.Total {
		return int(beside)
	}
	return int(u.Completion)
}

// isSet reports whether an error field holds an error.
func isSet(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", `""`, "false", "{}", "[]":
		return false
	}
	return true
}

// assembly puts an answer together, from one piece or from many.
type assembly struct {
	text, refusal, reasoning strings.Builder
	finish, model            string
	usage                    *usage
	calls                    []*partCall
	// slots says which call an index means now.
	slots   map[string]int
	details details
}

type partCall struct {
	id, name string
	args     strings.Builder
	extra    json.RawMessage
}

// add takes a chunk's pieces and returns the text that it added.
func (a *assembly) add(c *chunk, streamed bool) (string, error) {
	if c.Usage != nil {
		a.usage = c.Usage
	}
	if c.Model != "" {
		a.model = string(c.Model)
	}
	before := a.text.Len()
	for i := range c.Choices {
		ch := &c.Choices[i]
		for _, d := range []*delta{ch.Message, ch.Delta} {
			if d == nil {
				continue
			}
			if err := a.addDelta(d, streamed); err != nil {
				return "", err
			}
		}
		if ch.FinishReason != "" {
			a.finish = string(ch.FinishReason)
		}
	}
	return a.text.String()[before:], nil
}

func (a *assembly) addDelta(d *delta, streamed bool) error {
	if err := a.addContent(d.Content); err != nil {
		return err
	}
	a.refusal.WriteString(string(d.Refusal))
	// Some servers send the same reasoning under both names.
	if d.ReasoningContent != "" {
		a.reasoning.WriteString(string(d.ReasoningContent))
	} else {
		a.reasoning.WriteString(string(d.Reasoning))
	}
	a.details.add(d.ReasoningDetails, streamed)
	for i := range d.ToolCalls {
		a.addCall(&d.ToolCalls[i], streamed)
	}
	return nil
}

// addContent takes content that is a string, null or a list of parts.
func (a *assembly) addContent(raw json.RawMessage) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if raw[0] == '"' {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return badf("content: %v", err)
		}
		a.text.WriteString(s)
		return nil
	}
	var parts []struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Refusal  string          `json:"refusal"`
		Thinking json.RawMessage `json:"thinking"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return badf("content is neither text nor a list of parts: %v", err)
	}
	for _, p := range parts {
		a.text.WriteString(p.Text)
		a.refusal.WriteString(p.Refusal)
		if len(p.Thinking) > 0 {
			thought := assembly{}
			if err := thought.addContent(p.Thinking); err != nil {
				return err
			}
			a.reasoning.WriteString(thought.text.String())
		}
	}
	return nil
}

// addCall adds a call or a piece of one to the call that it belongs to.
func (a *assembly) addCall(d *deltaCall, streamed bool) {
	c := a.callOf(d, streamed)
	if c == nil {
		return
	}
	if c.id == "" {
		c.id = string(d.ID)
	}
	// Some servers repeat the name with every piece, a few send it in pieces.
	if name := string(d.Function.Name); name != c.name {
		c.name += name
	}
	c.args.WriteString(string(d.Function.Arguments))
	if isSet(d.Extra) {
		c.extra = d.Extra
	}
}

// callOf finds the call that a piece belongs to, or begins one; nil for an empty piece
// that trails behind.
func (a *assembly) callOf(d *deltaCall, streamed bool) *partCall {
	if i, ok := a.slots[string(d.Index)]; ok && streamed && !opens(a.calls[i], d) {
		return a.calls[i]
	} else if !ok && streamed && d.Function.Name == "" && d.ID != "" {
		// A piece of a known call under another index.
		if i := slices.IndexFunc(a.calls, func(c *partCall) bool { return c.id == string(d.ID) }); i >= 0 {
			return a.calls[i]
		}
	}
	if streamed && d.ID == "" && d.Function.Name == "" && d.Function.Arguments == "" {
		return nil
	}
	if a.slots == nil {
		a.slots = map[string]int{}
	}
	a.slots[string(d.Index)] = len(a.calls)
	a.calls = append(a.calls, &partCall{})
	return a.calls[len(a.calls)-1]
}

// opens reports whether a piece begins a call although its index is taken, or missing: by
// another id; or, without ids, by a name behind a call that is complete.
func opens(c *partCall, d *deltaCall) bool {
	if d.ID != "" && c.id != "" {
		return string(d.ID) != c.id
	}
	if d.Function.Name == "" || c.name == "" || d.ID == "" && c.id != "" {
		return false
	}
	another := string(d.Function.Name) != c.name
	if !another && d.Function.Arguments == "" {
		return false // the name once more, at the end
	}
	return json.Valid([]byte(c.args.String())) || another && d.Index == ""
}

// finishReasons normalises what servers call the end of an answer. Others pass as they
// are.
var finishReasons = map[string]string{
	"stop": "stop", "end_turn": "stop", "eos": "stop", "eos_token": "stop", "stop_sequence": "stop", "complete": "stop",
	"length": "length", "max_tokens": "length", "model_length": "length",
	"tool_calls": "tool_calls", "tool_call": "tool_calls", "tool_use": "tool_calls", "function_call": "tool_calls",
	"content_filter": "content_filter", "content-filter": "content_filter", "safety": "content_filter", "recitation": "content_filter", "error_toxic": "content_filter",
	"model_context_window_exceeded": "length",
}

// brokenReasons are ends by which servers say that they broke off.
var brokenReasons = map[string]bool{"error": true, "insufficient_system_resource": true, "abort": true, "load": true}

// response checks that the answer is whole and turns it into langchaingo's.
func (a *assembly) response(c *remote) (*llms.ContentResponse, error) {
	finish := strings.ToLower(strings.TrimSpace(a.finish))
	if finish == "" {
		return nil, badf("the answer ended without a finish_reason after %d bytes of text: it was cut", a.text.Len())
	}
	if brokenReasons[finish] {
		return nil, badf("the provider broke the answer off: finish_reason %q", finish)
	}
	if known, ok := finishReasons[finish]; ok {
		finish = known
	}
	out := &llms.ContentChoice{Content: a.text.String(), StopReason: textutil.Truncate(finish, 60), ReasoningContent: a.reasoning.String()}
	keep := carried{By: c.name, Details: a.details.encode()}
	for i, call := range a.calls {
		if call.name == "" {
			return nil, badf("tool call %d of the answer has no name", i+1)
		}
		out.ToolCalls = append(out.ToolCalls, llms.ToolCall{
			ID: call.id, Type: "function", FunctionCall: &llms.FunctionCall{Name: call.name, Arguments: call.args.String()},
		})
		if call.extra != nil {
			keep.Calls = append(keep.Calls, carriedCall{Index: i, Extra: call.extra})
		}
	}
	out.GenerationInfo = a.info(c)
	return c.keep(out, &keep)
}

// modelInfo begins an answer's info: its model, as the provider names it.
func (c *remote) modelInfo(named string) map[string]any {
	model := c.model
	if named != "" && utf8.ValidString(named) {
		model = textutil.Truncate(named, 200)
	}
	return map[string]any{infoModel: c.name + "/" + model}
}

// info is what langchaingo has no fields for.
func (a *assembly) info(c *remote) map[string]any {
	g := c.modelInfo(a.model)
	if a.refusal.Len() > 0 {
		g[infoRefusal] = a.refusal.String()
	}
	if u := a.usage; u != nil {
		g["PromptTokens"], g["CompletionTokens"] = int(u.Prompt), u.written()
		g["PromptCachedTokens"], g["ReasoningTokens"] = int(max(u.In.Cached, u.CacheHit)), int(u.Out.Reasoning)
		g[infoCacheWrite] = int(u.In.Written)
	}
	return g
}
