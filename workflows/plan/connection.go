package plan

import "encoding/json"

// TLS names what a client shows a server, and whom it believes: names of secrets of the
// worker's, whose values are PEM, or the path of a file of it. Cert and Key go together.
type TLS struct {
	CA   string `json:"ca,omitempty"`
	Cert string `json:"cert,omitempty"`
	Key  string `json:"key,omitempty"`
}

// Retry says how often and when a failed call is made again, in place of the flow's policy.
// Only failures that can pass are repeated, whatever it says.
//
// Sources: Agent Spec's RetryPolicy.
type Retry struct {
	// Attempts is how many there are after the first; 0 is none.
	Attempts int `json:"attempts"`
	// TimeoutMillis, if positive, bounds one attempt. TimeoutAt is the place of the document that says so of calls of tools, for
	// messages.
	TimeoutMillis int    `json:"timeout_millis,omitempty"`
	TimeoutAt     string `json:"timeout_at,omitempty"`
	// FirstMillis is the pause before the second attempt; each one after it is Factor times
	// as long, MostMillis at most.
	FirstMillis int     `json:"first_millis"`
	MostMillis  int     `json:"most_millis"`
	Factor      float64 `json:"factor"`
	// Statuses are further answers over HTTP that count as ones that can pass; NoServer takes
	// those from 500 on out. Both concern requests that a flow describes itself.
	Statuses []int `json:"statuses,omitempty"`
	NoServer bool  `json:"no_server,omitempty"`
}

// retries checks the retry policies of connections and nodes.
func (c *checker) retries() {
	one := func(what string, r *Retry) {
		if r == nil {
			return
		}
		for _, n := range []int{r.Attempts, r.TimeoutMillis, r.FirstMillis, r.MostMillis} {
			if n < 0 || n > maxLimit {
				c.add("%s: its retry policy has the number %d, want 0 to %d", what, n, maxLimit)
				return
			}
		}
		if r.Factor < 1 || r.Factor > 1000 || r.MostMillis < r.FirstMillis {
			c.add("%s: its retry policy has the factor %v and the pauses %d to %d", what, r.Factor, r.FirstMillis, r.MostMillis)
		}
	}
	for i := range c.f.Connections {
		one("connection "+c.f.Connections[i].ID, c.f.Connections[i].Retry)
	}
	for i := range c.f.Nodes {
		if a := c.f.Nodes[i].Agent; a != nil {
			one("node "+c.f.Nodes[i].ID, a.Retry)
		}
	}
}

// ConnectionHTTP is a server that is asked over HTTP, without a protocol above it: a connection
// of this kind has [Connection.Requests], and its URL is scheme and host alone.
const ConnectionHTTP = "http"

// Request is a tool that is one HTTP request. Its texts hold placeholders, {{NAME}}, of the
// arguments of a call; the host holds none.
//
// Sources: Agent Spec's RemoteTool and ApiNode.
type Request struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Schema is the JSON Schema of the arguments object.
	Schema json.RawMessage `json:"schema"`
	Method string          `json:"method"`
	// Path is what comes behind the connection's URL, with a query if it has one.
	Path    string   `json:"path"`
	Query   []Header `json:"query,omitempty"`
	Headers []Header `json:"headers,omitempty"`
	// Body is sent as JSON; an object as a form where a header says so; a text as JSON where it
	// is some, else as it is. Absent: no body.
	Body json.RawMessage `json:"body,omitempty"`
	// Allow, if set, are the beginnings of addresses that may be asked.
	Allow []string `json:"allow,omitempty"`
}

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
