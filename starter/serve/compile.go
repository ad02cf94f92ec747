package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/specadapter"
	"weft/specadapter/blueprint"
	"weft/specadapter/source"
	"weft/starter/input"
	"weft/worker/config"
	"weft/worker/flows"
)

// sessionFields are the fields of a start in the blueprint dialect's framework, with model and script.
var sessionFields = []string{"type", "session_id", "agent_name", "parameters", "project_dir", "parent_session_id", "execution_mode",
	"additional_demands", "scope", "id", "model", "script", "images"}

const resumeSession = "resume_session"

type unheeded struct {
	key  string
	kind source.Kind
	why  string
}

// withoutEffect are fields that are accepted only if they are empty.
var withoutEffect = []unheeded{
	{"project_dir", source.String, "runs have no working directory"},
	{"parent_session_id", source.String, "a run cannot be started for another session"},
	{"additional_demands", source.Object, "any worker may execute a run"},
}

// noEffect adds problems for fields that have no effect and are not empty.
func (o *object) noEffect(fields []unheeded) {
	for _, f := range fields {
		if v := o.get(f.key, f.kind); v != nil && (v.Text != "" || len(v.Members) > 0) {
			o.addProblem(v.Pos, "%s has no effect here: %s; remove it", f.key, f.why)
		}
	}
}

func (o *object) mode() {
	switch mode := o.text("execution_mode"); mode {
	case "", contract.ModeSync, contract.ModePoll:
	case contract.ModeCallback:
		o.addProblem(o.place("execution_mode"), "execution_mode is %q, but callbacks are not supported; use async_poll and poll the run", mode)
	default:
		o.addProblem(o.place("execution_mode"), "execution_mode is %s, expected sync or async_poll", source.Quote(mode))
	}
}

// noAgent is the document of a session without an agent; errors use noAgentName for it.
const (
	noAgent     = `{"name": "session", "description": "A session without an agent."}`
	noAgentName = "(no agent)"
)

func (srv *Server) sessionStart(ctx context.Context, o *object, s *Start) error {
	in, err := o.session()
	if err != nil {
		return err
	}
	doc := &specadapter.Folder{Name: "session.json", Text: []byte(noAgent)}
	called := noAgentName
	if name := o.text("agent_name"); name != "" {
		called = name
		entry, err := srv.agent(name)
		if err != nil {
			return err
		}
		if doc = entry.folder; doc.Text == nil {
			return invalidDocument(InvalidFlow, "make the agent's files readable", entry.diags)
		}
	}
	if err := srv.mayStart(ctx, o.text("agent_name")); err != nil {
		return err
	}
	if err := srv.plan(in, doc, srv.Reading(blueprint.Name, srv.Settings.Profile)); err != nil {
		return err
	}
	s.Input = in
	in.Session = in.Flow.Plan.SingleAgent() != nil
	return srv.accept(ctx, s, contract.FlowRef{Name: o.text("agent_name"), Dialect: blueprint.Name, Profile: srv.Settings.Profile}, runPrefix+srv.NewID(in.Flow.Plan.Name), called)
}

func (o *object) parameters() *source.Value {
	v := o.get("parameters", source.Object)
	if given := o.Get("parameters"); given == nil || given.Kind == source.Null {
		o.addProblem(o.place("parameters"), `the body has no parameters; set "parameters": {"prompt": "..."}`)
	}
	return v
}

func (o *object) media() []contract.Media {
	v := o.get("images", source.Array)
	if v == nil {
		return nil
	}
	var in struct {
		Media []contract.Media `json:"images"`
	}
	plain := &object{Value: &source.Value{Kind: source.Object, Pos: o.Pos, Members: []source.Member{{Key: "images", Value: v}}}}
	plain.decode(&in)
	if o.problems = append(o.problems, plain.problems...); len(plain.problems) > 0 {
		return nil
	}
	if err := contract.CheckMedia(in.Media); err != nil {
		o.addProblem(v.Pos, "%v", err)
	}
	return in.Media
}

func (o *object) session() (*contract.RunInput, error) {
	o.checkFields(sessionFields...)
	if kind := o.text("type"); kind != "start_session" && len(o.problems) == 0 {
		o.addProblem(o.place("type"), `type is %s, expected "start_session" or "resume_session"; for a flow set "flow"`, source.Quote(kind))
	}
	o.mode()
	o.noEffect(withoutEffect)
	params := o.parameters()
	in := &contract.RunInput{V: contract.Version, Media: o.media()}
	o.modelAndScript(in)
	o.text("agent_name")
	o.get("scope", source.Object)
	if err := o.problem(); err != nil {
		return nil, err
	}
	in.Params = params.JSON()
	if scope := o.get("scope", source.Object); scope != nil {
		in.Scope = scope.JSON()
	}
	return in, nil
}

var flowFields = []string{"flow", "input", "images", "params", "scope", "value", "components", "component_ids", "state", "history", "model", "script",
	"data_connections", "max_steps", "budget", "max_events", "on_error", "session", "v", "id"}

// flowStart reads a start of a flow in any dialect, by document or by name.
func (srv *Server) flowStart(ctx context.Context, o *object, s *Start) error {
	o.checkFields(flowFields...)
	if ref := o.get("flow", source.Object); ref != nil {
		inner := &object{Value: ref}
		inner.checkFields("text", "name", "dialect", "profile", "files")
		o.problems = append(o.problems, inner.problems...)
	}
	// Unlike in the contract, a script may be text.
	in := &contract.RunInput{V: contract.Version}
	plain := &object{Value: without(o.Value, "script", "id")}
	plain.decode(in)
	o.problems = append(o.problems, plain.problems...)
	o.modelAndScript(in)
	o.get("params", source.Object)
	if err := o.problem(); err != nil {
		return err
	}
	doc, err := srv.document(in.Flow)
	if err != nil {
		return err
	}
	reading := srv.Reading(in.Flow.Dialect, in.Flow.Profile)
	for _, c := range in.Components {
		reading.Components = append(reading.Components, source.Component(c))
	}
	for _, c := range in.ComponentIDs {
		reading.ComponentIDs = append(reading.ComponentIDs, source.ComponentID(c))
	}
	files, named := in.Flow.Files, contract.FlowRef{Dialect: in.Flow.Dialect, Profile: in.Flow.Profile}
	if in.Flow.Text == "" && len(in.Components)+len(in.ComponentIDs) == 0 {
		named.Name = in.Flow.Name
	}
	if err := srv.mayStart(ctx, named.Name); err != nil {
		return err
	}
	if err := srv.plan(in, doc, reading); err != nil {
		return err
	}
	if dialect := in.Flow.Plan.Dialect; len(files) > 0 && !specadapter.TraitsOf(dialect).Files {
		return NewProblem(InvalidBody, "remove flow.files, or set another dialect in flow.dialect", "the dialect %s does not support additional files, but flow.files has %q", dialect, files[0].Name)
	}
	in.Components, in.ComponentIDs = nil, nil
	s.Input = in
	return srv.accept(ctx, s, named, srv.NewID(in.Flow.Plan.Name), in.Flow.Plan.Name)
}

func without(v *source.Value, keys ...string) *source.Value {
	out := *v
	out.Members = nil
	for _, m := range v.Members {
		if !slices.Contains(keys, m.Key) {
			out.Members = append(out.Members, m)
		}
	}
	return &out
}

// modelAndScript reads the model and the script, which is an object or text.
func (o *object) modelAndScript(in *contract.RunInput) {
	at := o.place("model")
	var script []byte
	if v := o.Get("script"); v != nil && v.Kind != source.Null {
		name, text := "script.json", v.JSON()
		if v.Kind == source.String {
			name, text = "script", []byte(v.Text)
		}
		var err error
		if script, err = llm.ParseScript(name, text); err != nil {
			o.addProblem(v.Pos, "the script: %s", contract.FailureOf(err).Text)
		}
	}
	model, err := input.Model(o.text("model"), script != nil)
	if err != nil {
		o.addProblem(at, "%v", err)
	}
	in.Model, in.Script = model, script
}

func (srv *Server) document(ref contract.FlowRef) (*specadapter.Folder, error) {
	switch {
	case ref.Text == "" && ref.Name == "":
		return nil, NewProblem(InvalidBody, `use "flow": {"text": DOCUMENT} or "flow": {"name": NAME}`, "the flow has neither text nor name")
	case ref.Text == "" && len(ref.Files) > 0:
		return nil, NewProblem(InvalidBody, "send the document as flow.text, or remove flow.files", "flow.files require flow.text, but flow.name is set")
	case ref.Text == "":
		return srv.named(ref.Name)
	case ref.Name == "":
		return &specadapter.Folder{Name: "document", Text: []byte(ref.Text)}, nil
	}
	folder := &specadapter.Folder{Name: ref.Name, Text: []byte(ref.Text)}
	for _, f := range ref.Files {
		folder.Files = append(folder.Files, source.File(f))
	}
	return folder, nil
}

func (srv *Server) named(name string) (*specadapter.Folder, error) {
	folder, err := flows.Named(srv.Flows, name)
	if f := contract.FailureOf(err); f != nil {
		if f.Class == contract.ClassInvalidFlow {
			return nil, NewProblem(UnknownFlow, f.Remedy, "%s", f.Text)
		}
		return nil, fmt.Errorf("read the flow %q: %w", name, err)
	}
	return folder, nil
}

func (srv *Server) plan(in *contract.RunInput, doc *specadapter.Folder, reading specadapter.Options) error {
	reading.Starting = true
	res, diags := doc.Load(reading)
	if known := unresolved(diags); res == nil && known != nil {
		return known
	}
	if res == nil {
		return invalidDocument(InvalidFlow, "fix the document", diags)
	}
	in.Flow = contract.FlowRef{Plan: res.Flow, Source: &res.Source}
	return nil
}

func invalidDocument(kind Kind, remedy string, diags []source.Diagnostic) *Problem {
	var lines []string
	for _, g := range diags {
		if g.Severity == source.Error {
			lines = append(lines, oneLine(g.String()))
		}
	}
	p := NewProblem(kind, remedy, "the document has %d error(s), the first: %s", len(lines), lines[0])
	p.Diagnostics = lines
	return p
}

// mayStart returns an error if the caller may not start the flow, or if the server does not accept it. name is the name of a
// flow of the folder, "" if the client supplied the flow.
func (srv *Server) mayStart(ctx context.Context, name string) error {
	if err := mayStart(callerIn(ctx), name); err != nil || name != "" || srv.Flows.Accept != config.AcceptNamed {
		return err
	}
	return NewProblem(Forbidden, "start a flow by name, without components; to allow documents, set in weft.yaml: flows: {accept: any}", "only flows of flows.dir can be started (flows.accept: named)")
}

// accept validates the input of the run, and sets its id unless it has one. Errors refer to the flow as called. named is the
// flow of the folder; it has no name if the client supplied the flow or components.
func (srv *Server) accept(ctx context.Context, s *Start, named contract.FlowRef, id, called string) error {
	s.ID, s.Input.OnError = cmp.Or(s.ID, id), cmp.Or(s.Input.OnError, srv.OnError)
	if caller := callerIn(ctx); caller != nil {
		who := principal(caller)
		s.Input.Principal = &who
	}
	if srv.Flows.Accept == config.AcceptNamed {
		s.Named = named
	}
	if err := checkInputs(ctx, s, called); err != nil {
		return err
	}
	return fits(s.Input)
}

// fits returns an error for input that the run would reject, or that is too large to be sent.
func fits(in *contract.RunInput) error {
	for i := range in.DataConnections {
		if _, err := in.DataConnections[i].Connection(); err != nil {
			return NewProblem(InvalidBody, "fix it", "%v", err)
		}
	}
	raw, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode the run's input: %w", err)
	}
	_, err = contract.ReadInput(raw)
	if invalid, ok := errors.AsType[*contract.Failure](err); ok {
		return NewProblem(InvalidBody, "fix it", "%s", strings.TrimPrefix(invalid.Text, "the run's input: "))
	}
	return nil
}
