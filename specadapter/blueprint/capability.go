package blueprint

import (
	"fmt"

	"weft/specadapter/source"
)

// capability adds a capability to an agent, and returns its text and its script's usage.
func (g *agent) capability(c word) []string {
	if g.has[c.text] {
		g.a.Errorf(c.at, CodeTwice, "remove one of the two", "%s lists the capability %s twice", g.Name, source.Quote(c.text))
		return nil
	}
	g.has[c.text] = true
	o := g.entry(dirCapabilities, fileCapability, c, CodeCapability, "capability")
	if o == nil {
		return nil
	}
	o.Of(&capabilityShape)
	o.Required("name")
	o.Required("description")
	var parts []string
	text, hasText := g.a.registered(dirCapabilities, c.text, fileText)
	if hasText {
		parts = append(parts, g.a.markdown(text))
	}
	servers, hasServers := g.a.registered(dirCapabilities, c.text, fileCapMCP)
	if hasServers {
		g.serversOf(servers)
	}
	script := o.Want("script", source.String)
	if script != nil {
		parts = append(parts, g.usage(o, word{script.Text, script.Pos}))
	}
	o.checkParts(hasText, hasServers, script != nil)
	return parts
}

// checkParts warns of a type that its parts do not fit. Without a type they say it.
func (o *object) checkParts(text, servers, script bool) {
	kind := o.Text("type")
	want := map[string]bool{"text": text, "mcp": servers, "script": script}
	has, known := want[kind]
	switch {
	case kind == "" && !text && !servers && !script:
		o.a.Warnf(o.Value.Pos, CodeCapability, "add "+fileText+", "+fileCapMCP+` or "script"`, "%s has no content", o.Name)
	case kind == "":
	case !known:
		o.a.Errorf(o.Pos("type"), CodeCapability, `use "script", "mcp" or "text"`, "the type of %s is %s", o.Name, source.Quote(kind))
	case !has:
		o.a.Warnf(o.Pos("type"), CodeCapability, "add that part or fix the type", "%s is of type %s but lacks that part", o.Name, kind)
	case kind == "text" && (servers || script), kind == "mcp" && script:
		o.a.Warnf(o.Pos("type"), CodeCapability, "remove the other part or the type", "%s is of type %s but has parts of another type", o.Name, kind)
	}
}

// entry returns a registry's entry, or nil after an error.
func (o *object) entry(registry, name string, w word, code, what string) *object {
	if !plainName.MatchString(w.text) {
		o.a.Errorf(w.at, code, "use the name of a folder in "+registry+"/", "%s has an invalid name of a %s: %s", o.Name, what, source.Quote(w.text))
		return nil
	}
	file, ok := o.a.registered(registry, w.text, name)
	if !ok {
		o.a.Errorf(w.at, code, fmt.Sprintf("add %s/%s/%s, or fix the name", registry, w.text, name),
			"%s refers to the %s %s, which is not found", o.Name, what, source.Quote(w.text))
		return nil
	}
	return o.a.open(file, what+" "+source.Quote(w.text))
}
