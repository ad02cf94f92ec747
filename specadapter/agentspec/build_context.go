package agentspec

import (
	"cmp"
	"strings"

	"weft/specadapter/agentspec/model"
	"weft/workflows/plan"
)

// Instructions of summaries where the author gives none.
const (
	conversationInstructions = "Please make a summary of this conversation. Include relevant information and keep it short. Your response will replace the messages, so just output the summary directly, no introduction needed."
	messageInstructions      = "Please make a summary of this message. Include relevant information and keep it short. Your response will replace the message, so just output the summary directly, no introduction needed."
)

// transforms sets how an agent's conversation is shortened; several of one kind apply in order.
func (b *builder) transforms(c *model.Component, a *plan.Agent) {
	for _, t := range c.Components("transforms") {
		switch t.Type.Name {
		case "MessageSummarizationTransform":
			l := plan.Long{Characters: int(t.Number("max_message_size")), Summary: *b.summary(t, messageInstructions, "summarized_message_template")}
			if a.Long == nil {
				a.Long = &l
			} else {
				a.MoreLong = append(a.MoreLong, l)
			}
		case "ConversationSummarizationTransform":
			k := plan.Context{How: plan.ContextSummarise, Keep: int(t.Number("min_num_messages")),
				Summary: b.summary(t, conversationInstructions, "summarized_conversation_template")}
			if t.Field("max_num_characters") != nil {
				k.Characters = int(t.Number("max_num_characters"))
			} else {
				k.Messages = int(t.Number("max_num_messages"))
			}
			if a.Context == nil {
				a.Context = &k
			} else {
				a.MoreContexts = append(a.MoreContexts, k)
			}
		}
	}
}

// summary is how a transform makes its summaries.
func (b *builder) summary(t *model.Component, instructions, template string) *plan.Summary {
	var by plan.Agent
	b.model(t.Component("llm"), &by)
	s := &plan.Summary{Model: by.Model, Params: by.Params, Instructions: cmp.Or(t.Text("summarization_instructions"), instructions), Template: t.Text(template)}
	// Any space around the name is as good as none.
	for _, form := range []string{"{{ summary }}", "{{summary }}", "{{ summary}}"} {
		s.Template = strings.ReplaceAll(s.Template, form, "{{summary}}")
	}
	if !strings.Contains(s.Template, "{{summary}}") {
		b.Errorf(t.FieldPos(template), "field-value", "write {{summary}} into it", "%s of %s does not contain the summary", template, t)
	}
	for _, name := range []string{"max_cache_size", "max_cache_lifetime"} {
		if f := t.Field(name); f != nil && !b.warned[t] {
			b.Warnf(f.At, CodeNoEffect, "remove it", "%s of %s has no effect: summaries are kept with the run", name, t)
			b.warned[t] = true
		}
	}
	return s
}

// datastore refuses a store that nothing can use.
func (b *builder) datastore(c *model.Component, f *model.Field) {
	for _, store := range f.Components {
		if store.Type.Name != "InMemoryCollectionDatastore" {
			b.Errorf(f.At, CodeNotYet, "remove datastore or use an InMemoryCollectionDatastore: summaries are kept with the run",
				"%s stores summaries in %s, which is not supported yet", c, store)
		}
	}
}
