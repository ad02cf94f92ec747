package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tmc/langchaingo/llms"
	"go.temporal.io/sdk/activity"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/llm/wire"
	"weft/workflows/plan"
)

// callModel calls a model for the next message of a thread.
//
// The input names the thread; the worker queries the run for messages that it has not cached. Heartbeats carry the text
// streamed so far. JSON output is validated here. Failures have the classes of package llm, or too_large.
func (a *Activities) callModel(ctx context.Context, in *contract.ModelInput, beats *heartbeats) (*contract.ModelResult, error) {
	profile, err := a.profile(ctx, &in.Profile)
	if err != nil {
		return nil, err
	}
	messages, err := a.transcript(ctx, in, runsOf(profile.Home, baseRun(ctx, in)))
	if err != nil {
		return nil, err
	}
	if profile.Remote != nil && !a.deps.Models.Scripted(profile.Model) {
		return a.remote(ctx, in, profile, messages, beats)
	}
	tools, err := a.toolsOf(ctx, profile)
	if err != nil {
		return nil, err
	}
	sent, messages := withoutAsides(messagesSent(messages, in.Sent)), withoutAsides(messages)
	call := newCall(ctx, llm.KindAgent, in.IdempotencyKey, profile.Node, in.Step, turnOf(messages), beats)
	if profile.CallsAsText {
		sent = callsAsText(sent, offeredTools(profile, in.NoTools))
	}
	if profile.Output != nil && profile.Output.IfLast == "" {
		call.Schema, call.JSON = profile.Output.Schema, true
	}
	call.System, call.Messages = profile.System, sent
	call.Options = llm.Options(append(options(profile.Params, profile.Finish, call, messages, in.NoTools), llms.WithTools(tools))...)
	began := time.Now()
	answer, err := a.generate(ctx, modelCall{
		model: profile.Model, script: profile.Script, call: call, conversation: in.Base.Workflow + "/" + in.Base.Thread, beats: beats,
	})
	if err != nil {
		return nil, err
	}
	out := &contract.ModelResult{
		Model: answer.Model, Stop: answer.Stop, Usage: answer.Usage,
		LatencyMS: time.Since(began).Milliseconds(), Attempt: call.Attempt, Fallbacks: answer.Fallbacks, Context: answer.Context,
	}
	if out.Checked, err = checkOutput(ctx, profile.Output, in, &answer.Message); err != nil {
		return nil, err
	}
	if err := checkEnd(ctx, profile, in, out, &answer.Message); err != nil {
		return nil, err
	}
	if profile.Signed {
		answer.Message.From = profile.Node
	}
	return a.finish(ctx, in, out, &answer.Message)
}

// baseRun returns the run of a call's thread, by default the activity's own.
func baseRun(ctx context.Context, in *contract.ModelInput) contract.Run {
	if in.Base.Run == "" {
		own := ownRun(ctx)
		in.Base.Workflow, in.Base.Run = own.Workflow, own.Run
	}
	return contract.Run{Workflow: in.Base.Workflow, Run: in.Base.Run}
}

// newCall returns a call of a model that reports its progress to the heartbeats.
func newCall(ctx context.Context, kind, key, node string, step, turn int, beats *heartbeats) *llm.Call {
	return &llm.Call{
		IdempotencyKey: key, Attempt: activity.GetInfo(ctx).Attempt, Kind: kind,
		Node: node, Step: step, Turn: turn, Partial: beats.progress, Waiting: beats.waiting, Loading: beats.waiting, Spent: beats.setInFlight, Request: wire.Request{Options: llm.Options()},
	}
}

// fitting returns a result, or a too_large failure with the usage of the call.
func fitting[T any](a *Activities, what string, out *T, u contract.Usage) (*T, error) {
	if err := a.checkSize(what, out); err != nil {
		return nil, contract.Spent(err, u)
	}
	return out, nil
}

// withoutAsides returns the messages without those that are not sent to models.
func withoutAsides(messages []contract.Message) []contract.Message {
	return slices.DeleteFunc(slices.Clone(messages), func(m contract.Message) bool { return m.Aside })
}

// turnOf counts the assistant's messages, including the next one.
func turnOf(messages []contract.Message) int {
	n := 1
	for i := range messages {
		if messages[i].Role == contract.RoleAssistant {
			n++
		}
	}
	return n
}

// finish encodes an answer and adds it to this worker's cache.
func (a *Activities) finish(ctx context.Context, in *contract.ModelInput, out *contract.ModelResult, m *contract.Message) (_ *contract.ModelResult, err error) {
	if out.Message, err = m.Encode(); err != nil {
		return nil, err
	}
	sha := contract.SHA(out.Message)
	a.cache.keep(sha, out.Message)
	a.cache.link(a.linkTail(in), sha)
	if out, err = fitting(a, "the model's answer", out, out.Usage); err != nil {
		return nil, err
	}
	return out, a.hold(ctx, in, out)
}

// hold moves an answer that exceeds its share of the history into the store or, without a store, into a run that holds it.
func (a *Activities) hold(ctx context.Context, in *contract.ModelInput, out *contract.ModelResult) error {
	if in.MaxResultBytes == 0 {
		return nil
	}
	raw, err := json.Marshal(out)
	switch {
	case err != nil || len(raw) <= in.MaxResultBytes:
		return err
	case a.deps.MaxPayload > 0:
		out.Offload()
		return nil
	}
	holder, ok := a.deps.Source.(Holder)
	if !ok {
		return nil
	}
	held, err := holder.Hold(ctx, raw)
	if err == nil {
		*out = contract.ModelResult{Model: out.Model, Usage: out.Usage, Held: held}
	}
	return err
}

type modelCall struct {
	model  string
	script *contract.ContentRef
	call   *llm.Call
	// conversation names the thread that the call continues; empty for a single question.
	conversation string
	beats        *heartbeats
}

// generate calls a model; of a list, one model after another until one answers.
func (a *Activities) generate(ctx context.Context, q modelCall) (*llm.Answer, error) {
	err := a.mayAsk(ctx, q.model)
	if err != nil {
		return nil, err
	}
	if q.script != nil && a.deps.Models.Scripted(q.model) {
		if q.call.Script, err = a.content(ctx, *q.script); err != nil {
			return nil, err
		}
	}
	q.call.At, q.call.Conversation = PlaceOf(ctx), q.conversation
	priority := activity.GetInfo(ctx).Priority
	q.call.Tenant, q.call.Weight = priority.FairnessKey, priority.FairnessWeight
	if g := granted(ctx); g != nil && g.Principal != nil && g.Principal.Tenant != "" {
		q.call.Tenant = g.Principal.Tenant
	}
	var began time.Time
	q.call.Observe = func(ctx context.Context, m llm.Request) (context.Context, func(*llm.Answer, error)) {
		began = time.Now()
		return startChat(ctx, &m, &q)
	}
	waiting := q.call.Waiting
	q.call.Waiting = func(what string) {
		began = time.Now() // waiting for a rate limit is not the model's latency
		if waiting != nil {
			waiting(what)
		}
	}
	before := q.beats.truncatedUsage()
	q.call.Cut = before.Cut
	answer, err := a.deps.Models.Generate(ctx, q.model, q.call)
	if err != nil {
		if f, ok := errors.AsType[*contract.Failure](err); ok && f.Usage != nil {
			measureUsage(ctx, llm.Refs(q.model)[0], *f.Usage)
		}
		return nil, q.beats.withTruncated(err)
	}
	a.maskAnswer(answer)
	measureAnswer(ctx, answer.Model, time.Since(began), answer.Usage)
	answer.Usage.Add(before)
	q.beats.settle(nil)
	for _, s := range answer.Fallbacks {
		activity.GetLogger(ctx).Warn("switched to another model", "model", s.Model, "class", s.Class, "text", s.Text, "to", answer.Model)
	}
	return answer, nil
}

// PlaceOf returns the flow's workflow id, a slash, and the call's id. It is the same when an operator retries the call, and
// whether the call is made by a branch or by the flow's own run.
func PlaceOf(ctx context.Context) string {
	info := activity.GetInfo(ctx)
	return contract.FlowID(info.WorkflowExecution.ID) + "/" + contract.CallID(info.ActivityID)
}

// profile returns a call profile: from the call, the cache or the run.
func (a *Activities) profile(ctx context.Context, ref *contract.ProfileRef) (*contract.Profile, error) {
	if len(ref.Body) > 0 {
		if contract.SHA(ref.Body) != ref.SHA {
			return nil, hashMismatch("the call's profile")
		}
		a.cache.keep(ref.SHA, ref.Body)
	}
	raw, err := a.content(ctx, ref.ContentRef)
	if err != nil {
		return nil, err
	}
	return decoded[contract.Profile](a.cache, ref.SHA, raw)
}

func (a *Activities) toolsOf(ctx context.Context, p *contract.Profile) ([]llms.Tool, error) {
	var out []llms.Tool
	add := func(name, description string, schema json.RawMessage) {
		out = append(out, llms.Tool{Type: "function", Function: &llms.FunctionDefinition{Name: name, Description: description, Parameters: schema}})
	}
	for _, name := range p.Builtins {
		if b, ok := builtins[name]; ok {
			add(name, b.description, json.RawMessage(b.schema))
		}
	}
	for _, t := range p.Tools {
		if t.Catalogue.SHA == "" {
			if len(t.Schema) > 0 {
				add(t.As, t.Description, t.Schema)
			} else {
				add(t.As, subAgentText+t.Description, subAgentSchema)
			}
			continue
		}
		spec, err := a.spec(ctx, t.Catalogue, t.Name)
		if err != nil {
			return nil, err
		}
		description := cmp.Or(t.Description, spec.Description)
		if !t.Alone && spec.Description != "" && spec.Description != description {
			description += "\n\n" + spec.Description
		}
		schema := spec.Schema
		if len(t.Schema) > 0 {
			schema = t.Schema
		}
		add(t.As, description, schema)
	}
	for _, k := range p.Contacts {
		add(k.Name, k.Description, k.Schema)
	}
	if p.Finish != nil {
		add(p.Finish.Name, p.Finish.Description, p.Finish.Schema)
	}
	return out, nil
}

// spec finds a tool in the catalogue that the run recorded.
func (a *Activities) spec(ctx context.Context, catalogue contract.ContentRef, name string) (*contract.ToolSpec, error) {
	raw, err := a.content(ctx, catalogue)
	if err != nil {
		return nil, err
	}
	c, err := decoded[contract.Catalogue](a.cache, catalogue.SHA, raw)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(c.Tools, func(s contract.ToolSpec) bool { return s.Name == name })
	if i < 0 {
		return nil, &contract.Failure{Class: contract.ClassConnection, Text: fmt.Sprintf("the recorded catalogue has no tool %q", name)}
	}
	return &c.Tools[i], nil
}

// options returns the call options for a node's parameters and finish tool. Unset parameters are not sent.
func options(p *plan.Params, finish *plan.Finish, call *llm.Call, messages []contract.Message, noTools bool) []llms.CallOption {
	var opts []llms.CallOption
	if noTools {
		opts = append(opts, llms.WithToolChoice(plan.ChoiceNone))
	}
	if finish != nil {
		call.Finish = finish.Name
	}
	p = cmp.Or(p, &plan.Params{})
	if c := choiceOf(p.ToolChoice, finish, messages); c != nil && !noTools {
		opts = append(opts, llms.WithToolChoice(c))
	}
	call.Parallel, call.Effort, call.Extra, call.API = p.Parallel, p.Effort, p.Extra, p.API
	if p.Temperature != nil {
		opts = append(opts, llms.WithTemperature(*p.Temperature))
	}
	if p.TopP != nil {
		opts = append(opts, llms.WithTopP(*p.TopP))
	}
	if p.Seed != nil {
		opts = append(opts, llms.WithSeed(*p.Seed))
	}
	return append(opts, llms.WithTopK(p.TopK), llms.WithMaxTokens(p.MaxTokens), llms.WithStopWords(p.Stop),
		llms.WithFrequencyPenalty(p.Frequency), llms.WithPresencePenalty(p.Presence))
}

// choiceOf returns the tool choice of one call. A forced choice applies only until a tool has returned a result; otherwise
// the model would never finish. With a finish tool some call is always required.
func choiceOf(choice string, finish *plan.Finish, messages []contract.Message) any {
	always := any(nil)
	if finish != nil && !finish.Free {
		always = plan.ChoiceRequired
	}
	switch choice {
	case "":
		return always
	case plan.ChoiceAuto, plan.ChoiceNone:
		return choice
	}
	for i := range messages {
		if messages[i].Role == contract.RoleTool {
			return always
		}
	}
	if choice == plan.ChoiceRequired {
		return choice
	}
	return llms.ToolChoice{Type: "function", Function: &llms.FunctionReference{Name: choice}}
}

// checkEnd validates the arguments of a call of the finish tool, if the profile asks for it.
func checkEnd(ctx context.Context, p *contract.Profile, in *contract.ModelInput, out *contract.ModelResult, m *contract.Message) error {
	if p.Finish == nil || !p.Finish.Checked || in.NoTools {
		return nil
	}
	for i := range m.Calls {
		if m.Calls[i].Name != p.Finish.Name {
			continue
		}
		var err error
		args := firstKey(m.Calls[i].Arguments, p.Finish.Keys)
		out.Checked, err = checkFit(ctx, &plan.Output{Schema: p.Finish.Schema, Fit: p.Finish.Fit}, json.RawMessage(args), args)
		return err
	}
	return nil
}

// firstKey renames a single argument that has one of the aliases in keys to the first key, which is the schema's.
func firstKey(args string, keys []string) string {
	var object map[string]json.RawMessage
	if len(keys) < 2 || json.Unmarshal([]byte(args), &object) != nil || len(object) != 1 {
		return args
	}
	for _, key := range keys[1:] {
		if v, ok := object[key]; ok {
			return fmt.Sprintf("{%q:%s}", keys[0], v)
		}
	}
	return args
}
