package llm

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
)

// looseText is a string that some servers send as another JSON value, whose JSON text it keeps; null is empty.
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

// looseCount is a token count; an invalid one is 0.
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

// deltaCall is a tool call or a piece of one. Index is its index as text, empty if the server sends none.
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

// count converts to the contract's counts. Some servers count reasoning beside the completion, as their total
// shows.
func (u *usage) count() *contract.Usage {
	output, sum := u.Completion, u.Completion+u.Out.Reasoning
	if u.Out.Reasoning > u.Completion || u.Total > 0 && u.Prompt+sum == u.Total {
		output = sum
	}
	return &contract.Usage{Input: int(u.Prompt), Output: int(output), Cached: int(max(u.In.Cached, u.CacheHit)),
		CacheWrite: int(u.In.Written), Reasoning: int(u.Out.Reasoning)}
}

// isSet reports whether an error field holds an error.
func isSet(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", `""`, "false", "{}", "[]":
		return false
	}
	return true
}

// chatDraft is a [draft] of chat completions, whose tool calls can come in pieces.
type chatDraft struct {
	draft
	pieces []*callPieces
	// slots maps an index to the call that it means now.
	slots   map[string]int
	details details
}

type callPieces struct {
	id, name string
	args     strings.Builder
	extra    json.RawMessage
}

// add takes a chunk's pieces and returns the text that it added.
func (a *chatDraft) add(c *chunk, streamed bool) (string, error) {
	if c.Usage != nil {
		a.usage = c.Usage.count()
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

func (a *chatDraft) addDelta(d *delta, streamed bool) error {
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
		a.addPiece(&d.ToolCalls[i], streamed)
	}
	return nil
}

// addContent takes content that is a string, null or a list of parts.
func (a *chatDraft) addContent(raw json.RawMessage) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if raw[0] == '"' {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return invalidf("content: %v", err)
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
		return invalidf("content is neither text nor a list of parts: %v", err)
	}
	for _, p := range parts {
		a.text.WriteString(p.Text)
		a.refusal.WriteString(p.Refusal)
		if len(p.Thinking) > 0 {
			thought := chatDraft{}
			if err := thought.addContent(p.Thinking); err != nil {
				return err
			}
			a.reasoning.WriteString(thought.text.String())
		}
	}
	return nil
}

// addPiece adds a call or a piece of one to the call that it belongs to.
func (a *chatDraft) addPiece(d *deltaCall, streamed bool) {
	c := a.findCall(d, streamed)
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

// findCall finds the call that a piece belongs to, or adds one; nil for an empty trailing piece.
func (a *chatDraft) findCall(d *deltaCall, streamed bool) *callPieces {
	if i, ok := a.slots[string(d.Index)]; ok && streamed && !startsCall(a.pieces[i], d) {
		return a.pieces[i]
	} else if !ok && streamed && d.Function.Name == "" && d.ID != "" {
		// A piece of a known call under another index.
		if i := slices.IndexFunc(a.pieces, func(c *callPieces) bool { return c.id == string(d.ID) }); i >= 0 {
			return a.pieces[i]
		}
	}
	if streamed && d.ID == "" && d.Function.Name == "" && d.Function.Arguments == "" {
		return nil
	}
	if a.slots == nil {
		a.slots = map[string]int{}
	}
	a.slots[string(d.Index)] = len(a.pieces)
	a.pieces = append(a.pieces, &callPieces{})
	return a.pieces[len(a.pieces)-1]
}

// startsCall reports whether a piece starts a call though its index is taken or missing: by another id, or by
// a name after a complete call.
func startsCall(c *callPieces, d *deltaCall) bool {
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

// brokenReasons are stop reasons by which servers say that they aborted the answer.
var brokenReasons = map[string]bool{"error": true, "insufficient_system_resource": true, "abort": true, "load": true}

func (a *chatDraft) response() (*llms.ContentResponse, error) {
	if finish := strings.ToLower(strings.TrimSpace(a.finish)); brokenReasons[finish] {
		return nil, invalidf("the provider aborted the answer: finish_reason %q", finish)
	}
	for i, p := range a.pieces {
		if err := a.draft.addCall(p.id, p.name, p.args.String()); err != nil {
			return nil, err
		}
		if p.extra != nil {
			a.state.Calls = append(a.state.Calls, callState{Index: i, Extra: p.extra})
		}
	}
	a.state.Details = a.details.encode()
	return a.result("finish_reason")
}

func (c compatible) reader(x *exchange) reader {
	return &chatReader{chatDraft{draft: draft{x: x}}}
}

// chatReader reads an answer of chat completions.
type chatReader struct{ chatDraft }

func (r *chatReader) read(raw []byte, streamed bool) (string, bool, error) {
	var ch chunk
	if err := json.Unmarshal(raw, &ch); err != nil {
		if streamed {
			return "", false, invalidf("an event of the stream is not JSON (%v): %s", err, excerpt(raw))
		}
		return "", false, r.x.providerError(raw)
	}
	if found := problemIn(&ch, raw); found != nil {
		return "", false, r.x.providerError(found)
	}
	if !streamed && len(ch.Choices) == 0 {
		return "", false, invalidf("the answer has no choices: %s", excerpt(raw))
	}
	text, err := r.add(&ch, streamed)
	return text, false, err
}

// problemIn finds an error object in an answer that has status 200, or in an event of it.
func problemIn(ch *chunk, raw []byte) json.RawMessage {
	if isSet(ch.Error) {
		return ch.Error
	}
	if ch.Object == "error" {
		return raw
	}
	var found json.RawMessage
	for i := range ch.Choices {
		if isSet(ch.Choices[i].Error) {
			found = ch.Choices[i].Error
		}
	}
	return found
}
