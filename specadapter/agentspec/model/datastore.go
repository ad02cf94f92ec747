package model

import (
	"strings"

	"weft/specadapter/source"
)

// inferStore infers the inputs and the output of a node that works on a datastore: an object, and objects or a list of them.
func inferStore(takes, gives string) func(*loader, *Component) inferred {
	return func(l *loader, c *Component) inferred {
		inf := inferred{in: placeholders(l, c)}
		if takes != "" {
			inf.in = append(inf.in, &Property{Title: takes, Type: anyObject, At: c.At})
		}
		if gives == "" {
			return inf
		}
		out := &Property{Title: gives, Type: ArrayOf(anyObject), At: c.At}
		if gives == "created_entity" || c.Type.Field("unpack_single_entity_from_list") != nil && c.Flag("unpack_single_entity_from_list") {
			out.Type = anyObject
		}
		inf.out = []*Property{out}
		return inf
	}
}

func checkStoreNode(l *loader, c *Component) {
	store := c.Component("datastore")
	if name := c.FieldPos("collection_name"); c.Type.Field("collection_name") != nil && store != nil && !strings.Contains(c.Text("collection_name"), "{{") {
		if schema := store.JSON("datastore_schema"); schema.Get(c.Text("collection_name")) == nil {
			l.Errorf(name, "datastore-node", "name a collection of its datastore_schema", "%s has no collection %s", store, source.Quote(c.Text("collection_name")))
		}
	}
	if c.Type.Field("limit") != nil {
		if f := c.Field("limit"); f != nil && c.Number("limit") < 1 {
			l.Errorf(f.At, "datastore-node", "write a number of at least 1", "limit of %s is %s", c, f.JSON.Describe())
		}
		if c.Flag("unpack_single_entity_from_list") && c.Number("limit") != 1 {
			l.Errorf(c.FieldPos("unpack_single_entity_from_list"), "datastore-node", "write \"limit\": 1", "%s gives a single object, but lists several", c)
		}
	}
	if where := c.Type.Field("where"); where != nil && c.Type.Field("limit") == nil && c.Field("where") == nil {
		l.Errorf(c.At, "field-missing", "write \"where\"; {} is all objects", "%s has no where", c)
	}
	if c.Type.Field("query") != nil && strings.Contains(c.Text("query"), "{{") {
		l.Errorf(c.FieldPos("query"), "datastore-node", "write :NAME, and give the value in bind_variables", "query of %s has a placeholder", c)
	}
}
