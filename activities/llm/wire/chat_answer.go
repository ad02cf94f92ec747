package wire

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
)

// chunk is a response, or an event of a stream.
type chunk struct {
	Object  LooseText       `json:"object"`
	Model   LooseText       `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   loose[usage]    `json:"usage"`
	Error   json.RawMessage `json:"error"`
	// Message, Detail and Msg are the fields in which servers report errors.
	Message LooseText `json:"message"`
	Detail  LooseText `json:"detail"`
	Msg     LooseText `json:"msg"`
	// Groq has the usage of Groq's streams, and the error that ended one.
	Groq loose[struct {
		Usage loose[usage]    `json:"usage"`
		Error json.RawMessage `json:"error"`
	}] `json:"x_groq"`
}

type choice struct {
	Index        LooseText       `json:"index"`
	Message      *delta          `json:"message"`
	Delta        *delta          `json:"delta"`
	FinishReason LooseText       `json:"finish_reason"`
	Error        json.RawMessage `json:"error"`
	// Usage is set in Moonshot's streams.
	Usage loose[usage] `json:"usage"`
}

type delta struct {
	Content          json.RawMessage `json:"content"`
	Refusal          LooseText       `json:"refusal"`
	ReasoningContent LooseText       `json:"reasoning_content"`
	Reasoning        LooseText       `json:"reasoning"`
	ReasoningDetails json.RawMessage `json:"reasoning_details"`
	ToolCalls        json.RawMessage `json:"tool_calls"`
	// Plan is the text of Cohere's models about their calls.
	Plan LooseText `json:"tool_plan"`
	// OCI's names for reasoning, plan and calls.
	OCIReasoning LooseText       `json:"reasoningContent"`
	OCIPlan      LooseText       `json:"toolPlan"`
	OCICalls     json.RawMessage `json:"toolCalls"`
}

// deltaCall is a tool call or a piece of one. Index is its index as text, empty if the server sends none. The embedded
// fields of the function are set in OCI's GENERIC format.
type deltaCall struct {
	Index LooseText `json:"index"`
	ID    LooseText `json:"id"`
	deltaFunction
	Function deltaFunction   `json:"function"`
	Extra    json.RawMessage `json:"extra_content"`
}

type deltaFunction struct {
	Name      LooseText `json:"name"`
	Arguments LooseText `json:"arguments"`
}

type usage struct {
	Prompt     looseCount `json:"prompt_tokens"`
	Completion looseCount `json:"completion_tokens"`
	Total      looseCount `json:"total_tokens"`
	// CacheHit and Cached are DeepSeek's and Moonshot's names for cached tokens.
	CacheHit looseCount `json:"prompt_cache_hit_tokens"`
	Cached   looseCount `json:"cached_tokens"`
	In       struct {
		Cached looseCount `json:"cached_tokens"`
		// Written is OpenRouter's count of tokens written to the cache.
		Written looseCount `json:"cache_write_tokens"`
		// Created is DashScope's name for that count.
		Created looseCount `json:"cache_creation_input_tokens"`
	} `json:"prompt_tokens_details"`
	Out struct {
		Reasoning looseCount `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// count converts the usage to the contract's. Some servers do not include reasoning in the completion: the total shows
// this or, if it fits neither way, a count of reasoning that exceeds the completion.
func (u *usage) count() contract.Usage {
	output, sum := u.Completion, u.Completion+u.Out.Reasoning
	if u.Prompt+sum == u.Total || u.Out.Reasoning > u.Completion && u.Prompt+u.Completion != u.Total {
		output = sum
	}
	return contract.Usage{Input: int(u.Prompt), Output: int(output), Cached: int(max(u.In.Cached, u.CacheHit, u.Cached)),
		CacheWrite: int(max(u.In.Written, u.In.Created)), Reasoning: int(u.Out.Reasoning)}
}

// chatReader reads an answer of chat completions, whose tool calls can be split into pieces.
type chatReader struct {
	draft
	pieces []*callPieces
	// slots maps an index to its current call in pieces; servers can reuse an index.
	slots   map[string]int
	details details
	// received is set once the entire answer has been received, even without a finish reason.
	received bool
	// choice is the index of the first choice, the only one that is read.
	choice LooseText
	// offered are the tools whose calls are parsed from the text; nil disables this.
	offered []llms.Tool
}

// End is called if the server ends the stream with [DONE].
func (r *chatReader) End() { r.received = true }

type callPieces struct {
	id, name string
	args     strings.Builder
	extra    json.RawMessage
}

func (r *chatReader) Read(raw []byte, streamed bool) (bool, error) {
	var ch chunk
	if err := json.Unmarshal(raw, &ch); err != nil {
		if streamed {
			return false, Invalidf("invalid event in the stream (%v): %s", err, excerpt(raw))
		}
		return false, &Error{Reported: raw}
	}
	r.count(&ch)
	if problem := ch.reportedError(raw); isSet(problem) && stopReasons[strings.ToLower(r.finish)] != "length" {
		if !strings.Contains(strings.ToLower(string(problem)), tokenLimit) {
			return false, &Error{Reported: problem} // after the reason length, an error only repeats it
		}
		defer func() { r.finish = "length" }() // overrides the reason sent with the error
	}
	r.received = r.received || !streamed
	if !streamed && len(ch.Choices) == 0 {
		return false, Invalidf("the response has no choices: %s", excerpt(raw))
	}
	r.model = cmp.Or(string(ch.Model), r.model)
	for i := range ch.Choices {
		if err := r.addChoice(&ch.Choices[i], streamed); err != nil {
			return false, err
		}
	}
	return false, nil
}

// tokenLimit is a part of OpenRouter's error for an answer that reached its maximum length.
const tokenLimit = "token limit reached"

// count stores the usage of an event, in whichever field it is, unless all counts are 0.
func (r *chatReader) count(ch *chunk) {
	all := []*usage{ch.Usage.value}
	if ch.Groq.value != nil {
		all = append(all, ch.Groq.value.Usage.value)
	}
	for i := range ch.Choices {
		all = append(all, ch.Choices[i].Usage.value)
	}
	for _, u := range all {
		if u != nil && u.Prompt+u.Completion+u.Total > 0 {
			r.usage = u.count()
			return
		}
	}
}

// addChoice adds the first choice, or a piece of it. Some servers repeat the message so far in every event of a stream, in
// addition to the delta.
func (r *chatReader) addChoice(c *choice, streamed bool) error {
	index := cmp.Or(c.Index, "0")
	if r.choice = cmp.Or(r.choice, index); r.choice != index {
		return nil
	}
	r.finish = cmp.Or(string(c.FinishReason), r.finish)
	d := cmp.Or(c.Message, c.Delta)
	if streamed {
		d = cmp.Or(c.Delta, c.Message)
	}
	if d == nil {
		return nil
	}
	return r.addDelta(d, "", streamed)
}

// addMessage adds a message, or a piece of one, of protocols without choices. index is the index of its call.
func (r *chatReader) addMessage(raw json.RawMessage, index LooseText, streamed bool) error {
	var d delta
	if !isSet(raw) {
		return nil
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return Invalidf("invalid message in the response (%v): %s", err, excerpt(raw))
	}
	if len(d.Content) > 0 && d.Content[0] == '{' {
		d.Content = slices.Concat(json.RawMessage("["), d.Content, json.RawMessage("]")) // a piece has one part
	}
	return r.addDelta(&d, index, streamed)
}

// reportedError returns the error object in a chunk, if any. raw is the chunk's JSON.
func (ch *chunk) reportedError(raw []byte) json.RawMessage {
	if ch.Object == "error" || len(ch.Choices) == 0 && ch.Usage.value == nil && cmp.Or(ch.Message, ch.Detail, ch.Msg) != "" {
		return raw
	}
	out := ch.Error
	if !isSet(out) && ch.Groq.value != nil {
		out = ch.Groq.value.Error
	}
	for i := range ch.Choices {
		if isSet(ch.Choices[i].Error) {
			out = ch.Choices[i].Error
		}
	}
	return out
}

func (r *chatReader) addDelta(d *delta, index LooseText, streamed bool) error {
	if err := r.addContent(d.Content); err != nil {
		return err
	}
	r.refusal.WriteString(string(d.Refusal))
	// Some servers send the same reasoning under both names.
	field, thought := "reasoning_content", string(d.ReasoningContent)
	if thought == "" {
		field, thought = "reasoning", string(d.Reasoning)
	}
	if r.reasoning.WriteString(thought); thought != "" && r.m.Reasoning == SameField {
		r.state.Field = field
	}
	r.reasoning.WriteString(string(d.OCIReasoning + d.OCIPlan))
	r.state.Plan += string(d.Plan)
	r.details.add(d.ReasoningDetails, streamed)
	var calls []deltaCall
	raw := d.ToolCalls
	if len(raw) == 0 {
		raw = d.OCICalls
	}
	if err := oneOrMore(raw, &calls); err != nil {
		return Invalidf("invalid tool_calls in the response (%v): %s", err, excerpt(raw))
	}
	for i := range calls {
		c := &calls[i]
		c.Index, c.Function = cmp.Or(c.Index, index), cmp.Or(c.Function, c.deltaFunction)
		r.addPiece(c, streamed)
	}
	return nil
}

// addContent adds content, which may be a string, null or a list of parts.
func (r *chatReader) addContent(raw json.RawMessage) error {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil {
		r.text.WriteString(text)
		return nil
	}
	var parts []struct {
		Type     string          `json:"type"`
		Text     LooseText       `json:"text"`
		Refusal  LooseText       `json:"refusal"`
		Thinking json.RawMessage `json:"thinking"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return Invalidf("content is neither text nor a list of parts: %v", err)
	}
	for _, p := range parts {
		r.text.WriteString(string(p.Text))
		r.refusal.WriteString(string(p.Refusal))
		if len(p.Thinking) > 0 {
			thought := chatReader{}
			if err := thought.addContent(p.Thinking); err != nil {
				return err
			}
			r.reasoning.WriteString(thought.text.String())
		}
	}
	return nil
}

// oneOrMore decodes a list, or a single value as a list of one.
func oneOrMore[T any](raw json.RawMessage, into *[]T) error {
	if !isSet(raw) {
		return nil
	}
	if raw[0] != '[' {
		raw = slices.Concat(json.RawMessage("["), raw, json.RawMessage("]"))
	}
	return json.Unmarshal(raw, into)
}

// addPiece adds a call, or a piece to the call that it belongs to.
func (r *chatReader) addPiece(d *deltaCall, streamed bool) {
	c := r.findCall(d, streamed)
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

// findCall returns the call that a piece belongs to, or adds one. It returns nil for an empty trailing piece.
func (r *chatReader) findCall(d *deltaCall, streamed bool) *callPieces {
	if i, ok := r.slots[string(d.Index)]; ok && streamed && !startsCall(r.pieces[i], d) {
		return r.pieces[i]
	} else if !ok && streamed && d.Function.Name == "" && d.ID != "" {
		// A piece of a known call under another index.
		if i := slices.IndexFunc(r.pieces, func(c *callPieces) bool { return c.id == string(d.ID) }); i >= 0 {
			return r.pieces[i]
		}
	}
	if streamed && d.ID == "" && d.Function.Name == "" && d.Function.Arguments == "" {
		return nil
	}
	if r.slots == nil {
		r.slots = map[string]int{}
	}
	r.slots[string(d.Index)] = len(r.pieces)
	r.pieces = append(r.pieces, &callPieces{})
	return r.pieces[len(r.pieces)-1]
}

// startsCall reports whether a piece starts a call although its index is in use or missing: if it has another id, or a name
// after a complete call.
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

func (r *chatReader) Result() (*Answer, error) {
	for i, p := range r.pieces {
		if err := r.addCall(p.id, p.name, p.args.String()); err != nil {
			return nil, err
		}
		if p.extra != nil {
			r.state.Calls = append(r.state.Calls, callState{Index: i, Extra: p.extra})
		}
	}
	if r.finish == "" && r.received && r.m.OptionalFinish && (r.text.Len() > 0 || len(r.calls) > 0) {
		if r.finish = "stop"; len(r.calls) > 0 {
			r.finish = "tool_calls"
		}
	}
	if finish := stopReasons[strings.ToLower(r.finish)]; len(r.calls) == 0 && len(r.offered) > 0 && (finish == "stop" || finish == "tool_calls") {
		calls, rest := callsInText(r.text.String(), r.offered)
		r.calls = calls
		r.text.Reset()
		r.text.WriteString(rest)
	}
	if len(r.details) > 0 {
		r.state.Details, _ = json.Marshal(r.details) // what was decoded can be encoded
	}
	return r.result("finish_reason")
}
