package source

// InlineSecret is a secret in a document, for the one worker that may know it. It must reach neither
// a plan nor a log.
type InlineSecret struct {
	// Ref is the name by which the plan knows the secret.
	Ref string `json:"ref"`
	// Value is the secret; File reports whether it may be the path of a file of it.
	Value string `json:"value"`
	File  bool   `json:"file,omitempty"`
	// Hosts are where it may be used. It is empty for what belongs to a provider of models.
	Hosts []string `json:"hosts,omitempty"`
	// Provider is the provider of models whose setting it is: [SettingKey] or [SettingAuthFile].
	Provider string `json:"provider,omitempty"`
	Setting  string `json:"setting,omitempty"`
}

// The settings of a provider of models that a document may contain.
const (
	SettingKey      = "key"
	SettingAuthFile = "auth_file"
)
