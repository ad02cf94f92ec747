package plan

import "encoding/json"

// TLS specifies a client's certificate and the CA it trusts, as names of the worker's secrets, whose values are PEM or
// the path of a PEM file. Cert and Key must be set together.
type TLS struct {
	CA   string `json:"ca,omitempty"`
	Cert string `json:"cert,omitempty"`
	Key  string `json:"key,omitempty"`
}

// Retry specifies how a failed call is retried, instead of the flow's policy. Only transient failures are ever retried.
//
// Sources: Agent Spec's RetryPolicy.
type Retry struct {
	// Attempts is the number of retries; 0 means none.
	Attempts int `json:"attempts"`
	// TimeoutMillis, if positive, limits one attempt. TimeoutAt is its position in the document, for messages about tool
	// calls.
	TimeoutMillis int    `json:"timeout_millis,omitempty"`
	TimeoutAt     string `json:"timeout_at,omitempty"`
	// FirstMillis is the delay before the second attempt; each further delay is Factor times as long, at most MostMillis.
	FirstMillis int     `json:"first_millis"`
	MostMillis  int     `json:"most_millis"`
	Factor      float64 `json:"factor"`
	// Statuses are further HTTP statuses that count as transient; NoServer excludes those from 500 on. Both apply only to
	// HTTP requests that a flow specifies.
	Statuses []int `json:"statuses,omitempty"`
	NoServer bool  `json:"no_server,omitempty"`
}

// retries checks the retry policies of connections and nodes.
func (c *checker) retries() {
	check := func(what string, r *Retry) {
		if r == nil {
			return
		}
		for _, n := range []int{r.Attempts, r.TimeoutMillis, r.FirstMillis, r.MostMillis} {
			if n < 0 || n > maxLimit {
				c.add("%s: the numbers of the retry policy must be 0 to %d, got %d", what, maxLimit, n)
				return
			}
		}
		if r.Factor < 1 || r.Factor > 1000 || r.MostMillis < r.FirstMillis {
			c.add("%s: invalid retry policy: factor %v, delays %d to %d", what, r.Factor, r.FirstMillis, r.MostMillis)
		}
	}
	for i := range c.f.Connections {
		check("connection "+c.f.Connections[i].ID, c.f.Connections[i].Retry)
	}
	for i := range c.f.Nodes {
		if a := c.f.Nodes[i].Agent; a != nil {
			check("node "+c.f.Nodes[i].ID, a.Retry)
		}
	}
}

// ConnectionHTTP is a server with a plain HTTP API: a connection of this kind has [Connection.Requests], and its URL
// consists of scheme and host only.
const ConnectionHTTP = "http"

// Request is a tool that makes one HTTP request. Its texts may contain placeholders, {{NAME}}, for the arguments of a
// call; the host cannot.
//
// Sources: Agent Spec's RemoteTool and ApiNode.
type Request struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Schema is the JSON Schema of the arguments object.
	Schema json.RawMessage `json:"schema"`
	Method string          `json:"method"`
	// Path is appended to the connection's URL, with a query if it has one.
	Path    string   `json:"path"`
	Query   []Header `json:"query,omitempty"`
	Headers []Header `json:"headers,omitempty"`
	// Body is sent as JSON, except that an object is sent as a form if a header says so, and a string that is not JSON is
	// sent as it is. If absent, there is no body.
	Body json.RawMessage `json:"body,omitempty"`
	// Allow, if set, are the prefixes of the URLs that may be requested.
	Allow []string `json:"allow,omitempty"`
}

// ConnectionDatabase is a database that the worker configures under the connection's id: a connection of this kind has
// [Connection.Operations] on [Connection.Collections], which are tables.
const ConnectionDatabase = "database"

// Collection is a set of objects. Operations may refer only to collections and members that are declared.
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
	// Do is one of the Do constants.
	Do string `json:"do"`
	// Collection is the collection's name. It may contain placeholders, {{NAME}}, for the arguments of a call.
	Collection string `json:"collection,omitempty"`
	// Where are the conditions that objects must meet, all of them; if empty, all objects match.
	Where []Condition `json:"where,omitempty"`
	// Limit, if positive, is the maximum number of objects listed. One requests a single object instead of a list.
	Limit int  `json:"limit,omitempty"`
	One   bool `json:"one,omitempty"`
	// Query is the statement of an operation of [DoQuery], with :NAME for each value.
	Query string `json:"query,omitempty"`
}

// Condition is a value that a member of an object must have. A value that is a placeholder is replaced by the argument of
// that name; other strings, and the member's name, may contain placeholders.
type Condition struct {
	Member string          `json:"member"`
	Value  json.RawMessage `json:"value"`
}

// The values of [Operation.Do]. The result has one member.
const (
	// DoList returns the objects as "entities".
	DoList = "list"
	// DoCreate adds the object "entity" and returns it as "created_entity".
	DoCreate = "create"
	// DoUpdate changes the members in the object "update" and returns the changed objects as "entities".
	DoUpdate = "update"
	// DoDelete deletes objects.
	DoDelete = "delete"
	// DoQuery returns the rows of a read-only statement as "result"; its values are the members of "bind_variables".
	DoQuery = "query"
)

// Changes reports whether the operation changes the collection.
func (o *Operation) Changes() bool { return o.Do != DoList && o.Do != DoQuery }
