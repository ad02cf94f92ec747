package agentspec

import (
	"cmp"
	"encoding/json"
	"math"
	"strings"

	"weft/specadapter/agentspec/model"
	"weft/specadapter/source"
	"weft/workflows/plan"
)

// remote makes of an agent that runs elsewhere a node that goes on with the flow's conversation.
// What it cannot go on without, it asks a person; at the root, every answer goes to one.
func (b *builder) remote(c *model.Component, root bool) *plan.Agent {
	a := &plan.Agent{Conversation: plan.ConversationFlow, MaxCalls: 1, MaxErrors: agentErrors, Chat: &plan.Chat{WhenAsked: !root}}
	a.Opening = opening(c.Inputs)
	if len(c.Inputs) == 0 {
		a.Chat.First = cmp.Or(c.Name, "the agent") + " waits for a message"
	}
	if len(c.Outputs) > 1 || len(c.Outputs) == 1 && !isText(c.Outputs[0]) {
		a.Output = jsonOutput(c.Outputs)
	}
	switch c.Type.Acts() {
	case "OciAgent":
		// The worker's provider oci has region and credentials.
		client := c.Component("client_config")
		b.Warnf(client.FieldPos("service_endpoint"), CodeModelURL, "set providers.oci.region, auth and auth_file in the worker's configuration",
			"the service_endpoint and authentication of %s are ignored; the worker's configuration of provider oci applies", client)
		a.Model, a.Retry = "oci/agent/"+c.Text("agent_endpoint_id"), b.retry(c, false)
		return a
	case "OpenAiAgent":
		return b.openAIAgent(c, a)
	}
	a.Model = "a2a/" + model.SafeID(cmp.Or(c.Name, c.ID))
	session := c.Field("session_parameters")
	part := func(name string, def, most float64) float64 {
		if session == nil || session.Fields[name] == nil {
			return def
		}
		n := session.Number(name)
		if n < 0 || n > most || name == "timeout" && n == 0 {
			b.Errorf(session.Fields[name].At, "field-value", "use a number of seconds or retries", "%s in session_parameters of %s is %s", name, c, session.Fields[name].JSON.Describe())
		}
		return n
	}
	conn := c.Component("connection_config")
	a.Remote = &plan.Remote{Connection: b.connect(c, b.agentServer), PollMillis: int(part("poll_interval", 2, 3600) * 1000)}
	// An attempt waits for the task as long as a session may take; the next one goes on with it.
	a.Retry = &plan.Retry{Attempts: int(part("max_retries", 5, 1000)), FirstMillis: 1000, MostMillis: 8000, Factor: 2}
	if r := b.retry(conn, false); r != nil {
		a.Retry = r
	}
	a.Retry.TimeoutMillis = int(part("timeout", 60, 86400) * 1000)
	return a
}

// openAIAgent makes an OpenAiAgent its model, asked by the Responses API with the stored prompt that remote_agent_id names.
func (b *builder) openAIAgent(c *model.Component, a *plan.Agent) *plan.Agent {
	b.model(c.Component("llm_config"), a)
	a.Params = cmp.Or(a.Params, &plan.Params{})
	a.Params.API = apiResponses
	f := c.Field("remote_agent_id")
	if f == nil || !f.IsSet() {
		return a
	}
	id := c.Text("remote_agent_id")
	if !strings.HasPrefix(id, "pmpt_") {
		b.Errorf(f.At, "field-value", "use the id of a stored prompt, pmpt_..., or an Agent with an OpenAiConfig",
			"remote_agent_id of %s is %s, which the Responses API does not accept", c, source.Quote(id))
	}
	extra := map[string]json.RawMessage{}
	_ = json.Unmarshal(a.Params.Extra, &extra) // absent, or what was encoded
	extra["prompt"], _ = json.Marshal(map[string]string{"id": id})
	a.Params.Extra, _ = json.Marshal(extra)
	return a
}

// agentServer makes the connection to a remote agent. Files that the document names are not read.
func (b *builder) agentServer(c *model.Component) plan.Connection {
	address, conn := c.Text("agent_url"), c.Component("connection_config")
	b.fixedURL(c, "agent_url")
	id := unique(b.ids, model.SafeID(cmp.Or(c.Name, c.ID, "agent")))
	p := plan.Connection{ID: id, Name: c.Name, Kind: plan.ConnectionA2A, Description: c.Description, URL: address, Headers: b.headers(conn)}
	if f := conn.Field("timeout"); f != nil {
		p.TimeoutSeconds = int(math.Ceil(min(max(conn.Number("timeout"), 1), 86400)))
	}
	for _, name := range []string{"key_file", "cert_file", "ssl_ca_cert"} {
		if f := conn.Field(name); f != nil && f.IsSet() {
			b.Warnf(f.At, CodeNoEffect, "configure the connection "+source.Quote(id)+" on the worker, with the same url, cert_file, key_file and ca_file",
				"%s of %s is ignored: a document cannot read the worker's files", name, conn)
		}
	}
	if !conn.Flag("verify") {
		b.Warnf(conn.FieldPos("verify"), CodeNoEffect, "configure the connection "+source.Quote(id)+" on the worker, with the same url and ca_file",
			"verify of %s is false, but certificates are always verified", conn)
	}
	return p
}
