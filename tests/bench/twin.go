package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// The twins' workflow types.
const (
	workflowTwin       = "Twin"
	workflowTwinBranch = "TwinBranch"
	workflowTwinLoop   = "TwinLoop"
)

// registerTwins registers the hand-written workflows on a worker.
func registerTwins(w worker.WorkflowRegistry) {
	w.RegisterWorkflowWithOptions(twinFlow, workflow.RegisterOptions{Name: workflowTwin})
	w.RegisterWorkflowWithOptions(twinBranch, workflow.RegisterOptions{Name: workflowTwinBranch})
	w.RegisterWorkflowWithOptions(twinLoop, workflow.RegisterOptions{Name: workflowTwinLoop})
	registerTwinMap(w)
}

// twinInput starts a twin: parallel branches, each a chain of model calls, then one
// call that reads all of their answers.
type twinInput struct {
	Model    string          `json:"model"`
	Text     string          `json:"text"`
	Script   json.RawMessage `json:"script,omitempty"`
	Branches [][]string      `json:"branches"`
	Join     string          `json:"join,omitempty"`
	// InPlace runs the branches as coroutines instead of children.
	InPlace bool `json:"in_place,omitempty"`
}

// twinBranchInput starts the child for one branch.
type twinBranchInput struct {
	Root   string               `json:"root"`
	Model  string               `json:"model"`
	Text   string               `json:"text"`
	Script *contract.ContentRef `json:"script,omitempty"`
	Nodes  []string             `json:"nodes"`
}

// said is the answer of one call.
type said struct {
	Node string `json:"node"`
	Text string `json:"text"`
}

// twinFlow is the hand-written equivalent of a plan: one branch runs in place, several
// run as children. Earlier answers are passed by value.
func twinFlow(ctx workflow.Context, in twinInput) (string, error) {
	id := workflow.GetInfo(ctx).WorkflowExecution.ID
	held, err := newShelf(ctx)
	if err != nil {
		return "", err
	}
	first := twinBranchInput{Root: id, Model: in.Model, Text: in.Text, Script: held.put(ctx, in.Script)}
	var all []said
	if len(in.Branches) == 1 {
		first.Nodes = in.Branches[0]
		if all, err = twinBranch(ctx, first); err != nil {
			return "", err
		}
	} else if in.InPlace {
		all, err = twinCoroutines(ctx, first, in.Branches)
	} else {
		all, err = twinFork(ctx, first, in.Branches)
	}
	if err != nil {
		return "", err
	}
	if in.Join != "" {
		last, err := twinCall(ctx, &first, in.Join, len(in.Branches[0])+1, all)
		if err != nil {
			return "", err
		}
		all = append(all, last)
	}
	return all[len(all)-1].Text, nil
}

// twinFork runs the branches as children and waits for all.
func twinFork(ctx workflow.Context, in twinBranchInput, branches [][]string) ([]said, error) {
	futures := make([]workflow.ChildWorkflowFuture, len(branches))
	for i, nodes := range branches {
		in.Nodes = nodes
		futures[i] = workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
			WorkflowID:          in.Root + "/" + nodes[0] + "#1",
			StaticSummary:       "branch · " + nodes[0],
			ParentClosePolicy:   enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
			WaitForCancellation: true,
		}), workflowTwinBranch, in)
	}
	var all []said
	for _, f := range futures {
		var out []said
		if err := f.Get(ctx, &out); err != nil {
			return nil, err
		}
		all = append(all, out...)
	}
	return all, nil
}

// twinCoroutines runs the branches as coroutines and waits for all.
func twinCoroutines(ctx workflow.Context, in twinBranchInput, branches [][]string) ([]said, error) {
	parts, failed := make([][]said, len(branches)), make([]error, len(branches))
	group := workflow.NewWaitGroup(ctx)
	for i, nodes := range branches {
		group.Add(1)
		branch := in
		branch.Nodes = nodes
		workflow.Go(ctx, func(ctx workflow.Context) {
			parts[i], failed[i] = twinBranch(ctx, branch)
			group.Done()
		})
	}
	group.Wait(ctx)
	return slices.Concat(parts...), errors.Join(failed...)
}

// twinBranch runs calls sequentially.
func twinBranch(ctx workflow.Context, in twinBranchInput) ([]said, error) {
	var all []said
	for i, node := range in.Nodes {
		s, err := twinCall(ctx, &in, node, i+1, all)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// twinCall calls the model once, with the input and the earlier answers.
func twinCall(ctx workflow.Context, in *twinBranchInput, node string, step int, before []said) (said, error) {
	text := in.Text
	for _, s := range before {
		text += fmt.Sprintf("\n\n<output node=%q>\n%s\n</output>", s.Node, s.Text)
	}
	t := &conversation{profile: contract.Profile{Model: in.Model, Node: node, System: systemOf(node), Script: in.Script}, step: step}
	if err := t.write(&contract.Message{Role: contract.RoleUser, Text: text}); err != nil {
		return said{}, err
	}
	m, err := t.ask(ctx)
	if err != nil {
		return said{}, err
	}
	return said{Node: node, Text: m.Text}, nil
}

// conversation is a transcript that is passed in full to every call, as in hand-written workflows.
type conversation struct {
	profile contract.Profile
	step    int
	turn    int
	all     []contract.TailEntry
}

func (t *conversation) write(m *contract.Message) error {
	raw, err := m.Encode()
	if err != nil {
		return err
	}
	t.add(raw)
	return nil
}

func (t *conversation) add(raw json.RawMessage) {
	t.all = append(t.all, contract.TailEntry{SHA: contract.SHA(raw), Message: raw})
}

// ask calls the model with the full conversation.
func (t *conversation) ask(ctx workflow.Context) (*contract.Message, error) {
	t.turn++
	body, err := json.Marshal(t.profile)
	if err != nil {
		return nil, err
	}
	ex := workflow.GetInfo(ctx).WorkflowExecution
	in := contract.ModelInput{
		Profile: contract.ProfileRef{ContentRef: contract.ContentRef{Workflow: ex.ID, Run: ex.RunID, SHA: contract.SHA(body)}, Body: body},
		Base:    contract.Head{Workflow: ex.ID, Run: ex.RunID, Thread: t.profile.Node},
		Tail:    t.all, Step: t.step,
	}
	actx := twinOptions(ctx, fmt.Sprintf("%s#%d/model/%d", t.profile.Node, t.step, t.turn),
		t.profile.Node+" · "+t.profile.Model, plan.DefaultPolicy.ModelSeconds)
	var out contract.ModelResult
	if err := workflow.ExecuteActivity(actx, contract.ActivityCallModel, in).Get(ctx, &out); err != nil {
		return nil, err
	}
	t.add(out.Message)
	return contract.DecodeMessage(out.Message)
}

// twinLoopInput starts the twin of an agent with one tool.
type twinLoopInput struct {
	Model  string          `json:"model"`
	Text   string          `json:"text"`
	Script json.RawMessage `json:"script,omitempty"`
	Node   string          `json:"node"`
	Tool   string          `json:"tool"`
	// Connection is the id of the tool's connection in the worker's settings.
	Connection string `json:"connection"`
}

// twinLoop calls the model until it answers without a tool call. Each call gets the full
// conversation.
func twinLoop(ctx workflow.Context, in twinLoopInput) (string, error) {
	held, err := newShelf(ctx)
	if err != nil {
		return "", err
	}
	connection := plan.Connection{ID: in.Connection, Kind: plan.ConnectionMCP}
	var list contract.CatalogueResult
	err = workflow.ExecuteActivity(twinOptions(ctx, "tools/"+in.Connection, "list tools · "+in.Connection, plan.DefaultPolicy.ToolSeconds),
		contract.ActivityListTools, contract.CatalogueInput{Connection: connection, Names: []string{in.Tool}}).Get(ctx, &list)
	if err != nil {
		return "", err
	}
	t := &conversation{step: 1, profile: contract.Profile{Model: in.Model, Node: in.Node, System: systemOf(in.Node), Script: held.put(ctx, in.Script),
		Tools: []contract.ProfileTool{{Name: in.Tool, As: in.Tool, Catalogue: *held.put(ctx, list.Catalogue)}}}}
	if err := t.write(&contract.Message{Role: contract.RoleUser, Text: in.Text}); err != nil {
		return "", err
	}
	for {
		m, err := t.ask(ctx)
		if err != nil {
			return "", err
		}
		if len(m.Calls) == 0 {
			return m.Text, nil
		}
		for i, c := range m.Calls {
			actx := twinOptions(ctx, fmt.Sprintf("%s#1/tool/%d.%d", in.Node, t.turn, i+1), in.Node+" · "+in.Tool, plan.DefaultPolicy.ToolSeconds)
			var out contract.ToolResult
			if err := workflow.ExecuteActivity(actx, contract.ActivityCallTool, contract.ToolInput{
				Connection: list.Resolved, Name: in.Tool, Arguments: json.RawMessage(c.Arguments), CallID: c.ID, As: in.Tool,
			}).Get(ctx, &out); err != nil {
				return "", err
			}
			t.add(out.Message)
		}
	}
}

// twinOptions returns the activity options that the interpreter uses.
func twinOptions(ctx workflow.Context, id, summary string, seconds int) workflow.Context {
	p := plan.DefaultPolicy
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ActivityID:             id,
		Summary:                summary,
		StartToCloseTimeout:    time.Duration(seconds) * time.Second,
		ScheduleToCloseTimeout: time.Duration(p.RetrySeconds) * time.Second,
		HeartbeatTimeout:       time.Duration(p.HeartbeatSeconds) * time.Second,
		WaitForCancellation:    true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Duration(p.FirstRetryMillis) * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: time.Minute,
		},
	})
}

// shelf lets activities fetch bytes by the interpreter's query. On both sides, script and catalogue
// are fetched once per worker.
type shelf map[string]json.RawMessage

// newShelf registers the query.
func newShelf(ctx workflow.Context) (shelf, error) {
	s := shelf{}
	return s, workflow.SetQueryHandler(ctx, contract.QueryContent, func(q contract.ContentQuery) (contract.ContentPage, error) {
		raw, ok := s[q.SHA]
		if !ok || q.Offset < 0 || q.Offset > len(raw) {
			return contract.ContentPage{}, (&contract.Failure{Class: contract.ClassTranscriptLost, Text: "this run has no content " + q.SHA}).ApplicationError()
		}
		return contract.ContentPage{Data: raw[q.Offset:], Total: len(raw)}, nil
	})
}

// put stores bytes and returns their reference, or nil if there are none.
func (s shelf) put(ctx workflow.Context, raw json.RawMessage) *contract.ContentRef {
	if len(raw) == 0 {
		return nil
	}
	ex := workflow.GetInfo(ctx).WorkflowExecution
	ref := &contract.ContentRef{Workflow: ex.ID, Run: ex.RunID, SHA: contract.SHA(raw)}
	s[ref.SHA] = raw
	return ref
}
