package catalog

import (
	"cmp"
	"maps"
	"strconv"

	"weft/specadapter/shape"
)

// Schema returns the JSON Schema of a document: of a component and the components in it. Components of plugins
// may have any fields; those of WayFlow's plugins are described.
func Schema() shape.Schema {
	defs := shape.Schema{
		"reference": shape.Schema{"type": "object", "description": "A reference to a component.", "required": []string{refKey},
			"properties": shape.Schema{refKey: described(shape.Text, docs[refKey])}},
		"property": shape.Schema{"type": "object", "description": "An input or output: a JSON Schema with a title.", "properties": shape.Schema{
			"title":       described(shape.Text, "Name of the input or output."),
			"description": described(shape.Text, "Description, which models see."),
			"type":        described(shape.Schema{"anyOf": []shape.Schema{shape.Types, shape.List(shape.Types), shape.Ref("reference")}}, "Type of its values, as in JSON Schema."),
			"default":     described(shape.Any, "Default value."),
		}},
		"properties": orReference(shape.Schema{"type": []string{"array", "null"}, "items": orReference(shape.Ref("property"))}),
		"components": shape.Schema{"type": "object", "additionalProperties": shape.Schema{
			"if": shape.Schema{"type": "object", "required": []string{"component_type"}}, "then": shape.Ref("component")}},
		"retry_policy": kindOf(&retryPolicy),
	}
	var names []string
	var rules []shape.Schema
	asked, wanted := map[string]bool{}, map[string][]string{}
	add := func(t *Type, s shape.Schema) {
		for _, f := range t.Fields {
			asked[f.Of] = true
		}
		names = append(names, t.Name)
		defs[t.Name] = s
		is := shape.Schema{"properties": shape.Schema{"component_type": shape.Schema{"const": t.Name}}, "required": []string{"component_type"}}
		rules = append(rules, shape.Schema{"if": is, "then": shape.Ref(t.Name)})
		for _, is := range append([]string{t.Name, "Component"}, t.Is...) {
			wanted[is] = append(wanted[is], t.Name)
		}
	}
	for _, t := range Types() {
		add(&t, t.schema())
	}
	plugins := Rows(WayFlow)
	for i := range WayFlow {
		t := plugins[WayFlow[i].Name]
		s := t.schema()
		s["additionalProperties"], s["required"] = true, []string{"component_type"}
		add(t, s)
	}
	delete(asked, "")
	for name := range asked {
		defs[wantedName(name)] = orReference(shape.Schema{"allOf": []shape.Schema{shape.Ref("component"), ofPlugin(wanted[name])}})
	}
	defs["component"] = shape.Schema{"type": "object", "description": "A component.", "required": []string{"component_type"}, "properties": shape.Schema{
		"component_type": described(shape.Text, docs["component_type"]),
	}, "allOf": append(rules, ofPlugin(names))}
	var labels []string
	for _, v := range versions {
		labels = append(labels, v.label)
	}
	root := shape.Schema{"type": "object", "properties": shape.Schema{
		"agentspec_version": described(shape.OneOf(labels...), docs["agentspec_version"]),
	}, "if": shape.Schema{"required": []string{"component_type"}}, "then": shape.Ref("component"),
		"else": shape.Schema{"anyOf": []shape.Schema{{"required": []string{refKey}}, {"required": []string{definitionsKey}}}, "properties": shape.Schema{
			refKey:         described(shape.Text, docs[refKey]),
			definitionsKey: described(shape.Ref("components"), docs[definitionsKey]),
		}}}
	return shape.Complete(root, "Open Agent Spec component", defs)
}

const (
	refKey         = "$component_ref"
	definitionsKey = "$referenced_components"
)

func (t *Type) schema() shape.Schema {
	properties := shape.Schema{
		shape.Key: shape.Text, "component_type": shape.Schema{"const": t.Name, "description": docs["component_type"]},
		"agentspec_version": shape.Any, definitionsKey: described(shape.Ref("components"), docs[definitionsKey]),
		"id": text("id"), "name": text("name"), "description": text("description"),
		"metadata":              described(shape.Nullable(shape.Schema{"type": "object"}), docs["metadata"]),
		"component_plugin_name": text("component_plugin_name"), "component_plugin_version": text("component_plugin_version"),
	}
	if t.IO {
		list := shape.Ref("properties")
		properties["inputs"], properties["outputs"] = described(list, docs["inputs"]), described(list, docs["outputs"])
	}
	if t.Satisfies("Node") {
		properties["branches"] = described(shape.Nullable(shape.List(shape.Text)), docs["branches"])
	}
	required := describeFields(properties, t.Fields)
	if !t.ActsAs("ControlFlowEdge") && !t.ActsAs("DataFlowEdge") {
		required = append(required, "name")
	}
	return shape.Schema{"type": "object", "description": t.Doc, "properties": properties, "required": append(required, "component_type"), "additionalProperties": t.Open}
}

// text returns the schema of an optional string field of all components.
func text(field string) shape.Schema { return described(shape.Nullable(shape.Text), docs[field]) }

// describeFields adds fields to properties and returns the names of the required ones.
func describeFields(properties shape.Schema, list []FieldSpec) []string {
	required := []string{}
	for i := range list {
		f := &list[i]
		kind := shape.Ref(f.Name)
		if f.Name != retryPolicy.Name {
			kind = kindOf(f)
		}
		if f.Required {
			required = append(required, f.Name)
		} else {
			kind = shape.Nullable(kind)
		}
		if f.Kind != One {
			kind = orReference(kind)
		}
		kind = described(kind, f.doc())
		if f.Default != "" {
			kind["default"] = f.value()
		}
		properties[f.Name] = kind
	}
	return required
}

// kinds are the schemas of the kinds that do not depend on the field.
var kinds = map[FieldKind]shape.Schema{
	Text: shape.Text, Texts: shape.List(shape.Text), TextMap: shape.Map, Flag: shape.Flag, Number: {"type": "number"}, Whole: {"type": "integer"},
	Object: {"type": "object"}, Schemas: {"type": "object"}, TextOrTexts: {"anyOf": []shape.Schema{shape.Text, shape.List(shape.Text)}},
}

func kindOf(f *FieldSpec) shape.Schema {
	if f.Sensitive {
		return shape.Any // a reference to a value, or null
	}
	if s, ok := kinds[f.Kind]; ok && len(f.Enum) == 0 {
		return s
	}
	switch f.Kind {
	case Text:
		return shape.OneOf(f.Enum...)
	case Plain:
		properties := shape.Schema{}
		return shape.Schema{"type": "object", "properties": properties, "required": describeFields(properties, f.Fields), "additionalProperties": f.Open}
	case One:
		return shape.Ref(wantedName(f.Of))
	case Many:
		return shape.List(shape.Ref(wantedName(f.Of)))
	case Pairs:
		return shape.List(shape.Schema{"type": "array", "minItems": 2, "maxItems": 2, "items": shape.Ref(wantedName(f.Of))})
	case Mixed:
		return shape.List(shape.Schema{"anyOf": []shape.Schema{shape.Text, shape.Ref(wantedName(f.Of))}})
	case FlagOrText:
		return shape.Schema{"anyOf": []shape.Schema{shape.Flag, shape.OneOf(f.Enum...)}}
	}
	return shape.Any
}

func (f *FieldSpec) value() any {
	if f.Kind == Number || f.Kind == Whole {
		if n, err := strconv.ParseFloat(f.Default, 64); err == nil {
			return n
		}
	}
	if f.Default == "true" || f.Default == "false" {
		return f.Default == "true"
	}
	return f.Default
}

// wantedName returns the name of the definition of components that can be used where a type is expected.
func wantedName(name string) string { return "any." + name }

func described(s shape.Schema, doc string) shape.Schema {
	out := shape.Schema{"description": doc}
	maps.Copy(out, s)
	return out
}

// orReference returns a schema that also accepts a reference.
func orReference(s shape.Schema) shape.Schema {
	return shape.Schema{"if": shape.Schema{"type": "object", "required": []string{refKey}}, "then": shape.Ref("reference"), "else": s}
}

// ofPlugin returns a schema that restricts component_type to names, except for components of unknown plugins.
func ofPlugin(names []string) shape.Schema {
	return shape.Schema{"anyOf": []shape.Schema{{"required": []string{"component_plugin_name"}}, {"properties": shape.Schema{"component_type": shape.OneOf(names...)}}}}
}

// docs describe the fields that several components have, by name.
var docs = map[string]string{
	"component_type":           "Type of the component. It determines the other fields.",
	"id":                       "Id of the component, for references.",
	"name":                     "Name of the component.",
	"description":              "What the component is for. Models see the descriptions of tools and agents.",
	"metadata":                 "Metadata of tools. It has no effect on a run.",
	"inputs":                   "Inputs, as JSON Schemas with a title each. Default: inferred.",
	"outputs":                  "Outputs, as JSON Schemas with a title each. Default: inferred.",
	"branches":                 "Names of the node's outgoing branches. Default: inferred.",
	"component_plugin_name":    "Plugin that defines the component's type.",
	"component_plugin_version": "Version of the plugin.",
	"agentspec_version":        "Version of Agent Spec.",
	"$referenced_components":   "Components by reference name.",
	"$component_ref":           "Key in $referenced_components, or id, of the referenced component.",
	"connection_config":        "How to connect to the server.",
	"session_parameters":       "Limits of the session.",
	"timeout":                  "Timeout in seconds.",
	"headers":                  "Headers of every request.",
	"key_file":                 "File with the private key of the client certificate.",
	"cert_file":                "File with the client certificate.",
	"ca_file":                  "File with the CA certificates to verify servers.",
	"llm_config":               "The model.",
	"human_in_the_loop":        "Whether the agent may ask a person.",
	"agent":                    "The agent.",
	"url":                      "URL.",
	"sensitive_headers":        "Headers that are secrets: a reference to a value in weft.yaml.",
	"requires_confirmation":    "Whether a person is asked before each call.",
	"subflow":                  "The flow.",
	"datastore":                "Datastore of the summaries. It has no effect: summaries are in history.",
	"api_key":                  "API key: a reference to a value in weft.yaml.",
	"auth":                     "How a client signs in.",
	"api_type":                 "API of the model's server.",
	"provider":                 "Vendor of the model.",
	"client_transport":         "How to connect to the MCP server.",
	"user":                     "Name of the user: a reference to a value in weft.yaml.",
	"password":                 "Password: a reference to a value in weft.yaml.",
	"dsn":                      "Address of the database: a reference to a value in weft.yaml.",
	"wallet_location":          "Folder of the wallet: a reference to a value in weft.yaml.",
	"wallet_password":          "Password of the wallet: a reference to a value in weft.yaml.",
	"client_config":            "How a client authenticates with OCI.",
	"sslcert":                  "File with the client certificate.",
	"sslkey":                   "File with the private key of the client certificate.",
	"sslrootcert":              "File with the CA certificates to verify the server.",
	"sslcrl":                   "Certificate revocation list.",
	"rephrase":                 "Whether a model rephrases the message. It has no effect.",
	"sse_read_timeout":         "Time limit for the next event, in seconds.",
	"encoding":                 "Encoding of the messages.",
	"encoding_error_handler":   "How text that is not valid in the encoding is handled.",
}

// doc returns the description of a field.
func (f *FieldSpec) doc() string { return cmp.Or(f.Doc, docs[f.Name]) }
