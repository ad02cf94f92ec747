package plan

// Hooks are flows that run before and after each run of a flow.
//
// Sources: the blueprint dialect's hooks.
type Hooks struct {
	// Before gets the run's parameters, and decides whether the run continues and with which parameters. After gets the
	// result of a completed run, and is not waited for.
	Before *Hook `json:"before,omitempty"`
	After  *Hook `json:"after,omitempty"`
}

// Hook is a flow that runs before or after a run.
type Hook struct {
	// Flow is the id of a flow in [Flow.Agents].
	Flow string `json:"flow"`
	// Block stops the run if the hook fails; otherwise the run continues.
	Block bool `json:"block,omitempty"`
	// Seconds is the hook's time limit, at least 1.
	Seconds int `json:"seconds"`
}

func (c *checker) hooks() {
	if c.f.Hooks == nil {
		return
	}
	for _, h := range []*Hook{c.f.Hooks.Before, c.f.Hooks.After} {
		switch {
		case h == nil:
		case h.Flow == c.f.ID || c.root.SubFlow(h.Flow) == nil:
			c.add("hook refers to the unknown flow %q", h.Flow)
		case h.Seconds < 1 || h.Seconds > maxLimit:
			c.add("hook %q: seconds must be 1 to %d, got %d", h.Flow, maxLimit, h.Seconds)
		}
	}
}
