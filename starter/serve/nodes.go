package serve

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/specadapter"
	"weft/specadapter/drawing"
	"weft/specadapter/source"
	"weft/starter/compare"
	"weft/starter/fork"
	"weft/starter/history"
	"weft/starter/input"
	"weft/starter/runs"
	"weft/starter/runtree"
	"weft/workflows/plan"
)

type executionView struct {
	// Execution is node#step; Place is the place of its sub-agent, "" for the run's own flow.
	Execution string `json:"execution"`
	Place     string `json:"place,omitempty"`
	Node      string `json:"node"`
	Name      string `json:"name,omitempty"`
	// Status is running, done, recorded (reused from the forked run), or stopped.
	Status string `json:"status"`
	// StartedAt and EndedAt are the start and end of its calls; null for a node without calls.
	StartedAt *time.Time `json:"started_at,omitempty"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	// Usage is its usage of models, Retries the number of retries of its calls.
	Usage   contract.Usage `json:"usage"`
	Retries int            `json:"retries,omitempty"`
	Text    string         `json:"text,omitempty"`
	// Prompt is the prompt of a node that calls a model.
	Prompt string `json:"prompt,omitempty"`
}

type executionsView struct {
	Executions []executionView `json:"executions"`
	Usage      contract.Usage  `json:"usage"`
	// Missing are the ids of workflows whose histories are no longer retained.
	Missing []string `json:"missing,omitempty"`
}

// getExecutions lists the executions of a run and its descendants, in the order of the flow.
func (srv *Server) getExecutions(_ http.ResponseWriter, r *http.Request, run *Run) (any, error) {
	tree, err := srv.Runs.Tree(r.Context(), run)
	if err != nil {
		return nil, err
	}
	// ended are the finished executions of an open run; it is empty if no worker answers.
	ended := map[string]bool{}
	if run.Closed == nil {
		if st, err := srv.Runs.Status(r.Context(), run); err == nil {
			for i := range st.Executions {
				ended[history.Label(st.Executions[i])] = true
			}
		}
	}
	out := executionsView{Executions: []executionView{}, Usage: tree.Usage(), Missing: tree.Missing}
	index := map[string]int{}
	at := func(v *runtree.Workflow, label string) *executionView {
		key := v.Place + "\x00" + label
		i, ok := index[key]
		if !ok {
			i = len(out.Executions)
			index[key] = i
			out.Executions = append(out.Executions, newExecution(v, label))
		}
		return &out.Executions[i]
	}
	for _, v := range tree.Workflows {
		for _, c := range v.Costs {
			at(v, c.Execution).spend(c, v.Open() && !ended[v.Place+c.Execution])
		}
		for i := range v.Executions {
			x := at(v, history.Label(v.Executions[i]))
			if x.Status = "done"; v.Executions[i].Recorded {
				x.Status = "recorded"
			}
		}
	}
	return out, nil
}

func newExecution(v *runtree.Workflow, label string) executionView {
	x := executionView{Execution: label, Place: v.Place, Node: history.ExecutionOf(label).Node}
	if n := v.Node(x.Node); n != nil {
		x.Name = n.Name
		if n.Agent != nil {
			x.Prompt = n.Agent.Prompt
		}
	}
	return x
}

// getExecutionState returns the state before and after an execution.
func (srv *Server) getExecutionState(_ http.ResponseWriter, r *http.Request, run *Run) (any, error) {
	return srv.Runs.StateOf(r.Context(), run, r.PathValue("execution"))
}

// spend sets the times and usage of an execution.
func (x *executionView) spend(c *runtree.Cost, running bool) {
	x.StartedAt, x.Usage, x.Retries, x.Text, x.Status = &c.From, c.Usage, c.Retries, c.Text, "stopped"
	if !c.To.IsZero() {
		x.EndedAt, x.Status = &c.To, "done"
	}
	if running {
		x.Status = "running"
	}
}

func (srv *Server) getGraph(w http.ResponseWriter, r *http.Request, run *Run) (any, error) {
	g, err := srv.Runs.Graph(r.Context(), run)
	if errors.Is(err, runs.ErrNoPlan) {
		return nil, NewProblem(NoPlan, "retry when the run has started its first node", "%v", err)
	}
	if err != nil {
		return nil, err
	}
	svg, err := drawing.SVG(g.Flow, g.States)
	if err != nil {
		return nil, NewProblem(TooLarge, "use its executions instead", "the flow %q cannot be drawn: %v", g.Flow.Name, err)
	}
	w.Header().Set("Content-Type", "image/svg+xml")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_, err = unmasked(w).Write([]byte(srv.Mask.Text(svg)))
	return nil, err
}

// compareRuns compares two runs.
func (srv *Server) compareRuns(_ http.ResponseWriter, r *http.Request, run *Run) (any, error) {
	with := r.URL.Query().Get("with")
	if with == "" {
		return nil, NewProblem(BadRequest, "set the other run: ?with=ID", "with is missing")
	}
	other, err := srv.Runs.Find(r.Context(), with)
	if err != nil {
		return nil, err
	}
	var trees [2]*runtree.Tree
	for i, one := range []*Run{run, other} {
		if trees[i], err = srv.Runs.Tree(r.Context(), one); err != nil {
			return nil, err
		}
	}
	return compare.Of([2]string{run.ID, other.ID}, trees), nil
}

// fork starts a run that continues from a node of another run, optionally with another prompt or other values.
func (srv *Server) fork(w http.ResponseWriter, r *http.Request, run *Run) (any, error) {
	o, err := srv.read(w, r)
	if err != nil {
		return nil, err
	}
	var body struct {
		From   string                     `json:"from"`
		Prompt *string                    `json:"prompt"`
		State  map[string]json.RawMessage `json:"state"`
		Model  string                     `json:"model"`
	}
	o.checkFields("from", "prompt", "state", "model")
	o.decode(&body)
	if body.From == "" {
		o.addProblem(o.Pos, "from is missing: the node, or one of its executions, node#step, that the run continues from")
	}
	if err := o.problem(); err != nil {
		return nil, err
	}
	if err := srv.mayStart(r.Context(), ""); err != nil {
		return nil, err
	}
	options := fork.Options{From: body.From, Model: body.Model, File: "body", Say: srv.Log}
	if state := o.Get("state"); state != nil {
		for _, m := range state.Members {
			options.Set = append(options.Set, input.Param{Key: m.Key, Raw: m.Value.JSON(), From: "state." + m.Key})
		}
	}
	if body.Prompt != nil {
		if options.Flow, err = srv.withPrompt(r, run, body.From, *body.Prompt); err != nil {
			return nil, err
		}
	}
	in, err := srv.Runs.Fork(r.Context(), run, options)
	if err != nil {
		return nil, err
	}
	s := &Start{Caller: callerOf(r), Input: in}
	if err := srv.accept(r.Context(), s, contract.FlowRef{}, srv.NewID(in.Flow.Plan.Name), in.Flow.Plan.Name); err != nil {
		return nil, err
	}
	again, _, err := srv.Runs.Start(r.Context(), s)
	if err != nil {
		return nil, err
	}
	return created(w, again)
}

// withPrompt returns a run's flow with another prompt for one node.
func (srv *Server) withPrompt(r *http.Request, run *Run, from, prompt string) (*specadapter.Result, error) {
	tree, err := srv.Runs.Tree(r.Context(), run)
	if err != nil {
		return nil, err
	}
	root := tree.Root()
	if root.Flow == nil {
		return nil, NewProblem(NoPlan, "retry when the run has started its first node", "the run %q has no plan yet", run.ID)
	}
	flow := *root.Flow
	flow.Nodes = slices.Clone(flow.Nodes)
	id := from
	if flow.Node(id) == nil {
		id = history.ExecutionOf(from).Node
	}
	i := slices.IndexFunc(flow.Nodes, func(n plan.Node) bool { return n.ID == id })
	if i < 0 || flow.Nodes[i].Agent == nil || flow.Nodes[i].Agent.Prompt == "" || !strings.Contains(flow.Nodes[i].Agent.System, flow.Nodes[i].Agent.Prompt) {
		return nil, NewProblem(InvalidBody, "remove the prompt, or use a node that calls a model", "the node %s has no prompt that can be replaced", source.Quote(id))
	}
	agent := *flow.Nodes[i].Agent
	agent.System, agent.Prompt = strings.Replace(agent.System, agent.Prompt, prompt, 1), prompt
	flow.Nodes[i].Agent = &agent
	return &specadapter.Result{Flow: &flow, Source: root.Source}, nil
}
