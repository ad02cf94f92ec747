package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"testing/fstest"

	"weft/specadapter"
	"weft/specadapter/blueprint"
	"weft/specadapter/source"
)

// documentFields are the fields of an agent's document, in the order in which they
// are written; besideFields are stored in separate files.
var (
	documentFields = []string{"name", "description", "type", "parameters_schema", "output_schema", "skills", "tags", "capabilities",
		"demands", "hooks", "input_mode"}
	besideFields = []string{"system_prompt", "mcp_servers"}
	programs     = []string{"script", "command", "runner_id"}
)

type draft struct {
	name  string
	files fstest.MapFS
}

func (srv *Server) createAgent(w http.ResponseWriter, r *http.Request, root *os.Root) (any, error) {
	a, err := srv.draft(w, r, "")
	if err != nil {
		return nil, err
	}
	saved, err := srv.check(root, a)
	if err != nil {
		return nil, err
	}
	if err := a.create(root); err != nil {
		return nil, err
	}
	w.Header().Set("Location", "/agents/"+url.PathEscape(a.name))
	return reply(w, http.StatusCreated, saved.view())
}

func (srv *Server) replaceAgent(w http.ResponseWriter, r *http.Request, root *os.Root) (any, error) {
	name := r.PathValue("name")
	if _, err := srv.agentIn(root, name); err != nil {
		return nil, err
	}
	a, err := srv.draft(w, r, name)
	if err != nil {
		return nil, err
	}
	if _, err := srv.check(root, a); err != nil {
		return nil, err
	}
	if err := a.replace(root); err != nil {
		return nil, err
	}
	saved, err := srv.agentIn(root, name)
	if err != nil {
		return nil, err
	}
	return saved.view(), nil
}

// deleteAgent removes an agent's folder. Open runs have their plan and continue.
func (srv *Server) deleteAgent(w http.ResponseWriter, r *http.Request, root *os.Root) (any, error) {
	name := r.PathValue("name")
	if _, err := srv.agentIn(root, name); err != nil {
		return nil, err
	}
	// While it is being removed, it is not an agent: its name begins with a dot.
	aside := path.Join(agentsDir, "."+randomName())
	if err := root.Rename(path.Join(agentsDir, name), aside); err != nil {
		return nil, err
	}
	if err := root.RemoveAll(aside); err != nil {
		return nil, err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil, nil
}

// edit returns a handler that changes the folder, if the operator allows changes.
func edit(change func(srv *Server, w http.ResponseWriter, r *http.Request, root *os.Root) (any, error)) handler {
	return func(srv *Server, w http.ResponseWriter, r *http.Request) (any, error) {
		if !srv.Settings.EditAgents {
			return nil, NewProblem(Forbidden, "to allow it, set in weft.yaml: serve: {edit_agents: true}", "changing agents over HTTP is disabled")
		}
		root, err := srv.openRoot()
		if err != nil {
			return nil, err
		}
		defer root.Close()
		return change(srv, w, r, root)
	}
}

func (srv *Server) draft(w http.ResponseWriter, r *http.Request, called string) (*draft, error) {
	o, err := srv.read(w, r)
	if err != nil {
		return nil, err
	}
	if err := o.noProgram(); err != nil {
		return nil, err
	}
	o.checkFields(slices.Concat(documentFields, besideFields, programs)...)
	name := o.text("name")
	switch {
	case name == "" && called != "":
		name = called
	case called != "" && name != called:
		o.addProblem(o.place("name"), "the name is %s, but the URL has %s", source.Quote(name), source.Quote(called))
	case !agentName.MatchString(name):
		o.addProblem(o.place("name"), "the name is %s, expected letters, digits, _ and -, at most 60, a letter or digit first", source.Quote(name))
	}
	prompt, servers := o.get("system_prompt", source.String), o.get("mcp_servers", source.Object)
	if err := o.problem(); err != nil {
		return nil, err
	}
	file := func(data []byte) *fstest.MapFile { return &fstest.MapFile{Data: data, Mode: 0o444} }
	a := &draft{name: name, files: fstest.MapFS{specadapter.FolderMain: file(document(o, name))}}
	if prompt != nil && prompt.Text != "" {
		a.files[promptFile] = file([]byte(prompt.Text))
	}
	if servers != nil && len(servers.Members) > 0 {
		a.files[serversFile] = file(pretty(&source.Value{Kind: source.Object, Members: []source.Member{{Key: "mcpServers", Value: servers}}}))
	}
	return a, nil
}

// noProgram rejects agents that run programs: clients must not be able to define commands.
func (o *object) noProgram() error {
	for _, key := range programs {
		if v := o.Get(key); v != nil && v.Kind != source.Null {
			return NewProblem(Forbidden, "create an autonomous agent", "the field %s defines a procedural agent, which cannot be created over HTTP", key)
		}
	}
	if o.text("type") == "procedural" {
		return NewProblem(Forbidden, "create an autonomous agent", "the agent is procedural; procedural agents cannot be created over HTTP")
	}
	return nil
}

func document(o *object, name string) []byte {
	out := &source.Value{Kind: source.Object}
	for _, key := range documentFields {
		v := o.Get(key)
		if key == "name" {
			v = &source.Value{Kind: source.String, Text: name}
		}
		if v != nil && v.Kind != source.Null {
			out.Members = append(out.Members, source.Member{Key: key, Value: v})
		}
	}
	return pretty(out)
}

func pretty(v *source.Value) []byte {
	var b bytes.Buffer
	_ = json.Indent(&b, v.JSON(), "", "  ") // it is JSON
	b.WriteByte('\n')
	return b.Bytes()
}

// check compiles a draft with the registries of the folder.
func (srv *Server) check(root *os.Root, a *draft) (*agent, error) {
	main := path.Join(agentsDir, a.name, specadapter.FolderMain)
	folder, err := specadapter.ReadFolder(overlay{root.FS(), path.Dir(main), a.files}, main)
	if err != nil {
		return nil, NewProblem(InvalidAgent, "fix the agent", "%v", err)
	}
	out := compiled(a.name, folder, srv.Reading(blueprint.Name, srv.Settings.Profile))
	if !out.runs {
		return nil, invalidDocument(InvalidAgent, "fix the agent; nothing was saved", out.diags)
	}
	return out, nil
}

// create creates the agent's folder atomically. It returns an error if the name is in use.
func (a *draft) create(root *os.Root) error {
	if err := root.MkdirAll(agentsDir, 0o755); err != nil {
		return err
	}
	if _, err := root.Lstat(path.Join(agentsDir, a.name)); err == nil {
		return a.taken(root)
	}
	making := path.Join(agentsDir, "."+randomName())
	if err := root.Mkdir(making, 0o755); err != nil {
		return err
	}
	err := a.write(root, making)
	if err == nil {
		err = root.Rename(making, path.Join(agentsDir, a.name))
	}
	if err != nil {
		err = errors.Join(err, root.RemoveAll(making))
		if errors.Is(err, fs.ErrExist) {
			return a.taken(root)
		}
	}
	return err
}

func (a *draft) taken(root *os.Root) error {
	dir := path.Join(agentsDir, a.name)
	if _, err := root.Stat(path.Join(dir, specadapter.FolderMain)); errors.Is(err, fs.ErrNotExist) {
		return NewProblem(AgentExists, "remove it, or use another name", "the folder %s exists, but has no %s", dir, specadapter.FolderMain)
	}
	return NewProblem(AgentExists, "change it with PUT, or use another name", "agent %s already exists", source.Quote(a.name))
}

func (a *draft) replace(root *os.Root) error {
	dir := path.Join(agentsDir, a.name)
	for _, name := range []string{promptFile, serversFile} {
		if a.files[name] == nil {
			if err := root.Remove(path.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return a.write(root, dir)
}

func (a *draft) write(root *os.Root, dir string) error {
	for _, name := range []string{promptFile, serversFile, specadapter.FolderMain} {
		file := a.files[name]
		if file == nil {
			continue
		}
		making := path.Join(dir, "."+randomName())
		if err := root.WriteFile(making, file.Data, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if err := root.Rename(making, path.Join(dir, name)); err != nil {
			return errors.Join(err, root.Remove(making))
		}
	}
	return nil
}

// overlay is a file system in which the folder dir contains only files.
type overlay struct {
	fs.FS
	dir   string
	files fstest.MapFS
}

func (o overlay) Open(name string) (fs.File, error) {
	if path.Dir(name) != o.dir {
		return o.FS.Open(name)
	}
	return o.files.Open(path.Base(name))
}
