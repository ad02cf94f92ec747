package contract

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"weft/workflows/plan"
)

// DataConnection is a connection that a run's input brings: as Continuum writes it, or in
// the plan's own words.
type DataConnection struct {
	ID          string `json:"id"`
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
	// Type is 1 for MCP and 2 for a sub-agent; Kind says it in words instead.
	Type int    `json:"type,omitempty"`
	Kind string `json:"kind,omitempty"`
	// Config holds URL or Agent in Continuum's shape.
	Config *DataConnectionConfig `json:"config,omitempty"`
	URL    string                `json:"url,omitempty"`
	Agent  string                `json:"agent,omitempty"`
	// Tools are those that the client itself runs; kind is client then.
	Tools []plan.ClientTool `json:"tools,omitempty"`
}

// DataConnectionConfig is the config object of Continuum's data connections.
type DataConnectionConfig struct {
	URL     string `json:"url,omitempty"`
	AgentID string `json:"agent_id,omitempty"`
}

// InHistory is said of a secret that came with a run: taking it out of the next one's input is
// not enough.
const InHistory = "the secret is already in the run's history: rotate it"

// ErrSecret means that what a run brings holds a secret.
var ErrSecret = errors.New("holds a name or a password")

// Connection is the connection in the plan's words. It fails where type and kind say
// nothing that the plan knows, and with [ErrSecret] where the address holds a password.
func (d *DataConnection) Connection() (plan.Connection, error) {
	c := plan.Connection{ID: d.ID, Name: d.Name, Description: d.Description, Kind: d.Kind, URL: d.URL, Agent: d.Agent, Tools: d.Tools}
	if d.Config != nil {
		c.URL, c.Agent = cmp.Or(c.URL, d.Config.URL), cmp.Or(c.Agent, d.Config.AgentID)
	}
	switch {
	case d.Type == 0 && c.Kind == plan.ConnectionClient:
		if len(c.Tools) == 0 {
			return c, fmt.Errorf("data_connections: %q is of kind client and has no tools", d.ID)
		}
	case d.Type == 2 || c.Kind == plan.ConnectionAgent:
		c.Kind = plan.ConnectionAgent
	case d.Type == 1 || d.Type == 0 && (c.Kind == "" || c.Kind == plan.ConnectionMCP):
		c.Kind = plan.ConnectionMCP
	default:
		return c, fmt.Errorf("data_connections: %q has type %d and kind %q, want type 1 (MCP) or 2 (sub-agent), or kind client", d.ID, d.Type, d.Kind)
	}
	if c.ID == "" {
		return c, fmt.Errorf("data_connections: a connection has no id")
	}
	return c, withoutPassword(c.ID, c.URL)
}

// withoutPassword refuses the address of a connection that holds a name or a password.
func withoutPassword(id, address string) error {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return nil
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return fmt.Errorf("data_connections: the url of %q %w; take them out and set in the worker's weft.yaml: connections: {%q: {url: %q, headers: {Authorization: \"Basic ${TOKEN}\"}}}",
		id, ErrSecret, id, u)
}

// ReadInput decodes what a client starts a run with. Unlike encoding/json it refuses fields
// that the contract does not know, because a misspelt one would be a silent default, and names
// that stand twice, of which one would be silently left out. What
// the interpreter starts itself may come from a later build and is read leniently.
//
// Workflow code calls it, so that a stricter check in a later build needs
// workflow.GetVersion.
func ReadInput(raw json.RawMessage) (*RunInput, error) {
	bad := func(err error) error {
		return &Failure{Class: ClassBadRequest, Text: "the run's input: " + err.Error(),
			Remedy: "send one JSON object as activities/contract/README.md describes it"}
	}
	in := &RunInput{}
	unknown := DecodeExactly(raw, in)
	if unknown != nil || in.V != Version || in.planVersion() > plan.Version {
		if err := laterInput(raw); err != nil {
			return nil, err
		}
		in = &RunInput{}
		if err := Decode(raw, in); err != nil {
			return nil, bad(err)
		}
	}
	if in.Snapshot != nil || in.Depth > 0 {
		return in, nil
	}
	if unknown != nil {
		return nil, bad(unknown)
	}
	if err := in.check(); err != nil {
		return nil, bad(err)
	}
	if len(in.Components) > 0 || len(in.ComponentIDs) > 0 {
		in.Flow.Components, in.Flow.ComponentIDs = in.Components, in.ComponentIDs
		in.Components, in.ComponentIDs = nil, nil
	}
	return in, nil
}

// planVersion is the highest version among the plans of an input.
func (in *RunInput) planVersion() int {
	n := 0
	if in.Flow.Plan != nil {
		n = in.Flow.Plan.Version
	}
	if in.Snapshot != nil && in.Snapshot.Plan != nil {
		n = max(n, in.Snapshot.Plan.Version)
	}
	return n
}

// check refuses values that would otherwise be silently replaced.
func (in *RunInput) check() error {
	sources := 0
	for _, given := range []bool{in.Flow.Text != "", in.Flow.Plan != nil, in.Flow.Name != "" && in.Flow.Text == "" && in.Flow.Plan == nil} {
		if given {
			sources++
		}
	}
	for _, own := range []struct {
		name  string
		value any
		set   bool
	}{
		{"conversation", "an object", in.Conversation != nil}, {"unchecked", true, in.Unchecked}, {"parent", in.Parent, in.Parent != ""},
		{"max_payload", in.MaxPayload, in.MaxPayload != 0}, {"entries", true, in.Entries}, {"max_result_bytes", in.MaxResultBytes, in.MaxResultBytes != 0},
	} {
		if own.set {
			return fmt.Errorf("%s is %v, want it left out: the interpreter sets it", own.name, own.value)
		}
	}
	switch {
	case sources != 1:
		return fmt.Errorf("flow: want exactly one of text (a document), name (of a flow on the worker) and plan, got %d", sources)
	case !slices.Contains([]string{"", OnErrorWait, OnErrorFail}, in.OnError):
		return fmt.Errorf("on_error is %q, want %s or %s", in.OnError, OnErrorWait, OnErrorFail)
	case in.MaxSteps < 0 || in.MaxEvents < 0:
		return fmt.Errorf("max_steps is %d and max_events %d, want 0 or more", in.MaxSteps, in.MaxEvents)
	}
	return cmp.Or(in.Budget.check(), in.checkComponents(), in.Flow.checkFiles(), in.checkGiven(), in.Fork.check(), CheckMedia(in.Media))
}

// BringsFlow is what [RunInput.Brings] says of a document, a plan or a fork.
const BringsFlow = "flow"

// Brings are what a run brings besides the name of a flow and its input: flow, model, script, limits, state, connections.
func (in *RunInput) Brings() []string {
	var out []string
	for _, b := range []struct {
		what string
		set  bool
	}{
		{BringsFlow, in.Flow.Text != "" || in.Flow.Plan != nil || in.Fork != nil || len(in.Components)+len(in.Flow.Components)+len(in.Flow.Files) > 0},
		{"model", in.Model != ""}, {"script", len(in.Script) > 0}, {"limits", in.MaxSteps > 0 || in.MaxEvents > 0},
		{"state", len(in.State) > 0}, {"connections", len(in.DataConnections) > 0},
	} {
		if b.set {
			out = append(out, b.what)
		}
	}
	return out
}

// checkGiven refuses what a run is given in a wrong shape, or twice.
func (in *RunInput) checkGiven() error {
	if in.Input != "" && len(in.Value) > 0 {
		return fmt.Errorf("input and value are both given, want one of them")
	}
	if p := bytes.TrimLeft(in.Params, " \t\r\n"); len(p) > 0 && p[0] != '{' && string(p) != "null" {
		return fmt.Errorf("params is %.40s, want an object with the flow's inputs", p)
	}
	if s := bytes.TrimLeft(in.Scope, " \t\r\n"); len(s) > 0 && s[0] != '{' && string(s) != "null" {
		return fmt.Errorf("scope is %.40s, want an object with values of placeholders", s)
	}
	for i, m := range in.History {
		if !slices.Contains([]string{RoleUser, RoleAssistant, "system", RoleTool}, m.Role) {
			return fmt.Errorf("history[%d].role is %q, want user, assistant, system or tool", i, m.Role)
		}
	}
	return nil
}

// checkComponents refuses components that no document could refer to.
func (in *RunInput) checkComponents() error {
	given := len(in.Components)+len(in.ComponentIDs) > 0
	inner := len(in.Flow.Components)+len(in.Flow.ComponentIDs) > 0
	switch {
	case given && inner:
		return fmt.Errorf("components stand both beside flow and in it, want them in one place")
	case (given || inner) && in.Flow.Plan != nil:
		return fmt.Errorf("components: a plan is compiled already and refers to none")
	}
	return checkDocuments(slices.Concat(in.Components, in.Flow.Components), slices.Concat(in.ComponentIDs, in.Flow.ComponentIDs))
}

// checkFiles refuses files that lie around no document, or at no one place.
func (f *FlowRef) checkFiles() error {
	switch {
	case len(f.Files) == 0:
		return nil
	case f.Plan != nil:
		return fmt.Errorf("flow.files: a plan is compiled already and has none around it; leave them out")
	case f.Text == "":
		return fmt.Errorf("flow.files: the worker's flow %q has its own; leave them out, or send the document as flow.text", f.Name)
	case f.Name == "":
		return fmt.Errorf("flow.files are given, but flow.name is empty, want the document's path, such as agents/triage/agent.json")
	}
	seen := map[string]string{f.Name: "flow.name"}
	for i, d := range f.Files {
		at := fmt.Sprintf("flow.files[%d].name", i)
		switch {
		case d.Name == "":
			return fmt.Errorf("%s is empty, want the file's path", at)
		case d.Name != path.Clean(d.Name), path.IsAbs(d.Name), d.Name == ".", d.Name == "..", strings.HasPrefix(d.Name, "../"), strings.ContainsAny(d.Name, "\\\x00"):
			return fmt.Errorf("%s is %.200q, want a plain path with slashes, from the place from which flow.name leads", at, d.Name)
		case seen[d.Name] != "":
			return fmt.Errorf("%s is %.200q, which %s is already; want each file once", at, d.Name, seen[d.Name])
		}
		seen[d.Name] = at
	}
	return nil
}

// checkDocuments refuses documents with the same name, and ids of none of them.
func checkDocuments(docs []Document, ids []ComponentID) error {
	names := map[string]bool{}
	for i, d := range docs {
		if d.Name == "" || d.Text == "" {
			return fmt.Errorf("components[%d] has no name or no text, want both", i)
		}
		if names[d.Name] {
			return fmt.Errorf("components[%d].name is %q again, want each name once", i, d.Name)
		}
		names[d.Name] = true
	}
	seen := map[string]bool{}
	for i, c := range ids {
		switch {
		case c.ID == "" || c.Key == "":
			return fmt.Errorf("component_ids[%d] has no id or no key, want both", i)
		case seen[c.ID]:
			return fmt.Errorf("component_ids[%d].id is %q again, want each id once", i, c.ID)
		case !names[c.Name]:
			return fmt.Errorf("component_ids[%d].name is %q, which is the name of none of components", i, c.Name)
		}
		seen[c.ID] = true
	}
	return nil
}

// versioned is what all builds read of a plan.
type versioned struct {
	Version int `json:"version"`
}

// LaterPlan is the failure of a plan whose version is higher than this build's, nil of any
// other.
func LaterPlan(version int) error {
	if version <= plan.Version {
		return nil
	}
	return &Failure{Class: ClassPlanVersion, Text: fmt.Sprintf("the plan's version is %d, this build reads up to %d", version, plan.Version),
		Remedy: "run workers of the build that made the plan, or make the plan with a starter of the workers' build"}
}

// laterInput refuses a run's input that a later build made, by what all builds read of it:
// the rest may be of any shape, which would be a less useful error.
func laterInput(raw json.RawMessage) error {
	var head struct {
		V    *int `json:"v"`
		Flow struct {
			Plan versioned `json:"plan"`
		} `json:"flow"`
		Snapshot struct {
			Plan versioned `json:"plan"`
		} `json:"snapshot"`
	}
	if Decode(raw, &head) != nil {
		return nil // ReadInput says what is wrong with it
	}
	if head.V != nil && *head.V != Version {
		return WrongVersion(*head.V)
	}
	return LaterPlan(max(head.Flow.Plan.Version, head.Snapshot.Plan.Version))
}

// WrongVersion is the failure of an input of another version of the contract.
func WrongVersion(v int) *Failure {
	return &Failure{Class: ClassBadRequest, Text: fmt.Sprintf("the input's v is %d", v),
		Remedy: fmt.Sprintf("this build understands v %d", Version)}
}

// ReadBranchInput decodes the input of a run of type Branch. A later plan is a [ClassPlanVersion].
func ReadBranchInput(raw json.RawMessage) (*BranchInput, error) {
	return readOther[BranchInput](raw, "the branch's input", "start a run of type "+WorkflowFlow)
}

// ReadPrepared decodes what the activity that compiles gave. A later plan is a [ClassPlanVersion].
func ReadPrepared(raw json.RawMessage) (*CompileFlowResult, error) {
	return readOther[CompileFlowResult](raw, "the compiled flow", "run workers of one build on a task queue")
}

// readOther decodes leniently what has a plan and may come from a worker of a later build.
func readOther[T any](raw json.RawMessage, what, remedy string) (*T, error) {
	var head struct {
		Plan versioned `json:"plan"`
	}
	if Decode(raw, &head) == nil {
		if err := LaterPlan(head.Plan.Version); err != nil {
			return nil, err
		}
	}
	out := new(T)
	if err := Decode(raw, out); err != nil {
		return nil, &Failure{Class: ClassBadRequest, Text: what + ": " + err.Error(), Remedy: remedy}
	}
	return out, nil
}
