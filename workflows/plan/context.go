package plan

// The values of [Context.How]: what is sent to a model if a conversation grows too long for it. The conversation itself
// is never shortened.
const (
	// ContextFail fails the node.
	ContextFail = "fail"
	// ContextTruncate omits earlier messages, and says so.
	ContextTruncate = "truncate"
	// ContextSummarise replaces earlier messages with a summary.
	ContextSummarise = "summarise"
)

// Contexts lists the values of [Context.How].
var Contexts = []string{ContextFail, ContextTruncate, ContextSummarise}

// Context handles a conversation that exceeds a threshold, or that a model rejects as too long. Tool results are never
// sent without the message that made the call.
//
// Sources: Agent Spec's ConversationSummarizationTransform; the worker's configuration.
type Context struct {
	How string `json:"how"`
	// Tokens, Messages and Characters are thresholds for what is sent; zero means none.
	Tokens     int `json:"tokens,omitempty"`
	Messages   int `json:"messages,omitempty"`
	Characters int `json:"characters,omitempty"`
	// Keep is how many of the last messages are always sent. Above Tokens, as many are kept as fit in half of that.
	Keep int `json:"keep,omitempty"`
	// Summary is set for [ContextSummarise].
	Summary *Summary `json:"summary,omitempty"`
}

// Long replaces every message longer than a number of characters with a summary.
//
// Sources: Agent Spec's MessageSummarizationTransform.
type Long struct {
	Characters int     `json:"characters"`
	Summary    Summary `json:"summary"`
}

// Summary configures how a summary is made.
type Summary struct {
	// Model, if set, is provider/model; otherwise the agent's own model is used.
	Model  string  `json:"model,omitempty"`
	Params *Params `json:"params,omitempty"`
	// Instructions are the system message. Template is the text sent in place of the messages, with {{summary}}.
	Instructions string `json:"instructions"`
	Template     string `json:"template"`
}

// DefaultSummary is the summary configuration used if none is specified.
var DefaultSummary = Summary{
	Instructions: "Please make a summary of this conversation. Include relevant information and keep it short. " +
		"Your response will replace the messages, so just output the summary directly, no introduction needed.",
	Template: "Summarized conversation: {{summary}}",
}

// Contexts returns all policies for the agent's conversation, in order.
func (a *Agent) Contexts() []*Context {
	var out []*Context
	if a.Context != nil {
		out = append(out, a.Context)
	}
	for i := range a.MoreContexts {
		out = append(out, &a.MoreContexts[i])
	}
	return out
}

// LongMessagePolicies returns all policies for the agent's long messages, in order.
func (a *Agent) LongMessagePolicies() []*Long {
	var out []*Long
	if a.Long != nil {
		out = append(out, a.Long)
	}
	for i := range a.MoreLong {
		out = append(out, &a.MoreLong[i])
	}
	return out
}

// context checks an agent's policies for long conversations.
func (c *checker) context(n *Node) {
	for _, k := range n.Agent.Contexts() {
		switch valid := k.How == ContextFail || k.How == ContextTruncate || k.How == ContextSummarise; {
		case !valid:
			c.add("node %q: context.how must be one of %v, got %q", n.ID, Contexts, k.How)
		case (k.How == ContextSummarise) != (k.Summary != nil):
			c.add("node %q: context.summary and context.how %q require each other", n.ID, ContextSummarise)
		case k.Tokens < 0 || k.Messages < 0 || k.Characters < 0 || k.Keep < 0:
			c.add("node %q: the thresholds of context must not be negative", n.ID)
		case k.Messages > 0 && k.Messages <= k.Keep:
			c.add("node %q: context.messages is %d, but must exceed context.keep, %d", n.ID, k.Messages, k.Keep)
		}
	}
	for _, l := range n.Agent.LongMessagePolicies() {
		if l.Characters < 1 {
			c.add("node %q: long.characters must be at least 1, got %d", n.ID, l.Characters)
		}
	}
}
