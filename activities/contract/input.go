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

// DataConnection is a connection that a run's input supplies, in Continuum's format or in that of the plan.
type DataConnection struct {
	ID          string `json:"id"`
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
	// Type is 1 for MCP and 2 for a sub-agent; Kind is the alternative as a name.
	Type int    `json:"type,omitempty"`
	Kind string `json:"kind,omitempty"`
	// Config holds URL or Agent in Continuum's format.
	Config *DataConnectionConfig `json:"config,omitempty"`
	URL    string                `json:"url,omitempty"`
	Agent  string                `json:"agent,omitempty"`
	// Tools are the tools that the client itself runs; Kind must be client.
	Tools []plan.ClientTool `json:"tools,omitempty"`
}

// DataConnectionConfig is the config object of Continuum's data connections.
type DataConnectionConfig struct {
	URL     string `json:"url,omitempty"`
	AgentID string `json:"agent_id,omitempty"`
}

// SecretInHistoryRemedy is the advice for a secret that was part of a run's input: to remove it from the next input is not enough.
const SecretInHistoryRemedy = "the secret is already in the run's history: rotate it"

// ErrSecret means that a run's input contains a secret.
var ErrSecret = errors.New("contains a user name or password")

// Connection converts d to the plan's format. It fails if type and kind are not supported, and with [ErrSecret] if the
// URL contains credentials.
func (d *DataConnection) Connection() (plan.Connection, error) {
	c := plan.Connection{ID: d.ID, Name: d.Name, Description: d.Description, Kind: d.Kind, URL: d.URL, Agent: d.Agent, Tools: d.Tools}
	if d.Config != nil {
		c.URL, c.Agent = cmp.Or(c.URL, d.Config.URL), cmp.Or(c.Agent, d.Config.AgentID)
	}
	switch {
	case d.Type == 0 && c.Kind == plan.ConnectionClient:
		if len(c.Tools) == 0 {
			return c, fmt.Errorf("data_connections: %q has kind client but no tools", d.ID)
		}
	case d.Type == 2 || c.Kind == plan.ConnectionAgent:
		c.Kind = plan.ConnectionAgent
	case d.Type == 1 || d.Type == 0 && (c.Kind == "" || c.Kind == plan.ConnectionMCP):
		c.Kind = plan.ConnectionMCP
	default:
		return c, fmt.Errorf("data_connections: %q has type %d and kind %q; use type 1 (MCP), type 2 (sub-agent) or kind client", d.ID, d.Type, d.Kind)
	}
	if c.ID == "" {
		return c, fmt.Errorf("data_connections: a connection has no id")
	}
	return c, withoutPassword(c.ID, c.URL)
}

// withoutPassword rejects a connection's URL that contains a user name or password.
func withoutPassword(id, address string) error {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return nil
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return fmt.Errorf("data_connections: the url of %q %w; remove it and set in the worker's weft.yaml: connections: {%q: {url: %q, headers: {Authorization: \"Basic ${TOKEN}\"}}}",
		id, ErrSecret, id, u)
}

// ReadInput decodes the input with which a client starts a run. Unlike encoding/json it rejects unknown fields, because a
// misspelled one would silently get its default, and duplicate names, one of which would be silently ignored. The input
// of runs that the interpreter starts may come from a later build and is read leniently.
//
// Workflow code calls it, so a stricter check in a later build needs workflow.GetVersion.
func ReadInput(raw json.RawMessage) (*RunInput, error) {
	invalid := func(err error) error {
		return &Failure{Class: ClassBadRequest, Text: "the run's input: " + err.Error(),
			Remedy: "send one JSON object as described in activities/contract/README.md"}
	}
	in := &RunInput{}
	unknown := DecodeExactly(raw, in)
	if unknown != nil || in.V != Version || in.planVersion() > plan.Version {
		if err := checkLaterInput(raw); err != nil {
			return nil, err
		}
		in = &RunInput{}
		if err := Decode(raw, in); err != nil {
			return nil, invalid(err)
		}
	}
	if in.Snapshot != nil || in.Depth > 0 {
		return in, nil
	}
	if unknown != nil {
		return nil, invalid(unknown)
	}
	if err := in.check(); err != nil {
		return nil, invalid(err)
	}
	if len(in.Components) > 0 || len(in.ComponentIDs) > 0 {
		in.Flow.Components, in.Flow.ComponentIDs = in.Components, in.ComponentIDs
		in.Components, in.ComponentIDs = nil, nil
	}
	return in, nil
}

// planVersion returns the highest version of the plans in an input.
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

// check rejects values that would otherwise be silently replaced.
func (in *RunInput) check() error {
	sources := 0
	for _, set := range []bool{in.Flow.Text != "", in.Flow.Plan != nil, in.Flow.Name != "" && in.Flow.Text == "" && in.Flow.Plan == nil} {
		if set {
			sources++
		}
	}
	for _, internal := range []struct {
		name  string
		value any
		set   bool
	}{
		{"conversation", "an object", in.Conversation != nil}, {"unchecked", true, in.Unchecked}, {"parent", in.Parent, in.Parent != ""},
		{"max_payload", in.MaxPayload, in.MaxPayload != 0}, {"entries", true, in.Entries}, {"max_result_bytes", in.MaxResultBytes, in.MaxResultBytes != 0},
	} {
		if internal.set {
			return fmt.Errorf("%s is %v, but only the interpreter may set it; remove it", internal.name, internal.value)
		}
	}
	switch {
	case sources != 1:
		return fmt.Errorf("flow: expected exactly one of text (a document), name (of a flow on the worker) and plan, got %d", sources)
	case !slices.Contains([]string{"", OnErrorWait, OnErrorFail}, in.OnError):
		return fmt.Errorf("on_error must be %s or %s, got %q", OnErrorWait, OnErrorFail, in.OnError)
	case in.MaxSteps < 0 || in.MaxEvents < 0:
		return fmt.Errorf("max_steps is %d and max_events is %d; neither may be negative", in.MaxSteps, in.MaxEvents)
	}
	return cmp.Or(in.Budget.check(), in.checkComponents(), in.Flow.checkFiles(), in.checkValues(), in.Fork.check(), CheckMedia(in.Media))
}

// SuppliesFlow is the element of [RunInput.Supplies] for a document, a plan or a fork.
const SuppliesFlow = "flow"

// Supplies lists what a run supplies in addition to a flow's name and input: flow, model, script, limits, state,
// connections.
func (in *RunInput) Supplies() []string {
	var out []string
	for _, b := range []struct {
		what string
		set  bool
	}{
		{SuppliesFlow, in.Flow.Text != "" || in.Flow.Plan != nil || in.Fork != nil || len(in.Components)+len(in.Flow.Components)+len(in.Flow.Files) > 0},
		{"model", in.Model != ""}, {"script", len(in.Script) > 0}, {"limits", in.MaxSteps > 0 || in.MaxEvents > 0},
		{"state", len(in.State) > 0}, {"connections", len(in.DataConnections) > 0},
	} {
		if b.set {
			out = append(out, b.what)
		}
	}
	return out
}

// checkValues rejects input values of the wrong type and conflicting ones.
func (in *RunInput) checkValues() error {
	if in.Input != "" && len(in.Value) > 0 {
		return fmt.Errorf("input and value are mutually exclusive; remove one of them")
	}
	if p := bytes.TrimLeft(in.Params, " \t\r\n"); len(p) > 0 && p[0] != '{' && string(p) != "null" {
		return fmt.Errorf("params must be an object with the flow's inputs, got %.40s", p)
	}
	if s := bytes.TrimLeft(in.Scope, " \t\r\n"); len(s) > 0 && s[0] != '{' && string(s) != "null" {
		return fmt.Errorf("scope must be an object with values of placeholders, got %.40s", s)
	}
	for i, m := range in.History {
		if !slices.Contains([]string{RoleUser, RoleAssistant, "system", RoleTool}, m.Role) {
			return fmt.Errorf("history[%d].role must be user, assistant, system or tool, got %q", i, m.Role)
		}
	}
	return nil
}

// checkComponents rejects components that no document can refer to.
func (in *RunInput) checkComponents() error {
	outside := len(in.Components)+len(in.ComponentIDs) > 0
	inside := len(in.Flow.Components)+len(in.Flow.ComponentIDs) > 0
	switch {
	case outside && inside:
		return fmt.Errorf("components are set both next to flow and in it; remove one of them")
	case (outside || inside) && in.Flow.Plan != nil:
		return fmt.Errorf("components cannot be used with a compiled plan; remove them")
	}
	return checkDocuments(slices.Concat(in.Components, in.Flow.Components), slices.Concat(in.ComponentIDs, in.Flow.ComponentIDs))
}

// checkFiles rejects files without a document, and invalid or duplicate paths.
func (f *FlowRef) checkFiles() error {
	switch {
	case len(f.Files) == 0:
		return nil
	case f.Plan != nil:
		return fmt.Errorf("flow.files cannot be used with a compiled plan; remove them")
	case f.Text == "":
		return fmt.Errorf("flow.files cannot be used with the worker's flow %q; remove them, or send the document as flow.text", f.Name)
	case f.Name == "":
		return fmt.Errorf("flow.files requires flow.name; set it to the document's path, such as agents/triage/agent.json")
	}
	seen := map[string]string{f.Name: "flow.name"}
	for i, d := range f.Files {
		at := fmt.Sprintf("flow.files[%d].name", i)
		switch {
		case d.Name == "":
			return fmt.Errorf("%s is empty; set it to the file's path", at)
		case d.Name != path.Clean(d.Name), path.IsAbs(d.Name), d.Name == ".", d.Name == "..", strings.HasPrefix(d.Name, "../"), strings.ContainsAny(d.Name, "\\\x00"):
			return fmt.Errorf("%s is %.200q; use a clean path with slashes, relative to the same folder as flow.name", at, d.Name)
		case seen[d.Name] != "":
			return fmt.Errorf("%s is %.200q, like %s; remove one of them", at, d.Name, seen[d.Name])
		}
		seen[d.Name] = at
	}
	return nil
}

// checkDocuments rejects duplicate names, and ids that refer to no document.
func checkDocuments(docs []Document, ids []ComponentID) error {
	names := map[string]bool{}
	for i, d := range docs {
		if d.Name == "" || d.Text == "" {
			return fmt.Errorf("components[%d] has no name or no text; set both", i)
		}
		if names[d.Name] {
			return fmt.Errorf("components[%d].name is %q again; use each name once", i, d.Name)
		}
		names[d.Name] = true
	}
	seen := map[string]bool{}
	for i, c := range ids {
		switch {
		case c.ID == "" || c.Key == "":
			return fmt.Errorf("component_ids[%d] has no id or no key; set both", i)
		case seen[c.ID]:
			return fmt.Errorf("component_ids[%d].id is %q again; use each id once", i, c.ID)
		case !names[c.Name]:
			return fmt.Errorf("component_ids[%d].name is %q, which components does not contain", i, c.Name)
		}
		seen[c.ID] = true
	}
	return nil
}

// versioned is the part of a plan that all builds can read.
type versioned struct {
	Version int `json:"version"`
}

// LaterPlan returns the failure for a plan with a later version than this build's, or nil.
func LaterPlan(version int) error {
	if version <= plan.Version {
		return nil
	}
	return &Failure{Class: ClassPlanVersion, Text: fmt.Sprintf("the plan's version is %d, but this build supports at most %d", version, plan.Version),
		Remedy: "run workers of the build that compiled the plan, or compile it with a starter of the workers' build"}
}

// checkLaterInput rejects an input made by a later build, using only the fields that all builds can read: the others may have
// any form, and errors about them would be less helpful.
func checkLaterInput(raw json.RawMessage) error {
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
		return nil // ReadInput reports the error
	}
	if head.V != nil && *head.V != Version {
		return WrongVersion(*head.V)
	}
	return LaterPlan(max(head.Flow.Plan.Version, head.Snapshot.Plan.Version))
}

// WrongVersion returns the failure for an unsupported version of the contract.
func WrongVersion(v int) *Failure {
	return &Failure{Class: ClassBadRequest, Text: fmt.Sprintf("the input's v is %d", v),
		Remedy: fmt.Sprintf("this build supports v %d", Version)}
}

// ReadBranchInput decodes the input of a run of type Branch. A plan of a later version is a [ClassPlanVersion] failure.
func ReadBranchInput(raw json.RawMessage) (*BranchInput, error) {
	return readLeniently[BranchInput](raw, "the branch's input", "start a run of type "+WorkflowFlow)
}

// ReadCompiledFlow decodes the result of the activity CompileFlow. A plan of a later version is a [ClassPlanVersion] failure.
func ReadCompiledFlow(raw json.RawMessage) (*CompileFlowResult, error) {
	return readLeniently[CompileFlowResult](raw, "the compiled flow", "run workers of the same build on one task queue")
}

// readLeniently leniently decodes a value that contains a plan and may come from a later build's worker.
func readLeniently[T any](raw json.RawMessage, what, remedy string) (*T, error) {
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
