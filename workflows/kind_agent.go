package workflows

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// agent runs a node of kind agent: the model is called until it answers without calling a
// tool. Each model call and each tool call is one activity. Tools run in parallel; their
// results go back in the order asked.
func (r *run) agent(ctx workflow.Context, x *execution) (outcome, error) {
	a := agentRun{run: r, execution: x, cfg: x.node.Agent, left: x.node.Agent.MaxCalls}
	if len(a.cfg.Members) > 0 {
		a.team = &team{of: a.cfg, node: a.node.ID, id: a.id}
	}
	if err := a.begin(); err != nil {
		return outcome{}, err
	}
	out, err := a.converse(ctx)
	if errors.Is(err, errYield) {
		x.state.Agent = a.snapshot()
	}
	out.leftOut = a.leftOut()
	return out, err
}

// converse goes on with the agent's thread until the agent has ended, or yields.
func (a *agentRun) converse(ctx workflow.Context) (outcome, error) {
	for resumed := a.suspended != nil; ; resumed = false {
		if !resumed {
			a.mark()
		}
		if stop, err := a.due(ctx, a.journal.weight()); err != nil {
			return outcome{}, a.failed(a.execution, err)
		} else if stop {
			return outcome{}, errYield
		}
		if err := a.hear(ctx); err != nil {
			return outcome{}, err
		}
		res, msg, sha, err := a.model(ctx)
		if err != nil {
			return outcome{}, err
		}
		again, err := a.follow(ctx, res, msg, sha)
		switch {
		case err != nil:
			return outcome{}, err
		case a.result != nil:
			return a.ended(), nil
		case again:
			continue
		}
		a.leaveFork()
		out := outcome{ref: a.ref(sha), text: msg.Text, exhausted: a.exhausted, truncated: res.Stop == "length"}
		if res.Checked != nil {
			out.data = res.Checked.Data
		}
		return out, nil
	}
}

// agentRun is one execution of an agent node under way.
type agentRun struct {
	*run
	*execution
	cfg     *plan.Agent
	thread  *thread
	profile contract.ProfileRef
	turn    int
	// left is the budget of tool calls; exhausted is set when it is spent.
	left      int
	exhausted bool
	errors    int
	repairs   int
	summaries int
	// starts counts the runs that its calls started, by call id.
	starts []contract.StartCount
	// under are the calls under way.
	under []*toolCall
	// marked is the agent at its last boundary.
	marked agentMark
	// result is the value by which the node ends; problems are those of the arguments that
	// should give it.
	result   *value.Value
	problems []contract.FieldError
	// startLen is how long the conversation was when the agent began. think is set where the next
	// call is for a thought; results counts tool results.
	startLen, results int
	think             bool
	// ports are the values that the node takes by name.
	ports value.Value
	// team are the other agents of the node, above the one that asked this one. speaker is the
	// member that goes on with the thread, if one does; next, whom a message hands it to.
	team  *team
	above *agentRun
	// before counts what was asked in each side conversation when the agent was asked.
	before      map[string]int
	activeAgent string
	next        string
}

// begin opens the execution's thread with the run's input and what earlier nodes said, by
// reference, and settles the call profile.
func (a *agentRun) begin() error {
	if err := a.fill(); err != nil {
		return err
	}
	a.openThread()
	if a.team != nil {
		a.team.main = a.thread
	}
	if a.suspended != nil && a.suspended.Agent != nil {
		a.restore(a.suspended.Agent)
		return a.describe()
	}
	if speaks, err := a.speaks(); err != nil {
		return err
	} else if !speaks {
		return a.describe()
	}
	m := &contract.Message{Role: contract.RoleUser, Parts: append([]contract.Part{inputPart(&a.shared)}, a.outputs("")...)}
	if a.cfg.Opening != nil && a.shared.Turn < 2 {
		var err error
		if m, err = a.opening(); err != nil {
			return err
		}
	}
	if _, err := a.store.write(a.thread, m); err != nil {
		return err
	}
	if a.cfg.React != nil {
		a.think = true
		if err := a.tell(a.cfg.React.Prompt); err != nil {
			return err
		}
	}
	return a.describe()
}

// outputs are the latest outputs of earlier nodes, but that of one execution.
func (a *agentRun) outputs(but string) []contract.Part {
	parts := make([]contract.Part, 0, 3*len(a.view.Outputs))
	outputs := slices.Clone(a.view.Outputs)
	slices.SortStableFunc(outputs, func(p, q contract.NodeOutput) int {
		return cmp.Or(cmp.Compare(p.By.Step, q.By.Step), cmp.Compare(p.Order, q.Order))
	})
	for _, o := range outputs {
		if o.By.Exec == but {
			continue
		}
		parts = append(parts,
			contract.Part{Text: "\n\n<output node=" + strconv.Quote(cmp.Or(o.Name, o.Node)) + ">\n"},
			a.outputPart(o.SHA),
			contract.Part{Text: "\n</output>"})
	}
	return parts
}

// said is an output as part of a message. A value that this run wrote itself is sent where it is
// short, so that no worker has to ask for it.
func (a *agentRun) outputPart(sha string) contract.Part {
	if a.flow.Values != nil && a.store.has(sha) {
		if m, err := contract.DecodeMessage(a.store.content[sha]); err == nil && len(m.Text) <= maxInline && len(m.Parts) == 0 {
			return contract.Part{Text: m.Text}
		}
	}
	return contract.Part{Ref: &contract.ContentRef{SHA: sha}}
}

// modelRef is the model that the node is for. A script answers for all.
func (a *agentRun) modelRef() string {
	if contract.ScriptedAll(a.shared.Model) {
		return a.shared.Model
	}
	return cmp.Or(a.cfg.Model, a.shared.Model)
}

// inputPart is the run's input as part of a message: itself where it is short, so that no
// worker has to ask for it.
func inputPart(s *contract.Shared) contract.Part {
	if s.Text != "" {
		return contract.Part{Text: s.Text}
	}
	return contract.Part{Ref: &contract.ContentRef{SHA: s.Input.SHA}}
}

// home is the flow's run, which holds what messages refer to.
func (r *run) home() contract.Run {
	return contract.Run{Workflow: r.shared.Input.Workflow, Run: r.shared.Input.Run}
}

// describe makes the call profile: what every call of this node repeats.
func (a *agentRun) describe() error {
	p := contract.Profile{
		Model: a.modelRef(), Node: a.who(), System: a.cfg.System, Params: a.cfg.Params, Finish: a.cfg.Finish,
		Builtins: a.cfg.Builtins, Output: a.cfg.Output, Script: a.shared.Script, Home: a.home(),
		RetellCalls: a.cfg.RetellCalls, Contacts: contacts(a.cfg), Signed: a.team != nil,
	}
	if r := a.cfg.Remote; r != nil {
		p.Remote = &contract.RemoteAgent{Connection: a.remote(r.Connection), PollMillis: r.PollMillis}
	}
	for i := range a.cfg.Tools {
		t := &a.cfg.Tools[i]
		b := a.bound(t)
		if b == nil {
			return a.fail(a.execution, contract.ClassConnection, "", "tool %q has no connection %q", t.Name, t.Connection)
		}
		pt := contract.ProfileTool{Name: t.Name, As: t.As, Description: t.Description}
		if b.Catalogue != nil {
			pt.Catalogue = *b.Catalogue
		} else {
			pt.Description = strings.TrimSpace(b.Connection.Description + "\n" + t.Description)
		}
		p.Tools = append(p.Tools, pt)
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode call profile: %w", err)
	}
	fresh := !a.store.has(contract.SHA(raw))
	a.profile = contract.ProfileRef{ContentRef: contract.ContentRef{SHA: a.store.keep(raw).SHA}}
	if fresh {
		a.profile.Body = raw
	}
	return nil
}

// remote is the flow's connection to an agent that runs elsewhere.
func (r *run) remote(id string) plan.Connection {
	for _, c := range r.flow.Connections {
		if c.ID == id {
			return c
		}
	}
	return plan.Connection{ID: id, Kind: plan.ConnectionA2A}
}

// bound finds the connection of a tool, or nil.
func (r *run) bound(t *plan.Tool) *contract.Bound {
	id := boundTo(t)
	for i := range r.shared.Connections {
		if r.shared.Connections[i].ID == id {
			return &r.shared.Connections[i]
		}
	}
	return nil
}

// boundTo names the connection that a tool is bound to.
func boundTo(t *plan.Tool) string {
	if t.Connection == "" {
		return "tool:" + t.Name
	}
	return t.Connection
}

// model calls the model once. It gives the answer's message with its hash.
func (a *agentRun) model(ctx workflow.Context) (*contract.ModelResult, *contract.Message, string, error) {
	if err := a.turns(); err != nil {
		return nil, nil, "", err
	}
	a.turn++
	if err := a.steered(ctx); err != nil {
		return nil, nil, "", err
	}
	if _, err := a.fit(ctx, false); err != nil {
		return nil, nil, "", err
	}
	res, err := a.completion(ctx, "")
	if err != nil && !errors.Is(err, errYield) && !contract.Cancelled(err) && contract.FailureOf(err).Class == contract.ClassContextLength {
		// Once with less; then it is an error.
		fits, failed := a.fit(ctx, true)
		switch {
		case failed != nil:
			err = failed
		case fits:
			res, err = a.completion(ctx, "/less")
		}
	}
	if err != nil {
		return nil, nil, "", err
	}
	a.profile.Body = nil
	msg, err := contract.DecodeMessage(res.Message)
	if err != nil {
		return nil, nil, "", err
	}
	sha := a.store.record(a.thread, res.Message)
	a.thread.mark()
	a.counted(res.Usage)
	return res, msg, sha, nil
}

// completion makes one call of the model.
func (a *agentRun) completion(ctx workflow.Context, suffix string) (*contract.ModelResult, error) {
	in := contract.ModelInput{Profile: a.profile, NoTools: a.exhausted || a.think, Step: a.n}
	in.Base, in.Tail = a.thread.pending()
	in.Base.Workflow, in.Base.Run = "", ""
	in.Sent = a.shown()
	var res contract.ModelResult
	err := a.callStep(ctx, a.journal, hashOf(a.thread.hash, a.who(), strconv.FormatBool(in.NoTools)), &call{
		activity: contract.ActivityCallModel, args: []any{&in}, what: fmt.Sprintf("model call %d", a.turn), at: a.execution,
		id: a.id + "/model/" + strconv.Itoa(a.turn) + suffix, summary: fmt.Sprintf("%s · %s", a.who(), a.modelRef()),
		options: retrying(a.options(a.flow.Policy.ModelSeconds), a.cfg.Retry, false), model: &modelCall{bytes: a.thread.bytes}, out: &res,
	})
	return &res, err
}

// steered puts what people have written to the run since into the conversation.
func (a *agentRun) steered(ctx workflow.Context) error {
	if a.above != nil {
		return nil // people talk with the node, not with whom it asks
	}
	var messages []contract.Inbound
	err := a.run.runStep(ctx, a.journal, fmt.Sprintf("%s/messages/%d", a.id, a.turn), "", &messages, func(*journalStep) error {
		messages = a.messages(a.node.ID)
		return nil
	})
	if err != nil {
		return err
	}
	for _, m := range messages {
		if _, err := a.store.write(a.thread, &contract.Message{Role: contract.RoleUser, Text: m.Text}); err != nil {
			return err
		}
	}
	return nil
}

// repair looks at an answer that should be JSON. It sends a wrong one back with its errors
// as often as the node allows.
func (a *agentRun) repair(res *contract.ModelResult, msg *contract.Message) (again bool, err error) {
	if a.cfg.Output == nil || res.Checked != nil && len(res.Checked.Errors) == 0 {
		return false, nil
	}
	if strings.TrimSpace(msg.Text) == "" {
		text := "No result received but output_schema requires structured output"
		if a.repairs > 0 {
			text = "No result received from retry attempt"
		}
		return false, a.fail(a.execution, contract.ClassOutputSchema, "use another model, or give it more tokens for its answer", "%s", text)
	}
	var problems []contract.FieldError
	if res.Checked != nil {
		problems = res.Checked.Errors
	}
	if a.repairs == a.cfg.Output.Repairs {
		f := a.fail(a.execution, contract.ClassOutputSchema,
			"make the prompt or the schema easier to follow, or use a stronger model",
			"Output validation failed after %d retry: %s", a.repairs, errorList(problems, "; "))
		f.Errors = problems
		return false, f
	}
	a.repairs++
	for i := range msg.Calls {
		// Every call needs its result before the conversation can go on.
		if err := a.note(&msg.Calls[i], toolReply{Text: "max_iterations reached", Failed: true}); err != nil {
			return false, err
		}
	}
	_, err = a.store.write(a.thread, &contract.Message{Role: contract.RoleUser, Text: repairText(a.cfg.Output.Schema, problems)})
	return err == nil, err
}

// repairText asks for output again, in the words of the blueprint dialect's framework.
func repairText(schema json.RawMessage, problems []contract.FieldError) string {
	var pretty bytes.Buffer
	if len(schema) == 0 || json.Indent(&pretty, unescape(schema), "", "  ") != nil {
		pretty.Reset()
		pretty.WriteString("{}")
	}
	return "<output-validation-error>\nYour output did not match the required schema.\n\n## Validation Errors\n- " +
		errorList(problems, "\n- ") + "\n\n## Required Schema\n```json\n" + pretty.String() +
		"\n```\n\nPlease provide output matching the schema exactly. Output ONLY valid JSON.\n</output-validation-error>"
}

// unescape undoes what encoding/json does to < > and & on a schema's way through a payload.
func unescape(raw []byte) []byte {
	return htmlEscape.ReplaceAllFunc(raw, func(m []byte) []byte {
		switch string(m) {
		case `\u003c`:
			return []byte("<")
		case `\u003e`:
			return []byte(">")
		case `\u0026`:
			return []byte("&")
		}
		return m
	})
}

// An escaped character in JSON, so that a backslash before one is never taken for its begin.
var htmlEscape = regexp.MustCompile(`\\u[0-9a-f]{4}|\\.`)

func errorList(problems []contract.FieldError, sep string) string {
	var lines []string
	for _, p := range problems {
		lines = append(lines, p.Path+": "+p.Message)
	}
	return strings.Join(lines, sep)
}

// ref names something that this run stores.
func (r *run) ref(sha string) contract.ContentRef {
	return contract.ContentRef{Workflow: r.store.workflow, Run: r.store.run, SHA: sha}
}
