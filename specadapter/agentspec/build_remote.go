package agentspec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"weft/specadapter/agentspec/model"
	"weft/specadapter/source"
	"weft/workflows/plan"
)

// remote compiles a remote agent, which continues the flow's conversation. Its questions are sent to the
// user; at the root, all of its answers are.
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
		// Region and credentials come from the worker's provider oci.
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
	param := func(name string, def, limit float64) float64 {
		if session == nil || session.Fields[name] == nil {
			return def
		}
		n := session.Number(name)
		if n < 0 || n > limit || name == "timeout" && n == 0 {
			b.Errorf(session.Fields[name].At, "field-value", "use a number of seconds or retries", "%s in session_parameters of %s is %s", name, c, session.Fields[name].JSON.Describe())
		}
		return n
	}
	conn := c.Component("connection_config")
	a.Remote = &plan.Remote{Connection: b.connect(c, b.agentServer), PollMillis: int(param("poll_interval", 2, 3600) * 1000)}
	// An attempt waits for the task up to the timeout of the session; the next attempt continues to wait.
	a.Retry = &plan.Retry{Attempts: int(param("max_retries", 5, 1000)), FirstMillis: 1000, MostMillis: 8000, Factor: 2}
	if r := b.retry(conn, false); r != nil {
		a.Retry = r
	}
	a.Retry.TimeoutMillis = int(param("timeout", 60, 86400) * 1000)
	return a
}

// openAIAgent compiles an OpenAiAgent: its model is called by the Responses API with the stored prompt remote_agent_id.
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
	_ = json.Unmarshal(a.Params.Extra, &extra) // empty, or encoded by params
	extra["prompt"], _ = json.Marshal(map[string]string{"id": id})
	a.Params.Extra, _ = json.Marshal(extra)
	return a
}

// agentServer returns the connection to a remote agent. Files that the document refers to are not read.
func (b *builder) agentServer(c *model.Component) plan.Connection {
	address, conn := c.Text("agent_url"), c.Component("connection_config")
	b.checkURL(c, "agent_url")
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

const memoryStore = "InMemoryCollectionDatastore"

// datastore reports a datastore that is not supported.
func (b *builder) datastore(c *model.Component, f *model.Field) {
	node := c.Type.Satisfies("Node")
	for _, store := range f.Components {
		switch is := store.Type.Acts(); {
		case is == memoryStore, node && is == "PostgresDatabaseDatastore":
		case node:
			b.Errorf(f.At, CodeNotYet, "use a PostgresDatabaseDatastore or an InMemoryCollectionDatastore", "%s uses %s, which is not supported yet", c, store)
		case is == "PostgresDatabaseDatastore":
			b.Warnf(f.At, CodeNoEffect, "remove it", "datastore of %s has no effect: summaries are stored with the run", c)
		default:
			b.Errorf(f.At, CodeNotYet, "remove datastore or use an InMemoryCollectionDatastore: summaries are stored with the run",
				"%s stores summaries in %s, which is not supported yet", c, store)
		}
	}
}

// operations maps node types to operations on a datastore.
var operations = map[string]string{"PluginDatastoreListNode": plan.DoList, "PluginDatastoreCreateNode": plan.DoCreate, "PluginDatastoreUpdateNode": plan.DoUpdate,
	"PluginDatastoreDeleteNode": plan.DoDelete, "PluginDatastoreQueryNode": plan.DoQuery}

// storeNode configures a node that uses a datastore: a tool of a database connection, or collections in the state of the run.
func (b *builder) storeNode(c *model.Component, n *plan.Node) {
	o := operation(c, n.Name)
	store := c.Component("datastore")
	if store.Type.Acts() == memoryStore {
		id, known := b.connected[store]
		if !known {
			for other := range b.connected {
				if other.Type.Acts() == memoryStore && other.Name == store.Name {
					b.Warnf(store.At, CodeDatastore, "if they are the same, define it in $referenced_components and refer to it", "%s does not share data with the other one of the same name", store)
					break
				}
			}
			id = unique(b.ids, model.SafeID(cmp.Or(store.Name, store.ID)))
			b.connected[store] = id
		}
		n.Kind, n.Pass = plan.KindPass, &plan.Pass{Store: &plan.Connection{ID: id, Name: cmp.Or(store.Name, id), Collections: collections(store), Operations: []plan.Operation{o}}}
		b.addStorePorts(n)
		return
	}
	id := b.connect(store, b.database)
	conn := &b.connections[slices.IndexFunc(b.connections, func(c plan.Connection) bool { return c.ID == id })]
	taken := map[string]bool{}
	for i := range conn.Operations {
		taken[conn.Operations[i].Name] = true
	}
	o.Name = unique(taken, o.Name)
	conn.Operations = append(conn.Operations, o)
	n.Kind, n.Tool = plan.KindTool, &plan.Tool{Name: o.Name, As: toolName(o.Name), Description: c.Description, Connection: id}
}

// addStorePorts adds ports to a node for the collections of the run and, in a called flow, for their changes.
func (b *builder) addStorePorts(n *plan.Node) {
	b.usesStores = true
	n.Ports.In = append(n.Ports.In, plan.In{Name: plan.StoresPort, Key: plan.InKey(plan.StoresPort), Default: json.RawMessage("{}")})
	n.Ports.Out = append(n.Ports.Out, plan.Out{Name: plan.StoresPort, Keys: []string{plan.InKey(plan.StoresPort)}})
	if b.pathPrefix != "" {
		n.Ports.In = append(n.Ports.In, changesIn)
		n.Ports.Out = append(n.Ports.Out, plan.Out{Name: plan.ChangesPort, Keys: []string{changesIn.Key}})
	}
}

var changesIn = plan.In{Name: plan.ChangesPort, Key: "$" + plan.ChangesPort, Default: json.RawMessage("[]")}

// rejectStores reports a flow that uses in-memory datastores but is called by an agent, whose calls cannot access them.
func (b *builder) rejectStores(c *model.Component, id string) {
	if b.storeFlows[id] {
		b.Errorf(c.At, CodeNotYet, "call it by a node, or use a PostgresDatabaseDatastore", "%s uses an %s and is called by agents, which is not supported yet", c, memoryStore)
	}
}

func operation(c *model.Component, name string) plan.Operation {
	o := plan.Operation{Name: name, Do: operations[c.Type.Name]}
	if o.Do == plan.DoQuery {
		o.Query = c.Text("query")
	} else {
		o.Collection = c.Text("collection_name")
	}
	if o.Do == plan.DoList {
		o.One = c.Flag("unpack_single_entity_from_list")
		if c.Field("limit") != nil {
			o.Limit = int(c.Number("limit"))
		}
	}
	if c.Type.Field("where") != nil {
		for _, m := range c.JSON("where").Members {
			o.Where = append(o.Where, plan.Condition{Member: m.Key, Value: m.Value.JSON()})
		}
	}
	return o
}

func collections(store *model.Component) []plan.Collection {
	return source.Map(store.JSON("datastore_schema").Members, func(m source.Member) plan.Collection {
		return plan.Collection{Name: m.Key, Schema: m.Value.JSON()}
	})
}

// database returns the connection to a database. Address and login come from the worker's connection of the same name.
func (b *builder) database(c *model.Component) plan.Connection {
	conn := plan.Connection{ID: unique(b.ids, model.SafeID(cmp.Or(c.Name, c.ID))), Name: c.Name, Kind: plan.ConnectionDatabase, Description: c.Description, Collections: collections(c)}
	if !b.host.Connections[conn.ID] {
		b.Warnf(c.At, CodeDatastore, fmt.Sprintf("set in weft.yaml: connections: {%q: {transport: postgres, url: \"postgres://USER@HOST:5432/DATABASE\", password: \"${PASSWORD}\"}}", conn.ID),
			"%s needs the worker's connection %q, whose address and login are used instead of connection_config", c, conn.ID)
	}
	return conn
}
