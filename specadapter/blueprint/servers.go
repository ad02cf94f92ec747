package blueprint

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"weft/specadapter/inputs"
	"weft/specadapter/source"
	"weft/workflows/plan"
)

// server is an MCP server of an agent, resolved.
type server struct {
	name, title, description, url string
	headers                       []header
	// orchestrator marks the framework's own server, which starts other agents.
	orchestrator bool
	// configured says that the worker's own connection of this name is used.
	configured bool
	// connection is that connection's id; transport is the plan's.
	connection, transport string
	// refused says that it was reported and nothing more is to be said of it.
	refused bool
	file    string
	at      source.Pos
}

// header is sent with every call of a server. Its value may hold placeholders.
type header struct {
	name, value string
	// required says that the value may not be missing.
	required bool
	at       source.Pos
	file     string
}

// The marks of the framework's own server: its entry in the registry and its address.
const orchestratorRef = "orchestrator"

var orchestratorURLs = []string{"${runner.orchestrator_mcp_url}", "${AGENT_ORCHESTRATOR_MCP_URL}"}

// ownServers reads agent.mcp.json, or the field that the framework's API takes.
func (g *agent) ownServers() {
	file, ok := g.a.beside(fileMCP)
	inline := g.get("mcp_servers", source.Object)
	switch {
	case ok && inline != nil:
		g.errorf(inline.Pos, CodeTwice, "keep one of the two", "the MCP servers of %s are here and in %s", g.what, file)
	case ok:
		g.serversOf(file)
	case inline != nil:
		g.serverMap(g.a.object(g.file, inline, "mcp_servers of "+g.what))
	}
}

// serversOf reads a file {"mcpServers": {...}}.
func (g *agent) serversOf(file string) {
	root := g.a.parse(file)
	if root == nil {
		return
	}
	o := g.a.object(file, root, "the document")
	if !o.ok {
		return
	}
	o.only("mcpServers")
	if v := o.get("mcpServers", source.Object); v != nil {
		g.serverMap(g.a.object(file, v, "mcpServers"))
	}
}

func (g *agent) serverMap(o *object) {
	if !o.fits(o.value, o.what, maxServers) {
		return
	}
	for _, m := range o.value.Members {
		v := g.a.object(o.file, m.Value, "MCP server "+source.Quote(m.Key))
		if !v.ok {
			continue
		}
		s := server{name: m.Key, file: o.file, at: m.KeyPos}
		if i := slices.IndexFunc(g.servers, func(other server) bool { return other.name == m.Key }); i >= 0 {
			first := g.servers[i]
			v.errorf(m.KeyPos, CodeServer, "give one of the two another name", "%s has the MCP server %s twice; the other is in %s:%d",
				g.what, source.Quote(m.Key), first.file, first.at.Line)
			continue
		}
		before := g.a.errors
		if v.value.Get("ref") != nil {
			v.reference(&s)
		} else {
			v.inline(&s)
		}
		if s.orchestrator {
			g.callsBack(&s)
		}
		s.refused = g.a.errors > before
		g.servers = append(g.servers, s)
	}
}

// reference resolves a server that the registry has.
func (o *object) reference(s *server) {
	o.only("ref", "config")
	ref := o.required("ref")
	if ref == "" {
		return
	}
	given := o.config()
	s.orchestrator = ref == orchestratorRef
	file, known := "", plainName.MatchString(ref)
	if known {
		file, known = o.a.registered(dirServers, ref, fileServer)
	}
	if !known {
		s.configured, s.connection = o.a.host.Connections[ref], ref
		if s.configured && len(given) > 0 {
			o.warnf(o.pos("config"), CodeNoEffect, "write the headers into the connection on the worker", "%s is the worker's own connection %s; its config has no effect", o.what, source.Quote(ref))
		}
		if s.orchestrator || s.configured {
			s.headers = given
			return
		}
		o.errorf(o.pos("ref"), CodeServer, "write "+dirServers+"/NAME/"+fileServer+", or configure a connection with this id on the worker",
			"%s refers to %s, which is not in the registry", o.what, source.Quote(ref))
		o.a.about(s.name, ref)
		return
	}
	root := o.a.parse(file)
	if root == nil {
		return
	}
	entry := o.a.object(file, root, "MCP server "+source.Quote(ref))
	if entry.ok {
		entry.register(s, o, given)
	}
}

// register takes what the registry says of a server, and the config on top.
func (o *object) register(s *server, use *object, given []header) {
	o.only("id", "name", "description", "url", "config_schema", "default_config", "created_at", "modified_at")
	s.title, s.description = o.text("name"), o.text("description")
	s.url = o.required("url")
	o.address(s)
	if v := o.get("default_config", source.Object); v != nil {
		s.headers = o.a.object(o.file, v, "default_config of "+o.what).headers()
	}
	for _, h := range given {
		if i := slices.IndexFunc(s.headers, func(d header) bool { return d.name == h.name }); i >= 0 {
			s.headers[i] = h
		} else {
			s.headers = append(s.headers, h)
		}
	}
	rules := o.get("config_schema", source.Object)
	if rules == nil || !o.fits(rules, "config_schema of "+o.what, maxHeaders) {
		return
	}
	for _, m := range rules.Members {
		field := o.a.object(o.file, m.Value, "config_schema."+m.Key+" of "+o.what)
		if field.ok {
			field.checkHeader(m.Key, s, use)
		}
	}
}

// checkHeader holds a server's config to one field of its schema.
func (o *object) checkHeader(name string, s *server, use *object) {
	o.only("type", "description", "required", "sensitive", "default")
	flag := func(key string) bool {
		v := o.get(key, source.Bool)
		return v != nil && v.True
	}
	i := slices.IndexFunc(s.headers, func(h header) bool { return h.name == name })
	if i < 0 {
		if flag("required") && !s.orchestrator {
			use.errorf(use.value.Pos, CodeServerConfig, "write it into config", "%s wants the config %s", use.what, source.Quote(name))
			o.a.about(s.name, name)
		}
		return
	}
	h := &s.headers[i]
	h.required = flag("required")
	if !flag("sensitive") {
		return
	}
	const help = "write ${env.NAME}, and set in the worker's weft.yaml: variables: {NAME: {hosts: [HOST]}}; or configure a connection with this id there"
	switch names := inputs.Placeholder.FindAllStringSubmatch(h.value, -1); {
	case len(names) == 0 && h.value != "":
		o.a.errorf(h.file, h.at, CodeSecret, help, "the config %s of %s is a secret and stands in the file", source.Quote(name), use.what)
	case slices.ContainsFunc(names, func(m []string) bool { return !strings.HasPrefix(m[1], "env.") }):
		o.a.warnf(h.file, h.at, CodeSecret, help, "the config %s of %s is a secret that a run brings along; it stands in the run's history", source.Quote(name), use.what)
	}
}

// config are the headers of a reference: at HEAD its fields, for some weeks before under
// "headers".
func (o *object) config() []header {
	v := o.get("config", source.Object)
	if v == nil {
		return nil
	}
	c := o.a.object(o.file, v, "config of "+o.what)
	nested := v.Get("headers")
	if nested == nil || nested.Kind != source.Object {
		return c.headers()
	}
	o.warnf(nested.Pos, CodeOlder, "write them into config itself", "%s has its headers in the shape of an earlier version; they are read", c.what)
	c.only("headers")
	return o.a.object(o.file, nested, "headers of "+o.what).headers()
}

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// headers are the members of an object as headers.
func (o *object) headers() []header {
	if !o.fits(o.value, o.what, maxHeaders) {
		return nil
	}
	var out []header
	for _, m := range o.value.Members {
		h := header{name: m.Key, at: m.Value.Pos, file: o.file}
		switch m.Value.Kind {
		case source.Null:
			continue
		case source.String, source.Number:
			h.value = m.Value.Text
		case source.Bool:
			h.value = m.Value.Describe()
		default:
			o.errorf(m.Value.Pos, CodeWrongType, howToWrite[source.String], "%s of %s is %s, want a string", source.Quote(m.Key), o.what, m.Value.Describe())
			continue
		}
		if !headerName.MatchString(m.Key) || strings.ContainsAny(h.value, "\r\n\x00") {
			o.errorf(m.KeyPos, CodeServerConfig, "config becomes HTTP headers: letters, digits and - as names, one line as values",
				"%s of %s cannot be an HTTP header", source.Quote(m.Key), o.what)
			continue
		}
		for _, p := range inputs.Placeholder.FindAllStringSubmatch(h.value, -1) {
			if kind, _, _ := strings.Cut(p[1], "."); !kinds[kind] && kind != "env" && kind != "runner" {
				o.warnf(m.Value.Pos, CodePlaceholder, "write ${params.NAME}, ${scope.NAME}, ${env.NAME}, ${runtime.run_id} or ${runtime.session_id}",
					"%s of %s stays as it is written: nothing replaces it", source.Quote(p[0]), o.what)
			}
		}
		out = append(out, h)
	}
	return out
}

// inline reads a server that is written out, as all were before the registry.
func (o *object) inline(s *server) {
	o.only("type", "url", "headers", "command", "args", "env")
	s.url = o.text("url")
	kind := o.text("type")
	command := o.get("command", source.String)
	if command != nil || kind == "stdio" {
		s.configured, s.connection = o.a.host.Connections[s.name], s.name
		if !s.configured {
			o.errorf(o.value.Pos, CodeCommand, "set in weft.yaml, of the starter and the worker: "+source.CommandLine(s.name),
				"%s is a command to run; a file may not name one", o.what)
		}
		return
	}
	if kind != "" && kind != "http" && kind != "sse" {
		o.errorf(o.pos("type"), CodeServer, `write {"ref": "NAME"}`, "the type of %s is %s", o.what, source.Quote(kind))
		return
	}
	if s.url == "" {
		o.errorf(o.value.Pos, CodeServer, `write {"ref": "NAME"}`, "%s has neither ref nor url", o.what)
		return
	}
	if kind == plan.TransportSSE {
		s.transport = kind
	}
	o.warnf(o.value.Pos, CodeOlder, "put it into "+dirServers+"/ and refer to it", "%s is written out, which the framework takes no more; it is read", o.what)
	o.address(s)
	if v := o.get("headers", source.Object); v != nil {
		s.headers = o.a.object(o.file, v, "headers of "+o.what).headers()
	}
}

// address judges a server's URL. It never repeats one that holds a password.
func (o *object) address(s *server) {
	if slices.Contains(orchestratorURLs, s.url) {
		s.orchestrator = true
		return
	}
	for _, m := range inputs.Placeholder.FindAllStringSubmatch(s.url, -1) {
		if kind, _, _ := strings.Cut(m[1], "."); !kinds[kind] {
			o.errorf(o.pos("url"), CodeServerURL, "write the address itself, or ${params.NAME} or ${scope.NAME}", "the url of %s holds %s, which nothing replaces", o.what, source.Quote(m[0]))
			return
		}
	}
	if s.url == "" || s.orchestrator || strings.Contains(s.url, "${") {
		return
	}
	u, err := url.Parse(s.url)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		o.errorf(o.pos("url"), CodeServerURL, "write the server's address, such as https://tools.example.com/mcp", "the url of %s is no http or https address", o.what)
	case u.User != nil:
		o.errorf(o.pos("url"), CodeServerURL, "take it out, and set in the worker's weft.yaml: "+source.ConnectionLine(s.name, s.url), "the url of %s holds a user name or a password", o.what)
	}
}
