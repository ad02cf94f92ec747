package agentspec

import (
	"cmp"
	"fmt"

	"weft/specadapter/agentspec/model"
	"weft/workflows/plan"
)

// datastore refuses a store that nothing can use.
func (b *builder) datastore(c *model.Component, f *model.Field) {
	node := c.Type.Satisfies("Node")
	for _, store := range f.Components {
		switch is := store.Type.Acts(); {
		case node && is == "PostgresDatabaseDatastore", !node && is == "InMemoryCollectionDatastore":
		case node:
			b.Errorf(f.At, CodeNotYet, "use a PostgresDatabaseDatastore", "%s works on %s, which is not supported yet", c, store)
		case is == "PostgresDatabaseDatastore":
			b.Warnf(f.At, CodeNoEffect, "remove it", "datastore of %s has no effect: summaries are kept with the run", c)
		default:
			b.Errorf(f.At, CodeNotYet, "remove datastore or use an InMemoryCollectionDatastore: summaries are kept with the run",
				"%s stores summaries in %s, which is not supported yet", c, store)
		}
	}
}

// operations are what nodes do with a datastore.
var operations = map[string]string{"PluginDatastoreListNode": plan.DoList, "PluginDatastoreCreateNode": plan.DoCreate, "PluginDatastoreUpdateNode": plan.DoUpdate,
	"PluginDatastoreDeleteNode": plan.DoDelete, "PluginDatastoreQueryNode": plan.DoQuery}

// operation is what a node does with its datastore, as a tool of the datastore's connection.
func (b *builder) operation(c *model.Component, node string) *plan.Tool {
	id := b.connect(c.Component("datastore"), b.database)
	var conn *plan.Connection
	taken := map[string]bool{}
	for i := range b.connections {
		if b.connections[i].ID == id {
			conn = &b.connections[i]
		}
	}
	for i := range conn.Operations {
		taken[conn.Operations[i].Name] = true
	}
	o := plan.Operation{Name: unique(taken, node), Do: operations[c.Type.Name]}
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
	conn.Operations = append(conn.Operations, o)
	return &plan.Tool{Name: o.Name, As: toolName(o.Name), Description: c.Description, Connection: id}
}

// database makes the connection to a datastore. Its address and login are those of the worker's connection of its name.
func (b *builder) database(c *model.Component) plan.Connection {
	conn := plan.Connection{ID: unique(b.ids, model.SafeID(cmp.Or(c.Name, c.ID))), Name: c.Name, Kind: plan.ConnectionDatabase, Description: c.Description}
	for _, m := range c.JSON("datastore_schema").Members {
		conn.Collections = append(conn.Collections, plan.Collection{Name: m.Key, Schema: m.Value.JSON()})
	}
	if !b.host.Connections[conn.ID] {
		b.Warnf(c.At, CodeDatastore, fmt.Sprintf("set in weft.yaml: connections: {%q: {transport: postgres, url: \"postgres://USER@HOST:5432/DATABASE\", password: \"${PASSWORD}\"}}", conn.ID),
			"%s needs the worker's connection %q, whose address and login are used instead of connection_config", c, conn.ID)
	}
	return conn
}
