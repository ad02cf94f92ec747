package llm

import (
	"encoding/json"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/textutil"
)

// geminiReader reads an answer of generateContent. A stream has the same objects as a whole
// answer, each with the parts that are new.
type geminiReader struct {
	x              *exchange
	blocks         []carriedBlock
	calls          []llms.ToolCall
	text, thoughts strings.Builder
	model, finish  string
	because        string
	blocked        string
	usage          *geminiUsage
}

type geminiChunk struct {
	Candidates []struct {
		Content struct {
			Parts []json.RawMessage `json:"parts"`
		} `json:"content"`
		Finish  looseText `json:"finishReason"`
		Message looseText `json:"finishMessage"`
	} `json:"candidates"`
	Feedback struct {
		Reason  looseText `json:"blockReason"`
		Message looseText `json:"blockReasonMessage"`
	} `json:"promptFeedback"`
	Usage *geminiUsage    `json:"usageMetadata"`
	Model looseText       `json:"modelVersion"`
	Error json.RawMessage `json:"error"`
}

// geminiUsage counts thoughts beside the answer.
type geminiUsage struct {
	Prompt   looseCount `json:"promptTokenCount"`
	Tools    looseCount `json:"toolUsePromptTokenCount"`
	Answer   looseCount `json:"candidatesTokenCount"`
	Thoughts looseCount `json:"thoughtsTokenCount"`
	Cached   looseCount `json:"cachedContentTokenCount"`
}

func (c gemini) reader(x *exchange) reader { return &geminiReader{x: x} }

func (r *geminiReader) whole() bool  { return r.finish != "" || r.blocked != "" }
func (r *geminiReader) said() string { return r.text.String() }

func (r *geminiReader) take(raw []byte, streamed bool) (string, bool, error) {
	var ch geminiChunk
	if err := json.Unmarshal(raw, &ch); err != nil {
		if !streamed && raw[0] == '[' {
			return "", false, r.x.problem(raw) // errors come in a list, too
		}
		return "", false, badf("the answer is not Google's (%v): %s", err, textutil.Truncate(string(raw), 100))
	}
	if isSet(ch.Error) {
		return "", false, r.x.problem(raw)
	}
	if !streamed && len(ch.Candidates) == 0 && ch.Feedback.Reason == "" {
		return "", false, badf("the answer has no candidates: %s", textutil.Truncate(string(raw), 100))
	}
	r.model, r.blocked = orElse(string(ch.Model), r.model), orElse(string(ch.Feedback.Reason), r.blocked)
	r.because = orElse(string(ch.Feedback.Message), r.because)
	if ch.Usage != nil {
		r.usage = ch.Usage
	}
	before := r.text.Len()
	if len(ch.Candidates) > 0 {
		first := &ch.Candidates[0]
		for _, part := range first.Content.Parts {
			if err := r.part(part); err != nil {
				return "", false, err
			}
		}
		r.finish = orElse(string(first.Finish), r.finish)
		r.because = orElse(string(first.Message), r.because)
	}
	return r.text.String()[before:], false, nil
}

func (r *geminiReader) part(raw json.RawMessage) error {
	var p struct {
		Text      *string `json:"text"`
		Thought   bool    `json:"thought"`
		Signature string  `json:"thoughtSignature"`
		Call      *struct {
			ID   looseText       `json:"id"`
			Name looseText       `json:"name"`
			Args json.RawMessage `json:"args"`
		} `json:"functionCall"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return badf("a part of the answer is none (%v): %s", err, textutil.Truncate(string(raw), 100))
	}
	switch {
	case p.Call != nil:
		if p.Call.Name == "" {
			return badf("tool call %d of the answer has no name", len(r.calls)+1)
		}
		args := "{}"
		if isSet(p.Call.Args) {
			args = string(p.Call.Args)
		}
		r.calls = append(r.calls, llms.ToolCall{ID: string(p.Call.ID), Type: "function", FunctionCall: &llms.FunctionCall{Name: string(p.Call.Name), Arguments: args}})
		r.blocks = append(r.blocks, carriedBlock{Call: true, Signature: p.Signature})
	case p.Text == nil:
		r.blocks = append(r.blocks, carriedBlock{Raw: raw})
	case p.Thought:
		// A summary for people: only a signature has to go back.
		r.thoughts.WriteString(*p.Text)
		if p.Signature != "" {
			r.blocks = append(r.blocks, carriedBlock{Raw: raw})
		}
	default:
		r.say(*p.Text, p.Signature)
	}
	return nil
}

// say adds text. A part with a signature stays a part of its own.
func (r *geminiReader) say(text, signature string) {
	r.text.WriteString(text)
	if n := len(r.blocks); n > 0 && signature == "" {
		if last := &r.blocks[n-1]; last.Raw == nil && !last.Call && last.Signature == "" {
			last.Text += len(text)
			return
		}
	}
	r.blocks = append(r.blocks, carriedBlock{Text: len(text), Signature: signature})
}

// geminiFiltered are ends by which the provider withholds an answer.
var geminiFiltered = map[string]bool{
	"safety": true, "recitation": true, "blocklist": true, "prohibited_content": true, "spii": true, "image_safety": true,
	"image_prohibited_content": true, "image_recitation": true, "language": true,
}

// geminiBroken are ends by which it says that the answer went wrong: another try may not.
var geminiBroken = map[string]bool{
	"malformed_function_call": true, "unexpected_tool_call": true, "other": true, "finish_reason_unspecified": true,
	"malformed_response": true, "missing_thought_signature": true, "too_many_tool_calls": true, "no_image": true, "image_other": true,
}

func (r *geminiReader) response() (*llms.ContentResponse, error) {
	info := r.x.modelInfo(r.model)
	if u := r.usage; u != nil {
		info["PromptTokens"], info["CompletionTokens"] = int(u.Prompt+u.Tools), int(u.Answer+u.Thoughts)
		info["PromptCachedTokens"], info["ReasoningTokens"] = int(u.Cached), int(u.Thoughts)
	}
	out := &llms.ContentChoice{Content: r.text.String(), ReasoningContent: r.thoughts.String(), ToolCalls: r.calls, GenerationInfo: info}
	finish := strings.ToLower(r.finish)
	switch {
	case r.blocked != "":
		out.StopReason = "content_filter"
		info[infoRefusal] = strings.TrimSpace("the prompt is blocked: " + r.blocked + " " + r.because)
		return &llms.ContentResponse{Choices: []*llms.ContentChoice{out}}, nil
	case finish == "":
		return nil, badf("the answer ended without a finishReason after %d bytes of text: it was cut", r.text.Len())
	case geminiBroken[finish]:
		return nil, badf("the provider broke the answer off: finishReason %s %s", r.finish, r.because)
	case geminiFiltered[finish]:
		finish = "content_filter"
	}
	if known, ok := finishReasons[finish]; ok {
		finish = known
	}
	out.StopReason = textutil.Truncate(finish, 60)
	return r.x.keep(out, &carried{By: r.x.name, Blocks: r.blocks})
}
