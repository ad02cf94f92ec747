package agent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/journal"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
	"weft/workflows/route"
	"weft/workflows/runtime"
	"weft/workflows/subsession"
	"weft/workflows/transcript"
	"weft/workflows/values"
)

// Kind runs nodes of kind agent. Sessions, if not nil, are those that its agents start and prompt by tools.
type Kind struct{ Sessions *subsession.Children }

// Visit runs a node of kind agent. Each model call and each tool call is one activity. Tools run in parallel; their results are
// returned to the model in the order of the calls.
func (k Kind) Visit(ctx workflow.Context, r *runtime.Run, x *runtime.Execution) (runtime.Outcome, error) {
	a := &agentRun{run: r, execution: x, sessions: k.Sessions, cfg: x.Node.Agent, state: contract.AgentState{Left: x.Node.Agent.MaxCalls}}
	if len(a.cfg.Members) > 0 {
		a.team = &team{top: a}
	}
	if err := a.begin(); err != nil {
		return runtime.Outcome{}, err
	}
	out, err := a.converse(ctx)
	if errors.Is(err, runtime.ErrYield) {
		x.State.Agent = a.snapshot()
	}
	for _, s := range a.thread.Sent {
		out.OmittedMessages = max(out.OmittedMessages, s.Skip)
	}
	return out, err
}

// converse continues the agent's thread until the agent ends or yields.
func (a *agentRun) converse(ctx workflow.Context) (out runtime.Outcome, _ error) {
	a.describe()
	for resumed := a.execution.Suspended != nil; ; resumed = false {
		if !resumed {
			a.save()
			a.execution.Journal.Boundary(a.threadBytes())
		}
		if stop, err := a.run.Policy.ShouldContinueAsNew(ctx, a.execution.Journal.Weight()); err != nil {
			return out, a.run.Failed(a.execution, err)
		} else if stop {
			return out, runtime.ErrYield
		}
		if err := a.askUser(ctx); err != nil {
			return out, err
		}
		ans, err := a.model(ctx)
		if err != nil {
			return out, err
		}
		if again, err := a.follow(ctx, ans); err != nil {
			return out, err
		} else if again {
			continue
		}
		if a.cfg.Conversation == plan.ConversationFork {
			// A later merge node may select it.
			a.run.Conversation.Fork(a.execution.Node.ID).Messages = transcript.ThreadMessages(a.thread.Entries[a.state.StartLen:])
		}
		out.Value, out.Exhausted = a.result, a.state.Exhausted
		if a.result == nil {
			out.Ref, out.Text, out.Truncated, out.Unfit = a.run.Transcript.Ref(ans.sha), ans.msg.Text, ans.res.Stop == "length", a.unfit
			out.Data = ans.checked.Data
		}
		return out, nil
	}
}

// agentRun is a running execution of an agent node.
type agentRun struct {
	run       *runtime.Run
	execution *runtime.Execution
	sessions  *subsession.Children
	cfg       *plan.Agent
	thread    *transcript.Thread
	profile   contract.ProfileRef
	// state is the agent's state as saved when it yields, without its messages and side conversations.
	state contract.AgentState
	// saved is the state at the last boundary, without its savedLen messages; savedView is the view there.
	saved     contract.AgentState
	savedView contract.View
	savedLen  int
	// result is the value with which the node ends.
	result *value.Value
	// unfit says why the answer cannot be the flow's result.
	unfit *contract.Failure
	// ports are the values of the node's named inputs.
	ports value.Value
	// team has the other agents of the node, asker is the agent that asked this one, handoffTo is the next agent of the thread.
	team  *team
	asker *agentRun
	// questionsBefore holds the number of questions in each side conversation when the agent was asked.
	questionsBefore map[string]int
	handoffTo       string
}

// begin opens the thread with the run's input and the outputs of earlier nodes, by reference.
func (a *agentRun) begin() error {
	if a.execution.Node.Ports != nil {
		in, err := values.Inputs(a.run, a.execution)
		if err != nil {
			return err
		}
		a.ports = in
		a.cfg = withValues(a.cfg, in)
	}
	a.openThread()
	if a.execution.Suspended != nil && a.execution.Suspended.Agent != nil {
		a.restore(a.execution.Suspended.Agent)
		return nil
	}
	if speaks, err := a.speaksFirst(); err != nil || !speaks {
		return err
	}
	m := &contract.Message{Role: contract.RoleUser, Parts: a.outputs("", a.run.Shared.InputPart())}
	var err error
	if a.cfg.Opening != nil && a.run.Shared.Turn < 2 {
		if m, err = a.opening(); err != nil {
			return err
		}
	}
	a.run.Transcript.Write(a.thread, m)
	if a.cfg.React != nil {
		a.state.Think = true
		a.appendUser(a.cfg.React.Prompt)
	}
	return nil
}

// outputs appends the latest outputs of earlier nodes, except that of one execution, to other parts.
func (a *agentRun) outputs(except string, leading ...contract.Part) []contract.Part {
	n := len(a.execution.View.Outputs)
	parts, refs := append(make([]contract.Part, 0, len(leading)+n), leading...), make([]contract.ContentRef, 0, n)
	outputs := make([]*contract.NodeOutput, n)
	for i := range outputs {
		outputs[i] = &a.execution.View.Outputs[i]
	}
	slices.SortStableFunc(outputs, func(p, q *contract.NodeOutput) int {
		return cmp.Or(cmp.Compare(p.By.Step, q.By.Step), cmp.Compare(p.Order, q.Order))
	})
	for _, o := range outputs {
		node := a.run.Flow.Node(o.Node)
		if o.By.Exec == except || forks(node) {
			continue
		}
		refs = append(refs, contract.ContentRef{SHA: o.SHA})
		part := contract.Part{Ref: &refs[len(refs)-1], Node: cmp.Or(o.Name, o.Node)}
		if node != nil && node.Merge != nil {
			// It is named after the node that distributed values to the nodes whose results it merges.
			distributes := func(n plan.Node) bool { return forks(&n) && n.StateKey == node.Merge.Input }
			if i := slices.IndexFunc(a.run.Flow.Nodes, distributes); i >= 0 {
				part.Node = cmp.Or(a.run.Flow.Nodes[i].Name, a.run.Flow.Nodes[i].ID)
			}
		}
		if a.run.Flow.Values != nil {
			// A short value of this run is sent inline, so that no worker has to query it.
			m, err := contract.DecodeMessage(a.run.Transcript.Content[o.SHA])
			if err == nil && len(m.Text) <= transcript.MaxInline && len(m.Parts) == 0 {
				part.Ref, part.Text = nil, m.Text
			}
		}
		parts = append(parts, part)
	}
	return parts
}

// forks reports whether a node only passes its input to parallel nodes.
func forks(n *plan.Node) bool {
	return n != nil && n.Kind == plan.KindTransform && n.Choice == plan.ChooseAll
}

// modelRef returns the first model named by the call, the agent or the run. A script replaces all models.
func modelRef(a *agentRun, preferred ...string) string {
	if contract.ScriptedAll(a.run.Shared.Model) {
		return a.run.Shared.Model
	}
	return cmp.Or(append(preferred, a.cfg.Model, a.run.Shared.Model)...)
}

// describe creates the call profile: the part that is the same in every call of this node.
func (a *agentRun) describe() {
	p := contract.Profile{
		Model: modelRef(a), Node: a.who(), System: a.cfg.System, Params: a.cfg.Params, Finish: a.cfg.Finish,
		Builtins: a.builtins(), Output: a.cfg.Output, Script: a.run.Shared.Script, Home: a.run.Home(),
		CallsAsText: a.cfg.CallsAsText, Contacts: Contacts(a.cfg), Signed: a.team != nil,
	}
	if len(a.state.Refused) > 0 {
		output := *p.Output
		output.IfLast, p.Output = "", &output
	}
	if r := a.cfg.Remote; r != nil {
		p.Remote = &contract.RemoteAgent{Connection: plan.Connection{ID: r.Connection, Kind: plan.ConnectionA2A}, PollMillis: r.PollMillis}
		if i := slices.IndexFunc(a.run.Flow.Connections, func(c plan.Connection) bool { return c.ID == r.Connection }); i >= 0 {
			p.Remote.Connection = a.run.Flow.Connections[i]
		}
	}
	for i := range a.cfg.Tools {
		t := &a.cfg.Tools[i]
		b := resolvedConnection(a.run, t)
		pt := contract.ProfileTool{Name: t.Name, As: t.As, Description: t.Description, Alone: t.Alone, Schema: t.ArgumentsSchema}
		if b.Catalogue != nil {
			pt.Catalogue = *b.Catalogue
		} else {
			pt.Description = strings.TrimSpace(b.Connection.Description + "\n" + t.Description)
		}
		p.Tools = append(p.Tools, pt)
	}
	raw, _ := contract.Encode(p) // its parts came from JSON
	a.profile = contract.ProfileRef{ContentRef: contract.ContentRef{SHA: contract.SHA(raw)}}
	if a.run.Transcript.Has(a.profile.SHA) {
		return
	}
	a.profile.Body = raw
	if len(raw) > transcript.MaxInline {
		a.run.Transcript.Keep(raw) // stored once; concurrent calls query it
	}
}

// resolvedConnection returns the connection of a tool. It exists: a run does not begin without it.
func resolvedConnection(r *runtime.Run, t *plan.Tool) *contract.ResolvedConnection {
	i := slices.IndexFunc(r.Shared.Connections, func(c contract.ResolvedConnection) bool { return c.ID == t.BoundTo() })
	return &r.Shared.Connections[i]
}

// answer is a model's message, or the message with the call of a tool node.
type answer struct {
	res *contract.ModelResult
	msg *contract.Message
	sha string
	// checked is that of the result, if any.
	checked contract.Checked
}

// model calls the model once.
func (a *agentRun) model(ctx workflow.Context) (*answer, error) {
	if limit := a.cfg.MaxTurns; limit > 0 && a.state.Turn >= limit {
		return nil, a.run.Fail(a.execution, contract.ClassTurnLimit, "raise the node's limit, or make its task easier",
			"the node reached its limit of %d model calls without finishing", limit)
	}
	a.state.Turn++
	if err := a.receiveMessages(ctx); err != nil {
		return nil, err
	}
	w := a.window()
	if _, err := w.fit(ctx, false); err != nil {
		return nil, err
	}
	res, err := a.completion(ctx, "", w.shown())
	if tooLong(err) {
		// Retry once with less.
		if fits, failed := w.fit(ctx, true); failed != nil {
			err = failed
		} else if fits {
			res, err = a.completion(ctx, "/less", w.shown())
		}
	}
	if err != nil {
		return nil, err
	}
	if a.profile.Body != nil {
		a.run.Transcript.Content[a.profile.SHA], a.profile.Body = a.profile.Body, nil
	}
	msg, err := contract.DecodeMessage(res.Message)
	if err != nil {
		return nil, err
	}
	ans := &answer{res: res, msg: msg, sha: a.run.Transcript.Record(a.thread, res.Message)}
	if res.Checked != nil {
		ans.checked = *res.Checked
	}
	a.thread.Mark()
	w.counted(res)
	return ans, nil
}

// completion makes one model call with the part of the conversation that sent describes, or all of it if sent is nil.
func (a *agentRun) completion(ctx workflow.Context, suffix string, sent *contract.Sent) (*contract.ModelResult, error) {
	in := contract.ModelInput{Profile: a.profile, NoTools: a.state.Exhausted || a.state.Think, Step: a.execution.Step, Sent: sent}
	in.Base, in.Tail = a.thread.Pending()
	if a.thread == a.run.Conversation.Thread {
		in.Inherited = a.run.Conversation.Inherited
	}
	turn := strconv.Itoa(a.state.Turn)
	var res contract.ModelResult
	err := a.run.CallStep(ctx, a.execution.Journal, contract.HashOf(a.thread.Hash, a.who(), strconv.FormatBool(in.NoTools)), &runtime.Call{
		Activity: contract.ActivityCallModel, Args: []any{&in}, What: "model call " + turn, At: a.execution,
		ID: a.execution.ID + "/model/" + turn + suffix, Summary: a.who() + " · " + modelRef(a),
		Options: runtime.Retrying(a.run.Options(a.run.Flow.Policy.ModelSeconds), a.cfg.Retry), Model: &runtime.ModelCall{Bytes: a.thread.Bytes},
		Result: runtime.ResultSize{Together: 1, Share: &in.MaxResultBytes}, Out: &res,
	})
	return &res, err
}

// receiveMessages appends the messages that users have sent to the run since the last model call.
func (a *agentRun) receiveMessages(ctx workflow.Context) error {
	if a.asker != nil {
		return nil // users talk to the node, not to its members
	}
	var messages []contract.Inbound
	err := a.run.RunStep(ctx, a.execution.Journal, a.execution.ID+"/messages/"+strconv.Itoa(a.state.Turn), "", &messages, func(*journal.Step) error {
		messages = a.run.Requests.Messages(a.execution.Node.ID)
		return nil
	})
	for _, m := range messages {
		a.appendUser(m.Text)
	}
	return err
}

// budgetExceeded is the reply to a tool call that exceeds the budget.
const budgetExceeded = "max_iterations reached"

// repair handles an answer that should be JSON. It returns an invalid one to the model with the errors,
// as often as the node allows. A node that must answer in JSON only if it is the last is asked for JSON first.
func (a *agentRun) repair(ctx workflow.Context, ans *answer) (again bool, err error) {
	msg := ans.msg
	if a.cfg.Output == nil || ans.checked.Data != nil {
		return false, nil
	}
	if prompt := a.cfg.Output.IfLast; prompt != "" && a.asker == nil && len(a.state.Refused) == 0 {
		if err = route.Leave(ctx, a.execution, &contract.ContentRef{SHA: ans.sha}, ""); err != nil || !a.execution.Exit.NoRoute {
			return false, err
		}
		a.state.Refused = a.execution.Exit.Answers
		a.describe()
		replyUnrun(a, msg, budgetExceeded)
		a.appendUser(prompt)
		return true, nil
	}
	var f *contract.Failure
	switch n := a.state.Repairs; {
	case strings.TrimSpace(msg.Text) == "":
		text := "No result received but output_schema requires structured output"
		if n > 0 {
			text = "No result received from retry attempt"
		}
		f = a.run.Fail(a.execution, contract.ClassOutputSchema, "use another model, or give it more tokens for its answer", "%s", text)
	case n == a.cfg.Output.Repairs:
		retries := "1 retry"
		if n != 1 {
			retries = fmt.Sprintf("%d retries", n)
		}
		f = a.run.Fail(a.execution, contract.ClassOutputSchema, "make the prompt or the schema easier to follow, or use a stronger model",
			"Output validation failed after %s: %s", retries, contract.ErrorList(ans.checked.Errors, "; "))
		f.Errors = ans.checked.Errors
	default:
		a.state.Repairs++
		replyUnrun(a, msg, budgetExceeded)
		a.appendUser(repairText(a.cfg.Output.Schema, ans.checked.Errors))
		return true, nil
	}
	if a.cfg.Output.IfLast == "" {
		return false, f
	}
	a.unfit = f // another node may provide the flow's result
	return false, nil
}

// replyUnrun replies to calls that are not executed: each needs a result before the conversation can continue.
func replyUnrun(a *agentRun, msg *contract.Message, text string) {
	for i := range msg.Calls {
		a.appendReply(&msg.Calls[i], contract.ToolReply{Text: text, Failed: true})
	}
}

// repairText asks for valid output, with the text of the blueprint dialect's framework.
func repairText(schema json.RawMessage, problems []contract.FieldError) string {
	var pretty bytes.Buffer
	if json.Indent(&pretty, textutil.Unescape(schema), "", "  ") != nil {
		pretty.WriteString("{}")
	}
	return "<output-validation-error>\nYour output did not match the required schema.\n\n## Validation Errors\n- " +
		contract.ErrorList(problems, "\n- ") + "\n\n## Required Schema\n```json\n" + pretty.String() +
		"\n```\n\nPlease provide output matching the schema exactly. Output ONLY valid JSON.\n</output-validation-error>"
}
