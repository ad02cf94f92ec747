package subsession

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
	"weft/workflows/argument"
	"weft/workflows/journal"
	"weft/workflows/plan"
	"weft/workflows/replies"
	"weft/workflows/runtime"
	"weft/workflows/wait"
)

// The framework's limits, in characters.
const (
	maxParams = 100_000
	maxResult = 50_000
)

// Call is an agent's call of one of [plan.SessionTools].
type Call struct {
	Tool string
	Args json.RawMessage
	// Starts are the agents that may be started.
	Starts []plan.Startable
	// RunID is the workflow id of a session that the call starts; ID identifies the call within its run.
	RunID, ID string
}

// Reply is the outcome of a call: its reply, or its order to a session.
type Reply struct {
	Reply contract.ToolReply     `json:"reply"`
	Order *contract.SessionOrder `json:"order,omitempty"`
}

// sessionArgs are the arguments of all session tools.
type sessionArgs struct {
	Params  json.RawMessage `json:"parameters"`
	Agent   string          `json:"agent_name"`
	Session string          `json:"session_id"`
	Mode    string          `json:"mode"`
}

// refuse returns the error of a session tool's call, which the model receives as JSON, as in the framework.
func refuse(format string, args ...any) error {
	return &replies.Refused{Reply: replies.JSON(map[string]string{"error": fmt.Sprintf(format, args...)})}
}

// Do executes a call of one of [plan.SessionTools].
func (b *Children) Do(ctx workflow.Context, c *Call) (out Reply, err error) {
	var args sessionArgs
	switch invalid := json.Unmarshal(c.Args, &args); {
	case b.ctx == nil:
		err = refuse("sessions cannot be started here")
	case invalid != nil:
		err = refuse("Invalid arguments of %s: %v", c.Tool, invalid)
	case c.Tool == plan.SessionStart || c.Tool == plan.SessionResume:
		out.Order, err = b.placeOrder(ctx, c, &args)
	default:
		out.Reply, err = b.execute(ctx, c, args.Session)
	}
	out.Reply, err = replies.Result(out.Reply, err)
	return out, err
}

// execute executes a tool that does not give an order, for the session with an id or for all sessions.
func (b *Children) execute(ctx workflow.Context, c *Call, id string) (contract.ToolReply, error) {
	k := b.find(id)
	switch c.Tool {
	case plan.SessionAgents:
		return b.listAgents(c.Starts), nil
	case plan.SessionList:
		return b.listSessions(), nil
	case plan.SessionDestroy:
		n := len(b.list)
		b.Release(ctx)
		b.ctx, b.end = workflow.WithCancel(b.runCtx)
		b.list, b.Callbacks = nil, nil
		return replies.JSON(map[string]int{"deleted_count": n}), nil
	case plan.SessionStatus:
		status := "not_existent"
		if k != nil {
			status = k.frameworkStatus()
		}
		return replies.JSON(map[string]string{"session_id": id, "status": status}), nil
	}
	switch {
	case k == nil:
		return contract.ToolReply{}, refuse("Session '%s' not found", id)
	case k.frameworkStatus() == contract.TurnFailed || k.Closed:
		return contract.ToolReply{}, refuse("Session %s: %s", k.Status, k.problem())
	case k.frameworkStatus() != finished:
		return contract.ToolReply{}, refuse("Session not finished or idle")
	}
	return resultOf(k.ID, k.Last), nil
}

// placeOrder starts or resumes a session.
func (b *Children) placeOrder(ctx workflow.Context, c *Call, args *sessionArgs) (*contract.SessionOrder, error) {
	args.Mode = cmp.Or(args.Mode, contract.ModeSync)
	if !slices.Contains(contract.Modes, args.Mode) {
		return nil, refuse("Invalid mode: %s. Must be one of: %s", args.Mode, strings.Join(contract.Modes, ", "))
	}
	if n := utf8.RuneCount(args.Params); n > maxParams {
		return nil, refuse("Parameters too large: %d characters (max %d)", n, maxParams)
	}
	if c.Tool == plan.SessionStart {
		return b.start(ctx, c, args)
	}
	return b.resumeChild(ctx, c, args)
}

// finished is the framework's status of an idle session.
const finished = "finished"

// frameworkStatus returns the framework's name of the session's status.
func (c *childSession) frameworkStatus() string {
	if c.Status == contract.StatusIdle {
		return finished
	}
	return c.Status
}

// problem returns the reason why the session has no result.
func (c *childSession) problem() string {
	if c.Problem == "" && c.Last != nil && c.Last.Failure != nil {
		return problemText(c.Last.Failure)
	}
	return cmp.Or(c.Problem, "Unknown error")
}

// resultOf returns a turn's result as a tool reply.
func resultOf(id string, t *contract.Turn) contract.ToolReply {
	text := t.ResultText
	if text != nil {
		text = new(cutResult(*text))
	}
	return replies.JSON(struct {
		Session string          `json:"session_id"`
		Text    *string         `json:"result_text"`
		Data    json.RawMessage `json:"result_data"`
	}{id, text, t.ResultData})
}

// listAgents lists the agents that may be started.
func (b *Children) listAgents(starts []plan.Startable) contract.ToolReply {
	type row struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Type        string          `json:"type"`
		Tags        []string        `json:"tags"`
		Params      json.RawMessage `json:"parameters_schema"`
	}
	out := []row{}
	for _, start := range starts {
		if start.Hidden {
			continue
		}
		f := b.run.Flow.SubFlow(start.Agent)
		r := row{Name: start.Agent, Description: f.Description, Type: start.Type, Tags: append([]string{}, start.Tags...)}
		if f.Inputs != nil && len(f.Inputs.Schema) > 0 {
			r.Params = f.Inputs.Schema
		}
		out = append(out, r)
	}
	return replies.JSON(out)
}

// listSessions lists the child sessions.
func (b *Children) listSessions() contract.ToolReply {
	type row struct {
		Session string     `json:"session_id"`
		Status  string     `json:"status"`
		Agent   *string    `json:"agent_name"`
		Created time.Time  `json:"created_at"`
		Resumed *time.Time `json:"last_resumed_at"`
	}
	out := []row{}
	for _, k := range b.list {
		r := row{Session: k.ID, Status: k.frameworkStatus(), Created: k.Created, Resumed: k.Resumed}
		if k.Agent != "" {
			r.Agent = &k.Agent
		}
		out = append(out, r)
	}
	return replies.JSON(out)
}

// start starts a child session.
func (b *Children) start(ctx workflow.Context, c *Call, args *sessionArgs) (*contract.SessionOrder, error) {
	agent, open := args.Agent, 0
	for _, k := range b.list {
		if !k.Closed {
			open++
		}
	}
	switch limit := b.run.Flow.Limits.MaxDepth; {
	case agent != "" && !slices.ContainsFunc(c.Starts, func(st plan.Startable) bool { return st.Agent == agent }):
		return nil, refuse("Agent '%s' not found", agent)
	case b.run.Shared.Depth >= limit:
		return nil, refuse("Sessions can be nested at most %d levels deep; do the work without another session", limit)
	case !b.run.Budget.MayStart():
		return nil, refuse("The run's budget of %d runs is used up; do the work without another session", max(0, b.run.Shared.Budget.Runs))
	case open >= maxSessions:
		return nil, refuse("%d sessions are open, the maximum; wait for some, or delete them", maxSessions)
	}
	params := args.Params
	if len(params) == 0 || string(params) == "null" {
		params = json.RawMessage("{}")
	} else if params[0] != '{' {
		return nil, refuse("parameters must be an object")
	}
	if err := b.run.Budget.CountRun(ctx); err != nil {
		return nil, err
	}
	o := contract.SessionOrder{Session: contract.ShortenID(c.RunID), Mode: args.Mode}
	k := &childSession{ChildSession: contract.ChildSession{
		ChildStatus: contract.ChildStatus{ID: o.Session, Agent: agent, Status: "pending", Created: workflow.Now(ctx).UTC()},
		Params:      params, Orders: []contract.SessionOrder{o}}}
	b.list = append(b.list, k)
	b.launch(k)
	return &o, nil
}

// resumeChild sends a child session its next prompt.
func (b *Children) resumeChild(ctx workflow.Context, c *Call, args *sessionArgs) (*contract.SessionOrder, error) {
	k := b.find(args.Session)
	if k == nil {
		return nil, refuse("Session '%s' not found", args.Session)
	}
	if k.Closed {
		return nil, refuse("Session '%s' is %s: %s", k.ID, k.Status, k.problem())
	}
	prompt, err := b.promptFor(ctx, c, k, args.Params)
	if err != nil {
		return nil, err
	}
	if n := len(prompt); n > runtime.MaxMessage {
		return nil, refuse("Parameters too large: a prompt of %d bytes (max %d)", n, runtime.MaxMessage)
	}
	if err := b.run.Sizes.Admit(ctx, "the prompt", contract.PromptInput{Prompt: prompt}); err != nil {
		return nil, err
	}
	ended := refuse("Session '%s' has ended", k.ID)
	if k.Closed {
		return nil, ended
	}
	o := contract.SessionOrder{Session: k.ID, ID: contract.ShortenID(fmt.Sprintf("%s/%s:%d", b.run.Root, c.ID, b.run.Shared.Turn)), Mode: args.Mode}
	k.Orders, k.Resumed, k.Status = append(k.Orders, o), new(workflow.Now(ctx).UTC()), contract.TurnRunning
	in := contract.PromptInput{ID: o.ID, Prompt: prompt, By: contract.ShortenID(b.run.Transcript.Workflow)}
	err = runtime.RetryWhileIDInUse(ctx, k.ID, func() error {
		if k.Closed {
			return ended
		}
		return wait.Get(ctx, b.run.SignalChild(ctx, k.run, contract.UpdatePrompt, in), nil)
	})
	switch {
	case contract.Cancelled(err):
		return nil, err
	case err != nil:
		return nil, ended
	}
	return &o, nil
}

// promptFor returns the prompt for the parameters of a resumed session: those of a start if the flow's inputs are documented.
func (b *Children) promptFor(ctx workflow.Context, c *Call, k *childSession, params json.RawMessage) (string, error) {
	flow := b.agentFlow(k.Agent)
	switch {
	case flow.SingleAgent() == nil:
		return "", refuse("procedural_agent_no_resume: the agent '%s' accepts no prompts", k.Agent)
	case flow.Inputs == nil || flow.Inputs.Style != plan.StyleDocumented:
		var in struct {
			Prompt string `json:"prompt"`
		}
		if err := argument.DecodeStrict(params, &in); err != nil || in.Prompt == "" {
			return "", refuse(`parameter_validation_failed: a session is resumed with {"prompt": "…"} and nothing else`)
		}
		return in.Prompt, nil
	case len(params) == 0 || params[0] != '{':
		return "", refuse("parameters must be an object")
	}
	f := *flow
	f.Agents = nil
	request := contract.CompileFlowInput{Flow: contract.FlowRef{Plan: &f}, Model: b.run.Shared.Model, Params: params, Replaced: true}
	var out contract.CompileFlowResult
	err := b.run.Invoke(ctx, &runtime.Call{Activity: contract.ActivityCompileFlow, Args: []any{&request}, What: "the parameters of " + c.Tool,
		Options: runtime.CheckOptions, Local: runtime.LocalCompile, ID: c.ID, Summary: "check the parameters of a session's turn", Out: &out})
	switch {
	case err != nil && contract.FailureOf(err).Class == contract.ClassBadRequest:
		return "", refuse("parameter_validation_failed: %s", contract.FailureOf(err).Text)
	case err != nil || out.Input == nil:
		return "", err
	}
	return *out.Input, nil
}

// Await waits for the outcome of an order: in mode sync until the turn has ended, else until it has begun or the prompt is queued.
func (b *Children) Await(ctx workflow.Context, o contract.SessionOrder, j *journal.Journal) (contract.ToolReply, error) {
	k := b.find(o.Session)
	if k == nil {
		return contract.ToolReply{}, refuse("Session '%s' not found", o.Session)
	}
	if err := wait.Until(ctx, func() bool { return k.settled(o) || b.run.Policy.ShouldYield(ctx, j.Weight()) }); err != nil {
		return contract.ToolReply{}, err
	}
	if !k.settled(o) {
		return contract.ToolReply{}, runtime.ErrYield
	}
	b.run.Policy.Progressed = true
	if o.Mode != contract.ModeSync && k.doneIndex(o.ID) < 0 && (k.Last != nil || !k.Closed) {
		return replies.JSON(map[string]string{"session_id": k.ID, "status": "pending"}), nil
	}
	return b.takeResult(k, o)
}

// settled reports whether the tool that gave an order need not wait any longer: the turn has ended, the
// prompt was refused or, if the tool does not wait for the turn, the session has the prompt.
func (c *childSession) settled(o contract.SessionOrder) bool {
	switch {
	case c.Closed || c.doneIndex(o.ID) >= 0:
		return true
	case o.Mode == contract.ModeSync:
		return false
	case o.ID == "":
		return c.Last != nil
	}
	i := c.orderIndex(o.ID)
	return i < 0 || c.Orders[i].Taken
}

// takeResult removes a settled order, and returns its result as the tool's reply.
func (b *Children) takeResult(k *childSession, o contract.SessionOrder) (contract.ToolReply, error) {
	i := k.doneIndex(o.ID)
	k.Orders = slices.DeleteFunc(k.Orders, func(other contract.SessionOrder) bool { return other.ID == o.ID })
	if i < 0 {
		if k.Last == nil {
			// The session never began; it cannot be queried or resumed.
			b.list = slices.DeleteFunc(b.list, func(other *childSession) bool { return other == k })
		}
		if isCallback(o) {
			// The model learns of it by this reply.
			b.Callbacks = slices.DeleteFunc(b.Callbacks, func(t contract.ChildTurn) bool { return t.Session == k.ID })
		}
		return contract.ToolReply{}, refuse("%s", k.problem())
	}
	t := k.Done[i]
	k.Done = slices.Delete(k.Done, i, i+1)
	if t.Status != contract.TurnCompleted {
		return contract.ToolReply{}, refuse("%s", problemText(t.Failure))
	}
	return resultOf(k.ID, &t), nil
}
