package plan

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
