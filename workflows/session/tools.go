package session

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/argument"
	"weft/workflows/journal"
	"weft/workflows/plan"
	"weft/workflows/runtime"
	"weft/workflows/wait"
)

// The framework's bounds, in characters.
const (
	maxParams = 100_000
	maxResult = 50_000
)

// sessionArgs are the arguments of all session tools.
type sessionArgs struct {
	Params  json.RawMessage `json:"parameters"`
	Agent   *string         `json:"agent_name"`
	Session string          `json:"session_id"`
	Mode    string          `json:"mode"`
}

// jsonReply is a session tool's answer: JSON. Errors are answers, too, as the framework gives them.
func jsonReply(v any) contract.ToolReply {
	raw, err := json.Marshal(v)
	if err != nil {
		return runtime.ToolError("%v", err)
	}
	return contract.ToolReply{Text: string(textutil.Unescape(raw))}
}

func errorReply(format string, args ...any) contract.ToolReply {
	return jsonReply(map[string]string{"error": fmt.Sprintf(format, args...)})
}

// Do does one of [plan.SessionTools].
func (b *Children) Do(ctx workflow.Context, c *runtime.SessionCall) (runtime.SessionReply, error) {
	if !b.s.On() {
		return replied(errorReply("sessions cannot be started here"), nil)
	}
	var args sessionArgs
	if err := json.Unmarshal(c.Args, &args); err != nil {
		return replied(errorReply("Invalid arguments of %s: %v", c.Tool, err), nil)
	}
	args.Mode = cmp.Or(args.Mode, contract.ModeSync)
	switch c.Tool {
	case plan.SessionStart, plan.SessionResume:
		return b.placeOrder(ctx, c, &args)
	case plan.SessionAgents:
		return replied(b.agents(c.Starts), nil)
	case plan.SessionList:
		return replied(b.listed(), nil)
	case plan.SessionDestroy:
		return replied(b.destroy(ctx), nil)
	case plan.SessionStatus:
		status := "not_existent"
		if k := b.child(args.Session); k != nil {
			status = k.shown()
		}
		return replied(jsonReply(map[string]string{"session_id": args.Session, "status": status}), nil)
	}
	return replied(b.resultOf(args.Session), nil)
}

func replied(r contract.ToolReply, err error) (runtime.SessionReply, error) {
	return runtime.SessionReply{Reply: r}, err
}

// placeOrder starts or resumes a session.
func (b *Children) placeOrder(ctx workflow.Context, c *runtime.SessionCall, args *sessionArgs) (runtime.SessionReply, error) {
	if !slices.Contains(contract.Modes, args.Mode) {
		return replied(errorReply("Invalid mode: %s. Must be one of: %s", args.Mode, strings.Join(contract.Modes, ", ")), nil)
	}
	if n := utf8.RuneCount(args.Params); n > maxParams {
		return replied(errorReply("Parameters too large: %d characters (max %d)", n, maxParams), nil)
	}
	if c.Tool == plan.SessionStart {
		return b.start(ctx, c, args)
	}
	return b.resumeChild(ctx, c, args)
}

// resultOf is the result of a session's latest turn.
func (b *Children) resultOf(id string) contract.ToolReply {
	k := b.child(id)
	switch {
	case k == nil:
		return errorReply("Session '%s' not found", id)
	case k.shown() == contract.TurnFailed || k.Closed:
		return errorReply("Session %s: %s", k.Status, k.problem())
	case k.shown() != finished:
		return errorReply("Session not finished or idle")
	}
	return resultOf(k.ID, k.Last)
}

// finished is what the framework calls a session whose turn is done.
const finished = "finished"

// shown is a session's status in the framework's words.
func (c *childSession) shown() string {
	if c.Status == contract.StatusIdle {
		return finished
	}
	return c.Status
}

// problem is why the session has no result.
func (c *childSession) problem() string {
	if c.Problem == "" && c.Last != nil && c.Last.Failure != nil {
		return problemOf(c.Last.Failure)
	}
	return cmp.Or(c.Problem, "Unknown error")
}

// resultOf is a turn's result as the tools give it.
func resultOf(id string, t *contract.Turn) contract.ToolReply {
	var out struct {
		Session string          `json:"session_id"`
		Text    *string         `json:"result_text"`
		Data    json.RawMessage `json:"result_data"`
	}
	out.Session, out.Data = id, t.ResultData
	if t.ResultText != nil {
		text := cutResult(*t.ResultText)
		out.Text = &text
	}
	if out.Data == nil {
		out.Data = json.RawMessage("null")
	}
	return jsonReply(out)
}

// agents lists the agents that may be started.
func (b *Children) agents(starts []plan.Startable) contract.ToolReply {
	type row struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Type        string          `json:"type"`
		Tags        []string        `json:"tags"`
		Params      json.RawMessage `json:"parameters_schema"`
	}
	out := []row{}
	for _, start := range starts {
		f := b.run.Flow.SubFlow(start.Agent)
		if f == nil || start.Hidden {
			continue
		}
		r := row{Name: start.Agent, Description: f.Description, Type: start.Type, Tags: start.Tags, Params: json.RawMessage("null")}
		if r.Tags == nil {
			r.Tags = []string{}
		}
		if f.Inputs != nil && len(f.Inputs.Schema) > 0 {
			r.Params = f.Inputs.Schema
		}
		out = append(out, r)
	}
	return jsonReply(out)
}

// listed lists the sessions that this one has started.
func (b *Children) listed() contract.ToolReply {
	type row struct {
		Session string     `json:"session_id"`
		Status  string     `json:"status"`
		Agent   *string    `json:"agent_name"`
		Created time.Time  `json:"created_at"`
		Resumed *time.Time `json:"last_resumed_at"`
	}
	out := []row{}
	for _, k := range b.list {
		r := row{Session: k.ID, Status: k.shown(), Created: k.Created, Resumed: k.Resumed}
		if k.Agent != "" {
			r.Agent = &k.Agent
		}
		out = append(out, r)
	}
	return jsonReply(out)
}

// destroy ends and forgets all sessions that this one has started.
func (b *Children) destroy(ctx workflow.Context) contract.ToolReply {
	n := len(b.list)
	b.release(ctx)
	b.ctx, b.end = workflow.WithCancel(b.s.above)
	b.list, b.callbacks = nil, nil
	return jsonReply(map[string]int{"deleted_count": n})
}

// start starts a session of an agent.
func (b *Children) start(ctx workflow.Context, c *runtime.SessionCall, args *sessionArgs) (runtime.SessionReply, error) {
	agent := ""
	if args.Agent != nil {
		agent = *args.Agent
	}
	may := agent == "" || slices.ContainsFunc(c.Starts, func(st plan.Startable) bool { return st.Agent == agent })
	switch limit := b.run.Flow.Limits.MaxDepth; {
	case !may:
		return replied(errorReply("Agent '%s' not found", agent), nil)
	case b.run.Shared.Depth >= limit:
		return replied(errorReply("Sessions nest at most %d deep; do the work without another session", limit), nil)
	case !b.run.Budget.MayStart():
		return replied(errorReply("The run may start no more sessions: its budget of %d runs is spent", max(0, b.run.Shared.Budget.Runs)), nil)
	case b.open() >= maxSessions:
		return replied(errorReply("%d sessions are open, the most that one may have; wait for some, or delete them", maxSessions), nil)
	}
	params := args.Params
	if len(params) == 0 || string(params) == "null" {
		params = json.RawMessage("{}")
	}
	if params[0] != '{' {
		return replied(errorReply("parameters is no object"), nil)
	}
	if err := b.run.Budget.CountRun(ctx); err != nil {
		return runtime.SessionReply{}, err
	}
	k := b.add(ctx, contract.BoundID(c.Child), agent, args.Mode, params)
	o := k.Orders[0]
	return runtime.SessionReply{Order: &o}, nil
}

// resumeChild gives a session below its next prompt.
func (b *Children) resumeChild(ctx workflow.Context, c *runtime.SessionCall, args *sessionArgs) (runtime.SessionReply, error) {
	k := b.child(args.Session)
	if k == nil {
		return replied(errorReply("Session '%s' not found", args.Session), nil)
	}
	if k.Closed {
		return replied(errorReply("Session '%s' is %s: %s", k.ID, k.Status, k.problem()), nil)
	}
	if f := b.agent(k.Agent); f == nil || f.LoneAgent() == nil {
		return replied(errorReply("procedural_agent_no_resume: the agent '%s' takes no prompts", k.Agent), nil)
	}
	var in struct {
		Prompt string `json:"prompt"`
	}
	if takesParams(b.agent(k.Agent)) {
		text, refused, err := b.textOf(ctx, c, k, args.Params)
		if err != nil || refused != nil {
			return replied(*cmp.Or(refused, &contract.ToolReply{}), err)
		}
		in.Prompt = text
	} else if err := argument.Exactly(args.Params, &in); err != nil || in.Prompt == "" {
		return replied(errorReply(`parameter_validation_failed: a session is resumed with {"prompt": "…"} and nothing else`), nil)
	}
	if n := len(in.Prompt); n > runtime.MaxMessage {
		return replied(errorReply("Parameters too large: a prompt of %d bytes (max %d)", n, runtime.MaxMessage), nil)
	}
	if err := b.run.Sizes.Admit(ctx, "the prompt", in); err != nil {
		return runtime.SessionReply{}, err
	}
	if k.Closed {
		return replied(errorReply("Session '%s' has ended", k.ID), nil)
	}
	now := workflow.Now(ctx).UTC()
	o := contract.SessionOrder{Session: k.ID, ID: fmt.Sprintf("%s/%s:%d", b.run.Root, c.ID, b.s.count), Mode: args.Mode}
	o.ID = contract.BoundID(o.ID)
	k.Orders, k.Resumed, k.Status = append(k.Orders, o), &now, contract.TurnRunning
	sent := b.run.SignalChild(ctx, k.future, contract.UpdatePrompt, contract.PromptInput{ID: o.ID, Prompt: in.Prompt, By: contract.BoundID(b.run.Transcript.Workflow)})
	if err := wait.Get(ctx, sent, nil); err != nil {
		if contract.Cancelled(err) {
			return runtime.SessionReply{}, err
		}
		return replied(errorReply("Session '%s' has ended", k.ID), nil)
	}
	return runtime.SessionReply{Order: &o}, nil
}

// takesParams reports whether sessions of an agent are resumed with the parameters of a start, as the dialect's documentation has it.
func takesParams(f *plan.Flow) bool { return f.Inputs != nil && f.Inputs.Style == plan.StyleDocumented }

// textOf makes the text of a turn of the parameters that a session is resumed with, or the reply to those that do not fit.
func (b *Children) textOf(ctx workflow.Context, c *runtime.SessionCall, k *childSession, params json.RawMessage) (string, *contract.ToolReply, error) {
	if len(params) == 0 || params[0] != '{' {
		refused := errorReply("parameters is no object")
		return "", &refused, nil
	}
	f := *b.agent(k.Agent)
	f.Agents = nil
	request := contract.CompileFlowInput{Flow: contract.FlowRef{Plan: &f}, Model: b.run.Shared.Model, Params: params, Replaced: true}
	var out contract.CompileFlowResult
	err := b.run.Invoke(ctx, &runtime.Call{Activity: contract.ActivityCompileFlow, Args: []any{&request}, What: "the parameters of " + c.Tool,
		Options: runtime.CheckOptions, Local: runtime.LocalCompile, ID: c.ID, Summary: "check the parameters of a session's turn", Out: &out})
	switch {
	case err != nil && contract.FailureOf(err).Class == contract.ClassBadRequest:
		refused := errorReply("parameter_validation_failed: %s", contract.FailureOf(err).Text)
		return "", &refused, nil
	case err != nil || out.Input == nil:
		return "", nil, err
	}
	return *out.Input, nil, nil
}

// Await waits for what was asked of a session: in mode sync for the turn, else until it has
// begun, or the prompt is in line.
func (b *Children) Await(ctx workflow.Context, o contract.SessionOrder, j *journal.Journal) (contract.ToolReply, error) {
	k := b.child(o.Session)
	if k == nil {
		return errorReply("Session '%s' not found", o.Session), nil
	}
	ready := func() bool { return k.settled(o) }
	if err := wait.Until(ctx, func() bool { return ready() || b.run.Policy.ShouldYield(ctx, j.Weight()) }); err != nil {
		return contract.ToolReply{}, err
	}
	if !ready() {
		return contract.ToolReply{}, runtime.ErrYield
	}
	b.run.Policy.Moved = true
	if o.Mode != contract.ModeSync && !k.has(o.ID) && (k.Last != nil || !k.Closed) {
		return jsonReply(map[string]string{"session_id": k.ID, "status": "pending"}), nil
	}
	return b.take(k, o), nil
}

// settled reports whether a tool that has asked something of a session has its answer: the turn, that the
// prompt was refused, or, where it does not wait for the turn, that the session has the prompt.
func (c *childSession) settled(o contract.SessionOrder) bool {
	switch {
	case c.Closed || c.has(o.ID):
		return true
	case o.Mode == contract.ModeSync:
		return false
	case o.ID == "":
		return c.Last != nil
	}
	i := c.order(o.ID)
	return i < 0 || c.Orders[i].Taken
}

// take is what a tool answers that waited for a turn, or for a session that never began.
func (b *Children) take(k *childSession, o contract.SessionOrder) contract.ToolReply {
	i := k.taken(o.ID)
	k.Orders = slices.DeleteFunc(k.Orders, func(other contract.SessionOrder) bool { return other.ID == o.ID })
	if i < 0 {
		if k.Last == nil {
			// It never began; nothing is left to ask about.
			b.list = slices.DeleteFunc(b.list, func(other *childSession) bool { return other == k })
		}
		if o.Mode == contract.ModeCallback {
			// The model hears of it here and now.
			b.callbacks = slices.DeleteFunc(b.callbacks, func(t contract.ChildTurn) bool { return t.Session == k.ID })
		}
		return errorReply("%s", k.problem())
	}
	t := k.Done[i]
	k.Done = slices.Delete(k.Done, i, i+1)
	if t.Status != contract.TurnCompleted {
		return errorReply("%s", problemOf(t.Failure))
	}
	return resultOf(k.ID, &t)
}
