package plan

// Hooks are flows that are run before and after each run of a flow.
//
// Sources: the blueprint dialect's hooks.
type Hooks struct {
	// Before is given the run's parameters, and reports whether the run goes on and with which; After
	// is given the result of a run that completed, and no one waits for it.
	Before *Hook `json:"before,omitempty"`
	After  *Hook `json:"after,omitempty"`
}

// Hook is one of them.
type Hook struct {
	// Flow is the id of a flow in [Flow.Agents].
	Flow string `json:"flow"`
	// Block stops the run where the hook fails; else the run goes on.
	Block bool `json:"block,omitempty"`
	// Seconds is how long the hook may take, at least 1.
	Seconds int `json:"seconds"`
}

func (c *checker) hooks() {
	if c.f.Hooks == nil {
		return
	}
	for _, h := range []*Hook{c.f.Hooks.Before, c.f.Hooks.After} {
		switch {
		case h == nil:
		case h.Flow == c.f.ID || c.whole.SubFlow(h.Flow) == nil:
			c.add("a hook runs the unknown flow %q", h.Flow)
		case h.Seconds < 1 || h.Seconds > maxLimit:
			c.add("the hook %q may take %d seconds, want 1 to %d", h.Flow, h.Seconds, maxLimit)
		}
	}
}
