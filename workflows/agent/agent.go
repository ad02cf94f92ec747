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

// Kind runs nodes of kind agent. Its agents start and prompt Sessions by their tools, if they are not nil.
type Kind struct{ Sessions *subsession.Children }

// Visit runs a node of kind agent. Each call of the model and of a tool is one activity. Tools run in parallel; their results go
// back in the order asked.
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

// converse goes on with the agent's thread until the agent has ended, or yields.
func (a *agentRun) converse(ctx workflow.Context) (out runtime.Outcome, _ error) {
	a.describe()
	for resumed := a.execution.Suspended != nil; ; resumed = false {
		if !resumed {
			a.takeMark()
			a.execution.Journal.Boundary(a.bulk())
		}
		if stop, err := a.run.Policy.ShouldContinueAsNew(ctx, a.execution.Journal.Weight()); err != nil {
			return out, a.run.Failed(a.execution, err)
		} else if stop {
			return out, runtime.ErrYield
		}
		if err := a.askPerson(ctx); err != nil {
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
			// The merge behind the node may pick it.
			a.run.Conversation.Fork(a.execution.Node.ID).Messages = transcript.Carried(a.thread.Entries[a.state.StartLen:])
		}
		out.Value, out.Exhausted = a.result, a.state.Exhausted
		if a.result == nil {
			out.Ref, out.Text, out.Truncated, out.Unfit = a.run.Transcript.Ref(ans.sha), ans.msg.Text, ans.res.Stop == "length", a.unfit
			out.Data = ans.checked.Data
		}
		return out, nil
	}
}

// agentRun is one execution of an agent node under way.
type agentRun struct {
	run       *runtime.Run
	execution *runtime.Execution
	sessions  *subsession.Children
	cfg       *plan.Agent
	thread    *transcript.Thread
	profile   contract.ProfileRef
	// state is what the agent carries when it yields, without its messages and side conversations.
	state contract.AgentState
	// marked is the state at the last boundary, without the messages, of which there were markedLen; markedView is the view there.
	marked     contract.AgentState
	markedView contract.View
	markedLen  int
	// result is the value by which the node ends.
	result *value.Value
	// unfit is why the answer cannot be the flow's result.
	unfit *contract.Failure
	// ports are the values that the node takes by name.
	ports value.Value
	// team has the other agents of the node, above is the one that asked this one, next the one to which a message hands the thread.
	team  *team
	above *agentRun
	// before counts what was asked in each side conversation when the agent was asked.
	before map[string]int
	next   string
}

// begin opens the thread with the run's input and the outputs of earlier nodes, by reference.
func (a *agentRun) begin() error {
	if a.execution.Node.Ports != nil {
		in, err := values.Given(a.run, a.execution)
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
	if speaks, err := a.speaks(); err != nil || !speaks {
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
		a.tell(a.cfg.React.Prompt)
	}
	return nil
}

// outputs are the latest outputs of earlier nodes, but that of one execution, behind other parts.
func (a *agentRun) outputs(but string, before ...contract.Part) []contract.Part {
	n := len(a.execution.View.Outputs)
	parts, refs := append(make([]contract.Part, 0, len(before)+n), before...), make([]contract.ContentRef, 0, n)
	outputs := make([]*contract.NodeOutput, n)
	for i := range outputs {
		outputs[i] = &a.execution.View.Outputs[i]
	}
	slices.SortStableFunc(outputs, func(p, q *contract.NodeOutput) int {
		return cmp.Or(cmp.Compare(p.By.Step, q.By.Step), cmp.Compare(p.Order, q.Order))
	})
	for _, o := range outputs {
		node := a.run.Flow.Node(o.Node)
		if o.By.Exec == but || forks(node) {
			continue
		}
		refs = append(refs, contract.ContentRef{SHA: o.SHA})
		part := contract.Part{Ref: &refs[len(refs)-1], Node: cmp.Or(o.Name, o.Node)}
		if node != nil && node.Merge != nil {
			// It stands for the node that gave their values to those whose results it merges.
			gave := func(n plan.Node) bool { return forks(&n) && n.StateKey == node.Merge.Input }
			if i := slices.IndexFunc(a.run.Flow.Nodes, gave); i >= 0 {
				part.Node = cmp.Or(a.run.Flow.Nodes[i].Name, a.run.Flow.Nodes[i].ID)
			}
		}
		if a.run.Flow.Values != nil {
			// A short value of this run is sent itself, so that no worker has to query it.
			m, err := contract.DecodeMessage(a.run.Transcript.Content[o.SHA])
			if err == nil && len(m.Text) <= transcript.MaxInline && len(m.Parts) == 0 {
				part.Ref, part.Text = nil, m.Text
			}
		}
		parts = append(parts, part)
	}
	return parts
}

// forks reports whether a node only gives what it got to parallel nodes.
func forks(n *plan.Node) bool {
	return n != nil && n.Kind == plan.KindTransform && n.Choice == plan.ChooseAll
}

// modelRef is the model that a call is for, unless one of its own is named. A script answers for all.
func modelRef(a *agentRun, own ...string) string {
	if contract.ScriptedAll(a.run.Shared.Model) {
		return a.run.Shared.Model
	}
	return cmp.Or(append(own, a.cfg.Model, a.run.Shared.Model)...)
}

// describe makes the call profile: what every call of this node repeats.
func (a *agentRun) describe() {
	p := contract.Profile{
		Model: modelRef(a), Node: a.who(), System: a.cfg.System, Params: a.cfg.Params, Finish: a.cfg.Finish,
		Builtins: a.builtins(), Output: a.cfg.Output, Script: a.run.Shared.Script, Home: a.run.Home(),
		CallsAsText: a.cfg.CallsAsText, Contacts: Contacts(a.cfg), Signed: a.team != nil,
	}
	if len(a.state.Refused) > 0 {
		own := *p.Output
		own.IfLast, p.Output = "", &own
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
	raw, _ := contract.Encode(p) // the plan came as JSON
	a.profile = contract.ProfileRef{ContentRef: contract.ContentRef{SHA: contract.SHA(raw)}}
	if a.run.Transcript.Has(a.profile.SHA) {
		return
	}
	a.profile.Body = raw
	if len(raw) > transcript.MaxInline {
		a.run.Transcript.Keep(raw) // once is enough; calls beside this one ask for it
	}
}

// resolvedConnection finds the connection of a tool: a run that lacks one does not begin.
func resolvedConnection(r *runtime.Run, t *plan.Tool) *contract.ResolvedConnection {
	i := slices.IndexFunc(r.Shared.Connections, func(c contract.ResolvedConnection) bool { return c.ID == t.BoundTo() })
	return &r.Shared.Connections[i]
}

// answer is what a model said, or what a node calls.
type answer struct {
	res *contract.ModelResult
	msg *contract.Message
	sha string
	// checked is the result's, if it has one.
	checked contract.Checked
}

// model calls the model once.
func (a *agentRun) model(ctx workflow.Context) (*answer, error) {
	if most := a.cfg.MaxTurns; most > 0 && a.state.Turn >= most {
		return nil, a.run.Fail(a.execution, contract.ClassTurnLimit, "raise the node's limit, or make its task easier",
			"the node has made the %d model calls that it may make, and has not come to an end", most)
	}
	a.state.Turn++
	if err := a.steered(ctx); err != nil {
		return nil, err
	}
	w := a.window()
	if _, err := w.fit(ctx, false); err != nil {
		return nil, err
	}
	res, err := a.completion(ctx, "", w.shown())
	if tooLong(err) {
		// Once with less; then it is an error.
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

// completion makes one call of the model, which is sent of the conversation what is sent, or all of it.
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

// steered puts what people have written to the run since into the conversation.
func (a *agentRun) steered(ctx workflow.Context) error {
	if a.above != nil {
		return nil // people talk with the node, not with whom it asks
	}
	var messages []contract.Inbound
	err := a.run.RunStep(ctx, a.execution.Journal, a.execution.ID+"/messages/"+strconv.Itoa(a.state.Turn), "", &messages, func(*journal.Step) error {
		messages = a.run.Requests.Messages(a.execution.Node.ID)
		return nil
	})
	for _, m := range messages {
		a.tell(m.Text)
	}
	return err
}

// beyondBudget is the reply to a call that is beyond the budget.
const beyondBudget = "max_iterations reached"

// repair looks at an answer that should be JSON. It sends a wrong one back with its errors
// as often as the node allows. A node that is to answer in JSON only if it is the last is asked for that first.
func (a *agentRun) repair(ctx workflow.Context, ans *answer) (again bool, err error) {
	msg := ans.msg
	if a.cfg.Output == nil || ans.checked.Data != nil {
		return false, nil
	}
	if ask := a.cfg.Output.IfLast; ask != "" && a.above == nil && len(a.state.Refused) == 0 {
		if err = route.Leave(ctx, a.execution, &contract.ContentRef{SHA: ans.sha}, ""); err != nil || !a.execution.Exit.NoRoute {
			return false, err
		}
		a.state.Refused = a.execution.Exit.Answers
		a.describe()
		replyUnrun(a, msg, beyondBudget)
		a.tell(ask)
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
		replyUnrun(a, msg, beyondBudget)
		a.tell(repairText(a.cfg.Output.Schema, ans.checked.Errors))
		return true, nil
	}
	if a.cfg.Output.IfLast == "" {
		return false, f
	}
	a.unfit = f // another node may give the flow's result
	return false, nil
}

// replyUnrun answers calls that are not run: each needs its result before the conversation can go on.
func replyUnrun(a *agentRun, msg *contract.Message, text string) {
	for i := range msg.Calls {
		a.note(&msg.Calls[i], contract.ToolReply{Text: text, Failed: true})
	}
}

// repairText asks for output again, in the words of the blueprint dialect's framework.
func repairText(schema json.RawMessage, problems []contract.FieldError) string {
	var pretty bytes.Buffer
	if json.Indent(&pretty, textutil.Unescape(schema), "", "  ") != nil {
		pretty.WriteString("{}")
	}
	return "<output-validation-error>\nYour output did not match the required schema.\n\n## Validation Errors\n- " +
		contract.ErrorList(problems, "\n- ") + "\n\n## Required Schema\n```json\n" + pretty.String() +
		"\n```\n\nPlease provide output matching the schema exactly. Output ONLY valid JSON.\n</output-validation-error>"
}
