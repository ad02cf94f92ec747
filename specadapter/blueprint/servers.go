package blueprint

import (
	"slices"
	"strings"

	"weft/specadapter/inputs"
	"weft/specadapter/source"
	"weft/workflows/plan"
)

type server struct {
	name, title, description, url string
	headers                       []header
	// orchestrator reports whether it is the framework's own server, which starts other agents.
	orchestrator bool
	// configured reports whether a connection in the worker's settings is used.
	configured bool
	// connection is the id of that connection; transport is the plan's transport.
	connection, transport string
	// invalid reports whether an error of the server has been reported.
	invalid bool
	at      source.Pos
}

// header is sent with every request to a server. Its value may contain placeholders.
type header struct {
	name, value string
	// required reports whether the value must be set when a run starts.
	required bool
	at       source.Pos
}

// orchestratorRef and orchestratorURLs identify the framework's own server by reference or by URL.
const orchestratorRef = "orchestrator"

var orchestratorURLs = []string{"${runner.orchestrator_mcp_url}", "${AGENT_ORCHESTRATOR_MCP_URL}"}

// ownServers reads agent.mcp.json, or the field mcp_servers of the framework's API.
func (g *agent) ownServers() {
	file, ok := g.a.agentFile(fileMCP)
	inline := g.Expect("mcp_servers", source.Object)
	switch {
	case ok && inline != nil:
		g.a.Errorf(inline.Pos, CodeTwice, "keep one of the two", "the MCP servers of %s are defined both here and in %s", g.Name, file)
	case ok:
		g.serversOf(file)
	case inline != nil:
		g.serverMap(g.a.object(inline, "mcp_servers of "+g.Name))
	}
}

// serversOf reads a file {"mcpServers": {...}}.
func (g *agent) serversOf(file string) {
	o := g.a.open(file, "the document")
	if o == nil {
		return
	}
	o.WarnUnknown("mcpServers")
	if v := o.Expect("mcpServers", source.Object); v != nil {
		g.serverMap(g.a.object(v, "mcpServers"))
	}
}

func (g *agent) serverMap(o *object) {
	if !o.withinLimit(o.Value, o.Name, maxServers) {
		return
	}
	for _, m := range o.Value.Members {
		v := g.a.object(m.Value, "MCP server "+source.Quote(m.Key))
		if !v.OK {
			continue
		}
		s := server{name: m.Key, at: m.KeyPos}
		if i := slices.IndexFunc(g.servers, func(other server) bool { return other.name == m.Key }); i >= 0 {
			first := g.servers[i]
			v.a.Errorf(m.KeyPos, CodeServer, "rename one of the two", "%s has a duplicate MCP server %s; the other is in %s:%d",
				g.Name, source.Quote(m.Key), first.at.File, first.at.Line)
			continue
		}
		before := g.a.Errors
		if v.Value.Get("ref") != nil {
			v.reference(&s)
		} else {
			v.inline(&s)
		}
		if s.orchestrator {
			g.checkCallback(&s)
		}
		s.invalid = g.a.Errors > before
		g.servers = append(g.servers, s)
	}
}

func (o *object) reference(s *server) {
	o.Check(&referenceShape)
	ref := o.Required("ref")
	if ref == "" {
		return
	}
	config := o.config()
	s.orchestrator = ref == orchestratorRef
	file, known := "", plainName.MatchString(ref)
	if known {
		file, known = o.a.registryFile(dirServers, ref, fileServer)
	}
	if !known {
		s.configured, s.connection = o.a.host.Connections[ref], ref
		if s.configured && len(config) > 0 {
			o.a.Warnf(o.Pos("config"), CodeNoEffect, "set the headers in the worker's connection", "%s is the worker's connection %s; its config has no effect", o.Name, source.Quote(ref))
		}
		if s.orchestrator || s.configured {
			s.headers = config
			return
		}
		o.a.serverError(s.name, ref, o.Pos("ref"), CodeServer, "add "+dirServers+"/NAME/"+fileServer+", or configure a connection with this id on the worker",
			"%s refers to %s, which is not in the registry", o.Name, source.Quote(ref))
		return
	}
	if entry := o.a.open(file, "MCP server "+source.Quote(ref)); entry != nil {
		entry.applyEntry(s, o, config)
	}
}

// applyEntry sets a server from its registry entry, with the headers of the reference merged over the defaults.
func (o *object) applyEntry(s *server, use *object, config []header) {
	o.Check(&serverShape)
	s.title, s.description = o.Text("name"), o.Text("description")
	s.url = o.Required("url")
	o.address(s)
	if v := o.Expect("default_config", source.Object); v != nil {
		s.headers = o.a.object(v, "default_config of "+o.Name).headers()
	}
	for _, h := range config {
		if i := slices.IndexFunc(s.headers, func(d header) bool { return d.name == h.name }); i >= 0 {
			s.headers[i] = h
		} else {
			s.headers = append(s.headers, h)
		}
	}
	fields := o.Expect("config_schema", source.Object)
	if fields == nil || !o.withinLimit(fields, "config_schema of "+o.Name, maxHeaders) {
		return
	}
	for _, m := range fields.Members {
		field := o.a.object(m.Value, "config_schema."+m.Key+" of "+o.Name)
		if field.OK {
			field.checkHeader(m.Key, s, use)
		}
	}
}

// checkHeader validates a header of a server by its field of config_schema.
func (o *object) checkHeader(name string, s *server, use *object) {
	o.Check(&configShape)
	i := slices.IndexFunc(s.headers, func(h header) bool { return h.name == name })
	if i < 0 {
		if o.Flag("required") && !s.orchestrator {
			o.a.serverError(s.name, name, use.Value.Pos, CodeServerConfig, "add it to config", "%s requires the config %s", use.Name, source.Quote(name))
		}
		return
	}
	h := &s.headers[i]
	h.required = o.Flag("required")
	if !o.Flag("sensitive") {
		return
	}
	const help = "use ${env.NAME}, and set in the worker's weft.yaml: variables: {NAME: {hosts: [HOST]}}; or configure a connection with this id there"
	switch names := inputs.Placeholder.FindAllStringSubmatch(h.value, -1); {
	case len(names) == 0 && h.value != "":
		o.a.Errorf(h.at, CodeSecret, help, "the config %s of %s is a secret written in the file", source.Quote(name), use.Name)
	case slices.ContainsFunc(names, func(m []string) bool { return !strings.HasPrefix(m[1], "env.") }):
		o.a.Warnf(h.at, CodeSecret, help, "the config %s of %s is a secret that a run provides; the run's history will contain it", source.Quote(name), use.Name)
	}
}

// serverError reports an error that names a server and its ref or config.
func (a *adaptation) serverError(server, what string, at source.Pos, code, help, format string, args ...any) {
	d := source.Error.At(at, code, help, format, args...)
	d.About = [2]string{server, what}
	a.Report(d)
}

// config returns the headers of a reference. In earlier versions they were nested in "headers".
func (o *object) config() []header {
	v := o.Expect("config", source.Object)
	if v == nil {
		return nil
	}
	c := o.a.object(v, "config of "+o.Name)
	nested := v.Get("headers")
	if nested == nil || nested.Kind != source.Object {
		return c.headers()
	}
	o.a.Warnf(nested.Pos, CodeOlder, "move them into config", "the headers of %s have the format of an earlier version", c.Name)
	c.WarnUnknown("headers")
	return o.a.object(nested, "headers of "+o.Name).headers()
}

func (o *object) headers() []header {
	if !o.withinLimit(o.Value, o.Name, maxHeaders) {
		return nil
	}
	var out []header
	for _, m := range o.Value.Members {
		h := header{name: m.Key, at: m.Value.Pos}
		switch m.Value.Kind {
		case source.Null:
			continue
		case source.String, source.Number:
			h.value = m.Value.Text
		case source.Bool:
			h.value = m.Value.Describe()
		default:
			o.a.Errorf(m.Value.Pos, CodeWrongType, source.TypeHelp[source.String], "%s of %s is %s, expected a string", source.Quote(m.Key), o.Name, m.Value.Describe())
			continue
		}
		if !source.IsHeader(m.Key, h.value) {
			o.a.Errorf(m.KeyPos, CodeServerConfig, "config becomes HTTP headers: use letters, digits and - in names, and single-line values",
				"%s of %s cannot be an HTTP header", source.Quote(m.Key), o.Name)
			continue
		}
		for _, p := range inputs.Placeholder.FindAllStringSubmatch(h.value, -1) {
			if kind, _, _ := strings.Cut(p[1], "."); !placeholderKinds[kind] && kind != "env" && kind != "runner" {
				o.a.Warnf(m.Value.Pos, CodePlaceholder, "use ${params.NAME}, ${scope.NAME}, ${env.NAME}, ${runtime.run_id} or ${runtime.session_id}",
					"%s of %s is not replaced", source.Quote(p[0]), o.Name)
			}
		}
		out = append(out, h)
	}
	return out
}

// inline reads an inline server, the only form before the registry existed.
func (o *object) inline(s *server) {
	o.Check(&inlineShape)
	s.url = o.Text("url")
	kind := o.Text("type")
	command := o.Expect("command", source.String)
	if command != nil || kind == "stdio" {
		s.configured, s.connection = o.a.host.Connections[s.name], s.name
		if !s.configured {
			o.a.Errorf(o.Value.Pos, CodeCommand, "set in weft.yaml, of the starter and the worker: "+source.CommandLine(s.name),
				"%s is a command; files must not define commands", o.Name)
		}
		return
	}
	if kind != "" && kind != "http" && kind != "sse" {
		o.a.Errorf(o.Pos("type"), CodeServer, `use {"ref": "NAME"}`, "the type of %s is %s", o.Name, source.Quote(kind))
		return
	}
	if s.url == "" {
		o.a.Errorf(o.Value.Pos, CodeServer, `use {"ref": "NAME"}`, "%s has neither ref nor url", o.Name)
		return
	}
	if kind == plan.TransportSSE {
		s.transport = kind
	}
	o.a.Warnf(o.Value.Pos, CodeOlder, "put it into "+dirServers+"/ and refer to it", "%s is an inline server, which the framework no longer accepts", o.Name)
	o.address(s)
	if v := o.Expect("headers", source.Object); v != nil {
		s.headers = o.a.object(v, "headers of "+o.Name).headers()
	}
}

// address validates a server's URL. Messages never contain a URL with a password.
func (o *object) address(s *server) {
	if slices.Contains(orchestratorURLs, s.url) {
		s.orchestrator = true
		return
	}
	for _, m := range inputs.Placeholder.FindAllStringSubmatch(s.url, -1) {
		if kind, _, _ := strings.Cut(m[1], "."); !placeholderKinds[kind] {
			o.a.Errorf(o.Pos("url"), CodeServerURL, "use the address itself, ${params.NAME} or ${scope.NAME}", "the url of %s contains the unknown placeholder %s", o.Name, source.Quote(m[0]))
			return
		}
	}
	if s.url == "" || s.orchestrator || strings.Contains(s.url, "${") {
		return
	}
	o.a.CheckAddress(o.Pos("url"), CodeServerURL, "the url of "+o.Name, s.url, "remove it and set in the worker's weft.yaml: "+source.ConnectionLine(s.name, s.url))
}
