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

// Parameters returns the parameters that are set, by their names in chat completions.
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

// parameters returns the request's parameters renamed as in [Server.ParamNames]; those with an empty name are omitted, and
// so are sampling parameters for models that reject them.
func (m *Model) parameters(q *Request, names map[string]string) object {
	out := object{}
	for name, value := range q.Parameters() {
		target, renamed := names[name]
		if !renamed {
			target = name
		}
		field, inner, nested := strings.Cut(target, ".")
		switch {
		case target == "", (name == "temperature" || name == "top_p") && m.hasPrefix(m.NoSampling...):
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

// toolOffer holds the tools of a request, and either the mode of the tool choice or the tool that must be called, if set.
type toolOffer struct {
	tools      []any
	mode, tool string
}

// offer validates and encodes the tools and the tool choice. schemaField is the field for a tool's schema; wrap returns the
// final form of a tool.
func (q *Request) offer(schemaField string, wrap func(tool object) any) (toolOffer, error) {
	var out toolOffer
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
		return out, unsendable("invalid tool_choice %v; expected auto, none, required or a function", q.Options.ToolChoice)
	}
	for _, t := range q.Options.Tools {
		tool, err := describeTool(t, schemaField)
		if err != nil {
			return out, err
		}
		out.tools = append(out.tools, wrap(tool))
	}
	return out, nil
}

// keepRequired removes all tools except the one that must be called. Tools must have the form of chat completions.
func (o *toolOffer) keepRequired() {
	o.tools = slices.DeleteFunc(o.tools, func(t any) bool { return t.(object)["function"].(object)["name"] != o.tool })
}

// describeTool returns a tool with the field names of most protocols. A tool without a schema accepts any object.
func describeTool(t llms.Tool, schemaField string) (object, error) {
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

// turns merges consecutive messages of one role, because all results of an answer's calls must be in one message. It
// inserts a user message, empty, if the conversation does not begin with one. assistant is the name of that role, field the
// field for content.
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

func tokenBudget(budgets map[string]int, effort string) (int, error) {
	n, ok := budgets[effort]
	if !ok {
		return 0, unsendable("invalid reasoning_effort %q; expected none, minimal, low, medium, high, xhigh or max", effort)
	}
	return n, nil
}

// send returns an encoded request. path is appended to the base URL; extra, the author's fields, is merged into the body.
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
	return merge("", raw, extra)
}

// extendableLists are the lists of a request to which extra fields can add, such as the provider's own tools.
var extendableLists = []string{" tools", " include", " toolConfig tools"}

// merge adds the members of one object to another, recursively. It never replaces a value that the engine has set.
func merge(path string, into, from json.RawMessage) (json.RawMessage, error) {
	var have, more map[string]json.RawMessage
	var list, added []json.RawMessage
	if slices.Contains(extendableLists, path) && json.Unmarshal(into, &list) == nil && json.Unmarshal(from, &added) == nil {
		return textutil.JSON(append(list, added...))
	}
	if json.Unmarshal(from, &more) != nil || more == nil {
		return nil, unsendable("extra parameters%s are not a JSON object", path)
	}
	if json.Unmarshal(into, &have) != nil || have == nil {
		return nil, unsendable("extra parameter%s is set by the engine; remove it", path)
	}
	for _, key := range slices.Sorted(maps.Keys(more)) {
		value := more[key]
		if have[key] != nil {
			var err error
			if value, err = merge(path+" "+key, have[key], value); err != nil {
				return nil, unsendable("extra parameter%s is set by the engine; use its own parameter, or remove it", path+" "+key)
			}
		}
		have[key] = value
	}
	return textutil.JSON(have)
}

// IDRule is a rule for the ids of tool calls that a server accepts.
type IDRule int

// The values of IDRule. The zero value accepts any id.
const (
	IDsMax40 IDRule = 1 + iota // at most 40 bytes
	IDsNine                    // nine letters or digits
	IDsWord                    // letters, digits, _ and -, at most 64
)

// idFormats are the accepted ids, and the prefix and length of the hash that replaces others.
var idFormats = map[IDRule]struct {
	accepted *regexp.Regexp
	prefix   string
	digits   int
}{
	IDsMax40: {regexp.MustCompile(`(?s)^.{0,40}$`), "call_", 32},
	IDsNine:  {regexp.MustCompile(`^[A-Za-z0-9]{9}$`), "", 9},
	IDsWord:  {regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`), "call_", 32},
}

// callID returns an id that the server accepts. It is deterministic.
func (m *Model) callID(id string) string {
	form, ruled := idFormats[m.CallIDs]
	if !ruled || form.accepted.MatchString(id) {
		return id
	}
	return form.prefix + contract.SHA([]byte(id))[:form.digits]
}

// objectArguments returns a call's arguments as a JSON object. Invalid ones are wrapped in one, so that the model sees
// what it wrote.
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

// emptyText replaces an empty text, if the provider rejects empty messages.
const emptyText = "(empty)"
