package rehearse

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"go.temporal.io/sdk/activity"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/agent"
)

// register registers the real activities for models, with the script, and recorded results for the rest.
func (p *player) register() {
	for name, fn := range map[string]any{
		contract.ActivityCompileFlow:           p.prepare,
		contract.ActivityCallModel:             p.model,
		contract.ActivityEvaluateCondition:     p.judge,
		contract.ActivityCondenseValue:         p.condense,
		contract.ActivitySummariseConversation: p.summarise,
		contract.ActivityCallTool:              p.tool,
		contract.ActivityListTools:             p.listTools,
		contract.ActivityValidateAnswer:        p.check,
		contract.ActivityRunProgram:            p.program,
		contract.ActivityCallWebhook:           p.real.CallWebhook,
		contract.ActivityFetchResult:           p.real.FetchResult,
	} {
		p.env.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: name})
	}
}

// called marks a call as made and returns its record, or an error if it was not recorded.
func (p *player) called(ctx context.Context, kind, asked string) (*Call, error) {
	at := p.place(ctx)
	c := p.byAt[at]
	if c == nil || c.Kind != kind {
		p.note(at, "a call that was not recorded", "no such call", strings.TrimSpace(kind+" "+asked))
		return nil, (&contract.Failure{Class: contract.ClassBadRequest, Text: "the recording has no call " + at}).ApplicationError()
	}
	p.mu.Lock()
	first := !p.made[at]
	p.made[at] = true
	p.mu.Unlock()
	if first {
		p.sendMessages(at)
	}
	switch {
	case c.Pending:
		return c, activity.ErrResultPending // until it is cancelled, or the run ends
	case c.Fail != nil:
		return c, c.Fail.ApplicationError()
	}
	return c, nil
}

// prepare compiles a flow, or returns the recorded result: the plan of a document that a model wrote, or a failure.
func (p *player) prepare(ctx context.Context, in contract.CompileFlowInput) (*contract.CompileFlowResult, error) {
	if p.byAt[p.place(ctx)] == nil && (in.Flow.Plan != nil || in.Flow.Text == "" && in.Flow.Name == "") {
		return p.real.CompileFlow(ctx, in)
	}
	out, err := repeated[contract.CompileFlowResult](ctx, p, contract.ActivityCompileFlow)
	if err != nil {
		return nil, err
	}
	out.Model, out.Publish = in.Model, nil
	return out, nil
}

func (p *player) model(ctx context.Context, in contract.ModelInput) (*contract.ModelResult, error) {
	c, sent := p.byAt[p.place(ctx)], LastInput(in.Tail, p.text)
	out, err := answer(ctx, p, contract.ActivityCallModel, deref(sent), in, func(ctx context.Context, in contract.ModelInput) (*contract.ModelResult, error) {
		if c.Sent != nil && sent != nil && *c.Sent != *sent {
			p.note(c.At, "the message to the model", *c.Sent, *sent)
		}
		for _, e := range in.Tail {
			if len(e.Message) > 0 {
				p.keep(e.Message)
			}
		}
		return p.real.CallModel(ctx, in)
	}, func(o *contract.ModelResult) []contract.Fallback { return o.Fallbacks })
	if err != nil {
		return nil, err
	}
	out.Asks = c.Asks
	p.keep(out.Message)
	return out, nil
}

func (p *player) judge(ctx context.Context, in contract.JudgeInput) (*contract.JudgeResult, error) {
	return answer(ctx, p, contract.ActivityEvaluateCondition, in.Question, in, p.real.EvaluateCondition,
		func(o *contract.JudgeResult) []contract.Fallback { return o.Fallbacks })
}

// answer runs an activity that calls a model, and notes differences from the recorded call.
func answer[In, Out any](ctx context.Context, p *player, kind, asked string, in In,
	run func(context.Context, In) (*Out, error), switched func(*Out) []contract.Fallback) (*Out, error) {
	c, err := p.called(ctx, kind, asked)
	if err != nil {
		return nil, err
	}
	if c.Question != "" && c.Question != asked {
		p.note(c.At, "the question", c.Question, asked)
	}
	out, err := run(ctx, in)
	if err != nil {
		f := contract.FailureOf(err)
		p.note(c.At, "the model did not answer", "an answer", f.Class+": "+f.Text)
		return nil, err
	}
	p.compareFallbacks(c, switched(out))
	return out, nil
}

// compareFallbacks compares the models that failed before another one answered.
func (p *player) compareFallbacks(c *Call, got []contract.Fallback) {
	text := func(list []Fallback) string {
		var out []string
		for _, s := range list {
			out = append(out, s.Model+" ("+s.Class+")")
		}
		if len(out) == 0 {
			return "none"
		}
		return strings.Join(out, ", ")
	}
	if want, is := text(c.Fallbacks), text(Fallbacks(got)); want != is {
		p.note(c.At, "the models that failed", want, is)
	}
}

func (p *player) condense(ctx context.Context, in contract.CondenseInput) (*contract.CondenseResult, error) {
	return answer(ctx, p, contract.ActivityCondenseValue, in.Key, in, p.real.CondenseValue,
		func(o *contract.CondenseResult) []contract.Fallback { return o.Fallbacks })
}

func (p *player) summarise(ctx context.Context, in contract.SummariseInput) (*contract.SummariseResult, error) {
	return answer(ctx, p, contract.ActivitySummariseConversation, in.Node, in, p.real.SummariseConversation,
		func(o *contract.SummariseResult) []contract.Fallback { return o.Fallbacks })
}

// tool returns the recorded result of a tool, and notes differences from the recorded call.
func (p *player) tool(ctx context.Context, in contract.ToolInput) (*contract.ToolResult, error) {
	args := p.arguments(&in)
	c, err := p.called(ctx, contract.ActivityCallTool, in.Name+" "+string(args))
	if err != nil {
		return nil, err
	}
	switch {
	case c.Tool != in.Name:
		p.note(c.At, "the tool", c.Tool, in.Name)
	case len(c.Arguments) > 0 && len(args) > 0 && !EqualJSON(c.Arguments, args):
		p.note(c.At, "the arguments of the tool "+in.Name, string(c.Arguments), string(args))
	}
	raw := c.Data
	if c.Result != nil {
		m := contract.Message{Role: contract.RoleTool, Text: *c.Result, CallID: in.CallID, Name: in.As, Error: c.Error}
		if raw, err = m.Encode(); err != nil {
			return nil, err
		}
	}
	p.keep(raw)
	return &contract.ToolResult{Message: raw, Error: c.Error}, nil
}

// ResultText formats the result of an external activity as the interpreter does for the model.
func ResultText(raw json.RawMessage) string { return agent.ResultText(raw) }

// arguments returns the arguments of a call, or nil if they are unknown.
func (p *player) arguments(in *contract.ToolInput) json.RawMessage {
	if len(in.Arguments) > 0 || in.Call == nil {
		return in.Arguments
	}
	return CallArguments(p.stored(in.Call.SHA), in.CallID)
}

// CallArguments finds the arguments of a call in an assistant's stored message, or nil.
func CallArguments(message json.RawMessage, callID string) json.RawMessage {
	m, err := contract.DecodeMessage(message)
	if err != nil {
		return nil
	}
	for _, c := range m.Calls {
		if c.ID == callID && json.Valid([]byte(c.Arguments)) {
			return json.RawMessage(c.Arguments)
		}
	}
	return nil
}

func (p *player) listTools(ctx context.Context, _ contract.CatalogueInput) (*contract.CatalogueResult, error) {
	out, err := repeated[contract.CatalogueResult](ctx, p, contract.ActivityListTools)
	if err == nil {
		p.keep(out.Catalogue)
		out.ExternalActivity = nil // its calls are recorded like those of other tools
	}
	return out, err
}

// check validates arguments of calls. It accepts all answers, as only accepted ones are recorded.
func (p *player) check(ctx context.Context, in contract.ValidateAnswerInput) (*contract.ValidateAnswerResult, error) {
	if len(in.Schema) > 0 {
		return p.real.ValidateAnswer(ctx, in)
	}
	return &contract.ValidateAnswerResult{}, nil
}

func (p *player) program(ctx context.Context, _ contract.ProgramInput) (*contract.ProgramResult, error) {
	return repeated[contract.ProgramResult](ctx, p, contract.ActivityRunProgram)
}

func repeated[T any](ctx context.Context, p *player, kind string) (*T, error) {
	c, err := p.called(ctx, kind, "")
	if err != nil {
		return nil, err
	}
	var out T
	if err := json.Unmarshal(c.Data, &out); err != nil {
		return nil, (&contract.Failure{Class: contract.ClassBadRequest, Text: fmt.Sprintf("%s:%d: data: %v", p.rec.Name, c.Line, err)}).ApplicationError()
	}
	return &out, nil
}

// LastInput returns the text of the last message in tail if it is from a user or the flow; nil if it is
// from a tool or a model, or if text does not find all of its parts.
func LastInput(tail []contract.TailEntry, text func(sha string) (string, bool)) *string {
	if len(tail) == 0 || len(tail[len(tail)-1].Message) == 0 {
		return nil
	}
	m, err := contract.DecodeMessage(tail[len(tail)-1].Message)
	if err != nil || m.Role != contract.RoleUser {
		return nil
	}
	out := m.Text
	for _, part := range m.Parts {
		more, ok := part.Text, true
		if part.Ref != nil {
			more, ok = text(part.Ref.SHA)
		}
		if !ok {
			return nil
		}
		out += part.Shown(more)
	}
	return &out
}

// text returns the text of a stored message; see [MessageText].
func (p *player) text(sha string) (string, bool) { return MessageText(p.stored(sha)) }

// MessageText returns the text of an encoded message; false if it has parts or cannot be decoded.
func MessageText(raw json.RawMessage) (string, bool) {
	m, err := contract.DecodeMessage(raw)
	if err != nil || len(m.Parts) > 0 {
		return "", false
	}
	return m.Text, true
}

func (c *Call) asked() string {
	return strings.TrimSpace(strings.Join([]string{c.Kind, c.Tool, string(c.Arguments), c.Question, deref(c.Sent)}, " "))
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// ParseExecution returns the node and the step in the path of a call; "" and 0 if there is none.
func ParseExecution(at string) (node string, step int) {
	parts := strings.Split(at, "/")
	for i := len(parts) - 1; i >= 0; i-- {
		id, rest, ok := strings.Cut(parts[i], "#")
		if !ok {
			continue
		}
		rest, _, _ = strings.Cut(rest, "~")
		n, err := strconv.Atoi(rest)
		if err != nil {
			continue
		}
		if plain, err := url.PathUnescape(id); err == nil {
			id = plain
		}
		return id, n
	}
	return "", 0
}

// EqualJSON reports whether two values are equal as JSON; an empty one is null. Other text is compared as it is.
func EqualJSON(a, b json.RawMessage) bool {
	x, isJSON := textutil.DecodeExact([]byte(cmp.Or(string(a), "null")))
	y, ok := textutil.DecodeExact([]byte(cmp.Or(string(b), "null")))
	if !isJSON || !ok {
		return string(a) == string(b)
	}
	return reflect.DeepEqual(x, y)
}
