package plan

// What a model is sent of a conversation that grows too long for it. The conversation itself
// stays whole.
const (
	// ContextFail fails the node.
	ContextFail = "fail"
	// ContextTruncate leaves earlier messages out, and says so.
	ContextTruncate = "truncate"
	// ContextSummarise has a summary stand for earlier messages.
	ContextSummarise = "summarise"
)

// Contexts are the values of [Context.How].
var Contexts = []string{ContextFail, ContextTruncate, ContextSummarise}

// Context is what becomes of a conversation beyond a threshold, and where a model says that it is
// too long. Results of tools are never without the message that called them.
//
// Sources: Agent Spec's ConversationSummarizationTransform; the worker's configuration.
type Context struct {
	How string `json:"how"`
	// Tokens, Messages and Characters are thresholds of what is sent; zero is none.
	Tokens     int `json:"tokens,omitempty"`
	Messages   int `json:"messages,omitempty"`
	Characters int `json:"characters,omitempty"`
	// Keep is how many of the last messages are sent in any case. Beyond Tokens, what half of
	// them hold is kept.
	Keep int `json:"keep,omitempty"`
	// Summary is set for [ContextSummarise].
	Summary *Summary `json:"summary,omitempty"`
}

// Long has a summary stand for every message that is longer than a number of characters.
//
// Sources: Agent Spec's MessageSummarizationTransform.
type Long struct {
	Characters int     `json:"characters"`
	Summary    Summary `json:"summary"`
}

// Summary is how a summary is made.
type Summary struct {
	// Model, if set, is provider/model; else the agent's own makes it.
	Model  string  `json:"model,omitempty"`
	Params *Params `json:"params,omitempty"`
	// Instructions are the system message. Template is what is sent, with {{summary}}.
	Instructions string `json:"instructions"`
	Template     string `json:"template"`
}

// DefaultSummary makes summaries where no one says how.
var DefaultSummary = Summary{
	Instructions: "Please make a summary of this conversation. Include relevant information and keep it short. " +
		"Your response will replace the messages, so just output the summary directly, no introduction needed.",
	Template: "Summarized conversation: {{summary}}",
}

// Contexts are all policies for the agent's conversation, in order.
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

// Longs are all that shorten the agent's messages, in order.
func (a *Agent) Longs() []*Long {
	var out []*Long
	if a.Long != nil {
		out = append(out, a.Long)
	}
	for i := range a.MoreLong {
		out = append(out, &a.MoreLong[i])
	}
	return out
}

// context checks what becomes of an agent's conversation.
func (c *checker) context(n *Node) {
	for _, k := range n.Agent.Contexts() {
		switch known := k.How == ContextFail || k.How == ContextTruncate || k.How == ContextSummarise; {
		case !known:
			c.add("node %q: context.how is %q, want one of %v", n.ID, k.How, Contexts)
		case (k.How == ContextSummarise) != (k.Summary != nil):
			c.add("node %q: context.summary requires context.how %q, and the reverse", n.ID, ContextSummarise)
		case k.Tokens < 0 || k.Messages < 0 || k.Characters < 0 || k.Keep < 0:
			c.add("node %q: a threshold of context is less than 0", n.ID)
		case k.Messages > 0 && k.Messages <= k.Keep:
			c.add("node %q: context.messages is %d, want more than context.keep, %d", n.ID, k.Messages, k.Keep)
		}
	}
	for _, l := range n.Agent.Longs() {
		if l.Characters < 1 {
			c.add("node %q: long.characters is %d, want 1 or more", n.ID, l.Characters)
		}
	}
}
