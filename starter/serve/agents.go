package serve

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path"
	"regexp"
	"slices"

	"weft/specadapter"
	"weft/specadapter/blueprint"
	"weft/specadapter/source"
	"weft/workflows/plan"
)

const agentsDir = "agents"

// The files of an agent's folder other than its document.
const (
	promptFile   = "agent.system-prompt.md"
	serversFile  = "agent.mcp.json"
	disabledFile = ".disabled"
)

// agentName matches the names that the API of the blueprint dialect's framework accepts.
var agentName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_-]{0,59}$`)

// folderName matches the names of agents' folders; other folders are not agents.
var folderName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,99}$`)

type agent struct {
	name   string
	folder *specadapter.Folder
	// root is the document, or an empty object if it cannot be parsed.
	root  *source.Value
	diags []source.Diagnostic
	// runs reports whether a run can be started; if so, inputs are its declared inputs.
	runs   bool
	inputs *plan.Inputs
}

// openRoot opens the folder of flows. Neither names nor links can escape it.
func (srv *Server) openRoot() (*os.Root, error) {
	if srv.Flows.Dir == "" {
		return nil, NewProblem(UnknownAgent, "set in weft.yaml: flows: {dir: /PATH/TO/FLOWS}; or start it with -agents", "no folder of agents is configured")
	}
	return os.OpenRoot(srv.Flows.Dir)
}

func (srv *Server) agent(name string) (*agent, error) {
	root, err := srv.openRoot()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return srv.agentIn(root, name)
}

func (srv *Server) agentIn(root *os.Root, name string) (*agent, error) {
	if !folderName.MatchString(name) {
		return nil, srv.noSuchAgent(root, name)
	}
	main := path.Join(agentsDir, name, specadapter.FolderMain)
	// A link that leaves the folder is not an agent, either.
	if _, err := root.Stat(main); err != nil && !errors.Is(err, fs.ErrPermission) {
		return nil, srv.noSuchAgent(root, name)
	}
	folder, err := specadapter.ReadFolder(root.FS(), main)
	if err != nil {
		return &agent{name: name, root: &source.Value{Kind: source.Object}, folder: &specadapter.Folder{Name: main},
			diags: []source.Diagnostic{{File: main, Code: "unreadable", Text: err.Error()}}}, nil
	}
	return compiled(name, folder, srv.Reading(blueprint.Name, srv.Settings.Profile)), nil
}

func compiled(name string, folder *specadapter.Folder, reading specadapter.Options) *agent {
	a := &agent{name: name, folder: folder, root: &source.Value{Kind: source.Object}}
	res, diags := folder.Load(reading)
	if a.runs, a.diags = res != nil, diags; a.runs {
		a.inputs = res.Flow.Inputs
	}
	if doc, _ := source.Parse(folder.Name, folder.Text); doc != nil && doc.Root.Kind == source.Object {
		a.root = doc.Root
	}
	return a
}

func (srv *Server) noSuchAgent(root *os.Root, name string) error {
	names, err := agentNames(root)
	if err != nil {
		return err
	}
	remedy := "list agents with GET /agents"
	if near := source.NewSuggester(names).Nearest(name); near != "" {
		remedy = "did you mean " + source.Quote(near) + "?"
	}
	return NewProblem(UnknownAgent, remedy, "agent %s not found", source.Quote(name))
}

func agentNames(root *os.Root) ([]string, error) {
	list, err := fs.ReadDir(root.FS(), agentsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range list {
		if !folderName.MatchString(e.Name()) {
			continue
		}
		if _, err := root.Stat(path.Join(agentsDir, e.Name(), specadapter.FolderMain)); err == nil {
			out = append(out, e.Name())
		}
	}
	slices.Sort(out)
	return out, nil
}

// AgentView is the representation of an agent for clients.
type AgentView struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Type is autonomous or procedural.
	Type             string          `json:"type"`
	ParametersSchema json.RawMessage `json:"parameters_schema"`
	OutputSchema     json.RawMessage `json:"output_schema"`
	// InputMode is merged or authoritative, if the document sets it.
	InputMode    string          `json:"input_mode,omitempty"`
	SystemPrompt *string         `json:"system_prompt"`
	MCPServers   json.RawMessage `json:"mcp_servers"`
	Skills       json.RawMessage `json:"skills"`
	Tags         json.RawMessage `json:"tags"`
	Capabilities json.RawMessage `json:"capabilities"`
	Demands      json.RawMessage `json:"demands"`
	Hooks        json.RawMessage `json:"hooks"`
	// Status is active, inactive (the folder contains .disabled), or invalid (no run can be started).
	Status string `json:"status"`
	// Diagnostics are the errors, warnings and notes about the document.
	Diagnostics []string `json:"diagnostics"`
}

func (a *agent) view() *AgentView {
	o := &object{Value: a.root} // problems are already among the diagnostics
	raw := func(key string, kind source.Kind, without string) json.RawMessage {
		if v := o.get(key, kind); v != nil {
			return v.JSON()
		}
		return json.RawMessage(without)
	}
	v := &AgentView{Name: a.name, Description: o.text("description"), Type: cmp.Or(o.text("type"), "autonomous"), InputMode: o.text("input_mode"),
		ParametersSchema: raw("parameters_schema", source.Object, "null"), OutputSchema: raw("output_schema", source.Object, "null"),
		MCPServers: raw("mcp_servers", source.Object, "null"), Skills: raw("skills", source.Array, "[]"), Tags: raw("tags", source.Array, "[]"),
		Capabilities: raw("capabilities", source.Array, "[]"), Demands: raw("demands", source.Object, "null"), Hooks: raw("hooks", source.Object, "null"),
		Status: "active", Diagnostics: []string{}}
	if p := o.get("system_prompt", source.String); p != nil {
		v.SystemPrompt = &p.Text
	}
	if !a.runs {
		v.Status = "invalid"
	}
	if a.inputs != nil && len(a.inputs.Schema) > 0 {
		v.ParametersSchema = a.inputs.Schema // a program's own schema takes precedence over the agent's
	}
	a.files(v)
	for _, g := range a.diags {
		v.Diagnostics = append(v.Diagnostics, oneLine(g.String()))
	}
	return v
}

func (a *agent) files(v *AgentView) {
	for _, f := range a.folder.Files {
		switch f.Name {
		case a.beside(promptFile):
			v.SystemPrompt = &f.Text
		case a.beside(serversFile):
			if doc, _ := source.Parse(f.Name, []byte(f.Text)); doc != nil {
				if servers := doc.Root.Get("mcpServers"); servers != nil {
					v.MCPServers = servers.JSON()
				}
			}
		case a.beside(disabledFile):
			v.Status = "inactive"
		}
	}
}

func (a *agent) beside(file string) string { return path.Join(path.Dir(a.folder.Name), file) }

// View returns the representation of an agent in a folder.
func View(name string, folder *specadapter.Folder, reading specadapter.Options) *AgentView {
	return compiled(name, folder, reading).view()
}

type agentPage struct {
	Agents []*AgentView `json:"agents"`
	Next   string       `json:"next_page_token,omitempty"`
}

func (srv *Server) listAgents(w http.ResponseWriter, r *http.Request) (any, error) {
	if srv.Flows.Dir == "" {
		return agentPage{Agents: []*AgentView{}}, nil
	}
	root, err := srv.openRoot()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	names, err := agentNames(root)
	if err != nil {
		return nil, err
	}
	names, next, err := page(r, names)
	if err != nil {
		return nil, err
	}
	out := agentPage{Agents: []*AgentView{}, Next: next}
	for _, name := range names {
		a, err := srv.agentIn(root, name)
		if _, known := errors.AsType[*Problem](err); known {
			continue // it has been removed in the meantime
		}
		if err != nil {
			return nil, err
		}
		out.Agents = append(out.Agents, a.view())
	}
	return out, nil
}

func (srv *Server) getAgent(w http.ResponseWriter, r *http.Request) (any, error) {
	a, err := srv.agent(r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	return a.view(), nil
}
