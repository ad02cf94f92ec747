package plan

import "encoding/json"

// ConnectionDatabase is a database that the worker knows by the connection's id: a connection of this kind has
// [Connection.Operations] on [Connection.Collections], which are tables.
const ConnectionDatabase = "database"

// Collection is a set of objects. Its name and those of their members are the only ones that operations may name.
type Collection struct {
	Name string `json:"name"`
	// Schema is the JSON Schema of the objects.
	Schema json.RawMessage `json:"schema"`
}

// Operation is a tool that reads or changes a collection.
//
// Sources: the nodes for datastores of WayFlow's plugins.
type Operation struct {
	Name string `json:"name"`
	// Do is one of the constants.
	Do string `json:"do"`
	// Collection is its name. It may hold placeholders, {{NAME}}, of the arguments of a call.
	Collection string `json:"collection,omitempty"`
	// Where are the members that the objects must have, all of them; without any they are all objects.
	Where []Condition `json:"where,omitempty"`
	// Limit, if positive, is how many objects are listed at most. One wants a single object, not a list.
	Limit int  `json:"limit,omitempty"`
	One   bool `json:"one,omitempty"`
	// Query is the statement of an operation of [DoQuery], with :NAME for each value.
	Query string `json:"query,omitempty"`
}

// Condition is a member that an object must have. A value that is a placeholder is the argument of that name; a text, or
// the member's name, may hold placeholders.
type Condition struct {
	Member string          `json:"member"`
	Value  json.RawMessage `json:"value"`
}

// What an [Operation] does with its arguments; the result has one member.
const (
	// DoList gives the objects as "entities".
	DoList = "list"
	// DoCreate adds the object "entity" and gives it as "created_entity".
	DoCreate = "create"
	// DoUpdate changes the members in the object "update" and gives the changed objects as "entities".
	DoUpdate = "update"
	// DoDelete removes objects.
	DoDelete = "delete"
	// DoQuery gives the rows of a statement that changes nothing as "result"; its values are the members of "bind_variables".
	DoQuery = "query"
)

// Changes reports whether the operation changes the collection.
func (o *Operation) Changes() bool { return o.Do != DoList && o.Do != DoQuery }
