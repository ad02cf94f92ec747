// Package agentspec compiles Open Agent Spec to plans.
//
// Package model parses and validates a document; this package compiles its main component, a Flow or an
// Agent, to a plan. Unsupported components are errors; differences in behaviour are warnings.
//
// Start at [Adapter.Adapt].
package agentspec

import (
	"strings"

	"weft/specadapter/agentspec/catalog"
	"weft/specadapter/agentspec/model"
	"weft/specadapter/shape"
	"weft/specadapter/source"
	"weft/workflows/plan"
)

// Name is the dialect's name.
const Name = "agentspec"

// Adapter compiles documents to plans.
type Adapter struct{}

// Name returns "agentspec".
func (Adapter) Name() string { return Name }

// Profiles returns default and strict.
func (Adapter) Profiles() []string { return []string{model.ProfileDefault, model.ProfileStrict} }

// Traits returns the dialect's traits: runs have named inputs, and documents refer to components in others.
func (Adapter) Traits() source.Traits { return source.Traits{Inputs: true, Components: true} }

// Schema returns the JSON Schema of a component and the components in it.
func (Adapter) Schema() shape.Schema { return catalog.Schema() }

// Detect reports whether the document has a top-level member of a component, or is in WayFlow's format.
func (Adapter) Detect(doc *source.Document) (bool, string) {
	return doc.Root.FirstOf("component_type", "agentspec_version", "air_version", "$referenced_components") != "" || model.IsWayFlow(doc.Root),
		`an object with "component_type", "agentspec_version" or "$referenced_components"`
}

// Adapt compiles the main component, a Flow or an Agent, to a plan.
func (Adapter) Adapt(doc *source.Document, profile string, host source.Host) (*plan.Flow, plan.Source, []source.Diagnostic) {
	o := model.Options{Profile: profile, Plugins: catalog.WayFlow, Named: map[string]string{}, InlineSecrets: host.PassSecret != nil}
	for _, c := range host.Components {
		o.Components = append(o.Components, model.File{Name: c.Name, Text: []byte(c.Text)})
	}
	for _, id := range host.ComponentIDs {
		o.Named[id.ID] = id.Name + "#" + id.Key
	}
	src := plan.Source{File: doc.Name}
	d, ok, diags := model.Read(doc, o)
	b := &builder{file: doc.Name, host: host, checked: map[*model.Component]bool{}, agentIDs: map[*model.Component]string{},
		connected: map[*model.Component]string{}, ids: map[string]bool{}, flowRunInputs: map[string][]*model.Property{}, storeFlows: map[string]bool{}}
	if !ok {
		for _, c := range d.Components {
			b.checkPart(c)
		}
		return nil, src, append(diags, b.Diags...)
	}
	if d.Root.Type.Runs() && !d.Root.Type.Satisfies("AgenticComponent") {
		b.Errorf(d.Root.At, CodeNotYet, "use a Flow or an Agent", "%s is neither a Flow nor an Agent and cannot be run", d.Root)
	}
	b.checkSupported(d.Root)
	if !d.Root.Type.Satisfies("AgenticComponent") {
		return nil, src, append(diags, b.Diags...)
	}
	flow := b.root(d.Root)
	b.passSecrets(d.Secrets)
	src.Positions = b.positions
	if b.Errors > 0 {
		flow = nil
	}
	return flow, src, append(diags, b.Diags...)
}

// Codes of the diagnostics that this package reports; package model has others.
const (
	// CodeNotYet is an error: the component is validated but cannot be run.
	CodeNotYet = "not-yet"
	// CodeNoEffect is a warning: the field has no effect on a run.
	CodeNoEffect = "no-effect"
	// CodeModelURL is a warning: the URL of a model comes from the worker's settings.
	CodeModelURL = "model-url"
	// CodeUnknownTool is a warning: a ServerTool or BuiltinTool that the host does not have.
	CodeUnknownTool = "unknown-tool"
	// CodeOAuth is a warning: a server requires a login, and the host has no connection of its name.
	CodeOAuth = "oauth"
	// CodeDatastore is a warning: the host has no connection to the datastore.
	CodeDatastore = "datastore"
	// CodeTooManyNodes is an error: the repetition of subflows makes the plan too large.
	CodeTooManyNodes = "too-many-nodes"
)

// checkSupported reports a component, or components in it, that cannot run, each once.
func (b *builder) checkSupported(c *model.Component) {
	if b.checked[c] || c.Type.Unknown {
		return
	}
	b.checked[c] = true
	if c.Type.Unsupported != "" {
		b.Errorf(c.At, CodeNotYet, c.Type.Unsupported, "%s cannot be run", c)
		return
	}
	if !c.Type.Runs() {
		b.Errorf(c.At, CodeNotYet, "see the README's table for what runs", "%s cannot be run yet", c)
		return
	}
	if l := c.JSON("context_providers"); c.Type.Acts() == "Flow" && len(l.Items) > 0 {
		b.Errorf(c.FieldPos("context_providers"), CodeNotYet, "produce the value in a node of the flow", "context_providers of %s are not supported yet", c)
	}
	if c.Type.Like != "" {
		b.checkExtension(c)
	}
	for _, spec := range c.Type.Fields {
		f := c.Field(spec.Name)
		switch {
		case f == nil:
		case spec.Name == "datastore":
			b.datastore(c, f)
		default:
			for _, part := range f.Components {
				b.checkSupported(part)
			}
		}
	}
}

// checkPart reports why a component cannot run. It is for documents with errors, which are not compiled.
func (b *builder) checkPart(c *model.Component) {
	if !c.Intact() {
		return
	}
	b.checkSupported(c)
	switch {
	case !c.Type.Runs():
	case c.Type.Satisfies("LlmConfig"):
		b.model(c, &plan.Agent{})
	case c.Type.Satisfies("ClientTransport"):
		b.connect(c, b.server)
	case c.Type.ActsAs("ApiNode"):
		b.connect(c, b.request)
	case c.Type.Satisfies("Tool") && !c.Type.Satisfies("ToolBox"):
		b.tool(c, map[string]bool{})
	}
}

// checkExtension warns of fields without effect that a plugin's component adds to the type that it extends.
func (b *builder) checkExtension(c *model.Component) {
	for _, name := range []string{"rephrase", "can_finish_conversation", "raise_exceptions"} {
		if c.Type.Field(name) != nil && c.Flag(name) {
			b.Warnf(c.FieldPos(name), CodeNoEffect, "remove it", "%s of %s has no effect", name, c)
		}
	}
	if c.Type.Field("initial_message") != nil && c.Text("initial_message") != "" {
		b.Warnf(c.FieldPos("initial_message"), CodeNoEffect, "remove it; a run starts with its input", "initial_message of %s has no effect", c)
	}
}

// passSecrets passes the secrets in the document to [source.Host], and reports those that cannot be passed.
func (b *builder) passSecrets(secrets []model.Secret) {
	if b.host.PassSecret == nil {
		return
	}
	taken := map[string]string{}
	for i := range secrets {
		s := &secrets[i]
		if s.Inline == "" {
			continue
		}
		l := source.InlineSecret{Ref: s.Ref, Value: s.Inline}
		l.Provider, l.Setting = s.Place()
		where := "the secret " + source.Quote(s.Ref)
		switch {
		case l.Setting == source.SettingKey:
			where = "the key of the provider " + l.Provider
		case l.Setting == source.SettingAuthFile:
			l.File, where = true, "the file of keys of the provider "+l.Provider
		case l.Provider != "":
			b.Errorf(s.At, source.CodeSecretInline, s.Setting(), "%s of %s cannot be passed to a worker", s.Field, s.Component)
			continue
		default:
			l.File = strings.HasSuffix(s.Field, "_file")
			if h := s.Host(); h != "" {
				l.Hosts = []string{h}
			}
		}
		before, seen := taken[where]
		if seen && before != s.Inline {
			b.Errorf(s.At, source.CodeSecretInline, s.Advice(), "%s is defined twice with different values", where)
			continue
		}
		taken[where] = s.Inline
		if !seen {
			b.host.PassSecret(l)
		}
	}
}
