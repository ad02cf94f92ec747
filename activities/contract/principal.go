package contract

// Principal is who starts a run, or answers it.
type Principal struct {
	Name   string `json:"name"`
	Tenant string `json:"tenant,omitempty"`
}

// Value is the principal itself, an empty one of nil.
func (p *Principal) Value() Principal {
	if p == nil {
		return Principal{}
	}
	return *p
}

// String names a principal for messages.
func (p *Principal) String() string {
	switch {
	case p == nil || p.Name == "":
		return "an unknown principal"
	case p.Tenant == "":
		return p.Name
	}
	return p.Name + " of " + p.Tenant
}
