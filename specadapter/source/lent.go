package source

// Lent is a secret that stands in a document, on its way to the one worker that may know it. It
// must reach neither a plan nor a log.
type Lent struct {
	// Ref is the name by which the plan knows the secret.
	Ref string `json:"ref"`
	// Value is the secret; File says that it may be the path of a file of it.
	Value string `json:"value"`
	File  bool   `json:"file,omitempty"`
	// Hosts are where it may be used. It is empty for what belongs to a provider of models.
	Hosts []string `json:"hosts,omitempty"`
	// Provider is the provider of models whose setting it is: [LentKey] or [LentAuthFile].
	Provider string `json:"provider,omitempty"`
	Setting  string `json:"setting,omitempty"`
}

// What a provider of models can be lent.
const (
	LentKey      = "key"
	LentAuthFile = "auth_file"
)
