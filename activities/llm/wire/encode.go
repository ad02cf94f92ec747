package wire

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
	"weft/activities/textutil"
)

// Parameters are the parameters that are set, under their names in chat completions.
func (q *Request) Parameters() map[string]any {
	o, out := &q.Options, object{}
	set := func(name string, is bool, value any) {
		if is {
			out[name] = value
		}
	}
	set("temperature", o.Temperature >= 0, o.Temperature)
	set("top_p", o.TopP >= 0, o.TopP)
	set("top_k", o.TopK != 0, o.TopK)
	set("seed", o.Seed >= 0, o.Seed)
	set("frequency_penalty", o.FrequencyPenalty != 0, o.FrequencyPenalty)
	set("presence_penalty", o.PresencePenalty != 0, o.PresencePenalty)
	set("max_tokens", o.MaxTokens != 0, o.MaxTokens)
	set("stop", len(o.StopWords) > 0, o.StopWords)
	set("parallel_tool_calls", q.Parallel != nil, q.Parallel)
	set("reasoning_effort", q.Effort != "", q.Effort)
	return out
}

// parameters are the request's in words like [Server].Words; those with an empty word are left out. Models that refuse
// sampling parameters get none.
func (m *Model) parameters(q *Request, words map[string]string) object {
	out := object{}
	for name, value := range q.Parameters() {
		word, other := words[name]
		if !other {
			word = name
		}
		field, inner, nested := strings.Cut(word, ".")
		switch {
		case word == "", (name == "temperature" || name == "top_p") && m.begins(m.NoSampling...):
		case nested:
			out[field] = object{inner: value}
		default:
			out[field] = value
		}
	}
	return out
}

// The modes of a tool choice.
const (
	choiceAuto     = "auto"
	choiceNone     = "none"
	choiceRequired = "required"
)

// offer is the tools of a request, and the mode of their choice or the one tool that must be called; neither if none is set.
type offer struct {
	tools      []any
	mode, tool string
}

// offer checks the tools and the choice. schemaField is where a tool has its schema, and wrap what a tool is in.
func (q *Request) offer(schemaField string, wrap func(tool object) any) (offer, error) {
	var out offer
	switch v := q.Options.ToolChoice.(type) {
	case string:
		out.mode = v
	case llms.ToolChoice:
		if v.Function != nil {
			out.tool = v.Function.Name
		}
	}
	known := slices.Contains([]string{choiceAuto, choiceNone, choiceRequired}, out.mode)
	if q.Options.ToolChoice != nil && out.tool == "" && !known {
		return out, unsendable("tool_choice is %v, want auto, none, required or a function", q.Options.ToolChoice)
	}
	for _, t := range q.Options.Tools {
		tool, err := describe(t, schemaField)
		if err != nil {
			return out, err
		}
		out.tools = append(out.tools, wrap(tool))
	}
	return out, nil
}

// only leaves the one tool that must be called. Tools are functions of chat completions.
func (o *offer) only() {
	o.tools = slices.DeleteFunc(o.tools, func(t any) bool { return t.(object)["function"].(object)["name"] != o.tool })
}

// describe is a tool under the names that most protocols have. One without a schema takes any object.
func describe(t llms.Tool, schemaField string) (object, error) {
	if t.Function == nil || t.Function.Name == "" {
		return nil, unsendable("a tool of type %q has no name", t.Type)
	}
	schema := t.Function.Parameters
	if raw, ok := schema.(json.RawMessage); ok && len(raw) > 0 && !json.Valid(raw) {
		return nil, unsendable("the schema of tool %q is not JSON", t.Function.Name)
	} else if schema == nil || ok && len(raw) == 0 {
		schema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	tool := object{"name": t.Function.Name, schemaField: schema}
	if t.Function.Description != "" {
		tool["description"] = t.Function.Description
	}
	return tool, nil
}

// turns merges consecutive messages of one role: all results of an answer's calls must come together. The conversation
// begins with the user, where it must have something to say. assistant is that role's name, field where content is.
func turns(in []contract.Message, assistant, field string, content func(*contract.Message) []any, empty object) []object {
	var out []object
	for i := range in {
		role, parts := "user", content(&in[i])
		if in[i].Role == contract.RoleAssistant {
			role = assistant
		}
		if len(parts) == 0 {
			continue
		}
		if len(out) == 0 && role != "user" {
			out = append(out, object{"role": "user", field: []any{empty}})
		}
		if n := len(out); n > 0 && out[n-1]["role"] == role {
			out[n-1][field] = append(out[n-1][field].([]any), parts...)
		} else {
			out = append(out, object{"role": role, field: parts})
		}
	}
	if len(out) == 0 {
		out = append(out, object{"role": "user", field: []any{empty}})
	}
	return out
}

func budget(budgets map[string]int, effort string) (int, error) {
	n, ok := budgets[effort]
	if !ok {
		return 0, unsendable("reasoning_effort is %q, want none, minimal, low, medium, high, xhigh or max", effort)
	}
	return n, nil
}

// send ends the encoding of a request: path is appended to the base URL, and the author's extra fields are merged into
// the body.
func (m *Model) send(path string, body object, extra json.RawMessage, answer Reader) (*Outgoing, error) {
	raw, err := marshal(body, extra)
	return &Outgoing{URL: m.Base + path, Body: raw, Stream: body["stream"] == true, Answer: answer}, err
}

func marshal(body object, extra json.RawMessage) (json.RawMessage, error) {
	raw, err := textutil.JSON(body)
	if err != nil {
		return nil, unsendable("%v", err)
	}
	if !isSet(extra) {
		return raw, nil
	}
	return merged("", raw, extra)
}

// joined are the lists of a request to which the author's extra fields can add: the provider's own tools, such as a search.
var joined = []string{" tools", " include", " toolConfig tools"}

// merged adds the members of one object to another, recursively. It never replaces a value that the engine has set.
func merged(path string, into, from json.RawMessage) (json.RawMessage, error) {
	var have, more map[string]json.RawMessage
	var list, added []json.RawMessage
	if slices.Contains(joined, path) && json.Unmarshal(into, &list) == nil && json.Unmarshal(from, &added) == nil {
		return textutil.JSON(append(list, added...))
	}
	if json.Unmarshal(from, &more) != nil || more == nil {
		return nil, unsendable("extra parameters%s are not a JSON object", path)
	}
	if json.Unmarshal(into, &have) != nil || have == nil {
		return nil, unsendable("extra parameter%s is set by the engine already; leave it out", path)
	}
	for _, key := range slices.Sorted(maps.Keys(more)) {
		value := more[key]
		if have[key] != nil {
			var err error
			if value, err = merged(path+" "+key, have[key], value); err != nil {
				return nil, unsendable("extra parameter%s is set by the engine already; use the parameter of its own, or leave it out", path+" "+key)
			}
		}
		have[key] = value
	}
	return textutil.JSON(have)
}

// IDRule says which ids of tool calls a server accepts.
type IDRule int

// The rules; the zero value accepts any.
const (
	IDsMax40 IDRule = 1 + iota // at most 40 bytes
	IDsNine                    // nine letters or digits
	IDsWord                    // letters, digits, _ and -, at most 64
)

// idForms are the ids that a server accepts, and of others the hash's prefix and length.
var idForms = map[IDRule]struct {
	accepted *regexp.Regexp
	prefix   string
	digits   int
}{
	IDsMax40: {regexp.MustCompile(`(?s)^.{0,40}$`), "call_", 32},
	IDsNine:  {regexp.MustCompile(`^[A-Za-z0-9]{9}$`), "", 9},
	IDsWord:  {regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`), "call_", 32},
}

// callID gives an id that the server accepts; the same id always becomes the same.
func (m *Model) callID(id string) string {
	form, ruled := idForms[m.CallIDs]
	if !ruled || form.accepted.MatchString(id) {
		return id
	}
	return form.prefix + contract.SHA([]byte(id))[:form.digits]
}

// objectArguments are a call's arguments as a JSON object. Invalid ones are wrapped in one, so that the model sees what
// it wrote.
func objectArguments(args string) string {
	trimmed := strings.TrimSpace(args)
	switch {
	case trimmed == "":
		return "{}"
	case trimmed[0] == '{' && json.Valid([]byte(args)):
		return args
	}
	quoted, _ := textutil.JSON(map[string]string{"unparsable_arguments": args}) // a map of strings always encodes
	return string(quoted)
}

// emptyText stands for a message without text where a provider takes none.
const emptyText = "(empty)"
