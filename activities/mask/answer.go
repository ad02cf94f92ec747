package mask

import "slices"

// handles are members that identify something: they are not masked, even if they contain a secret's text.
var handles = []string{"run", "run_id", "id", "request", "session_id", "session", "workflow_id", "flow_hash", "hash", "next_page_token"}

// lists are members whose elements have handles of their own.
var lists = []string{"runs", "requests"}

// Answer is what a program is told, a JSON value, without secrets, as [Mask.JSON] has it; but ids,
// hashes and page tokens stay as they are. They are members of the value itself, of its elements if
// it is an array, and of those of its lists of runs and requests: never of data within it.
func (m *Mask) Answer(raw []byte) []byte { return m.json(raw, true) }

// aside removes the handles of a decoded value, and returns a function that restores them.
func aside(v any) (back func(any)) {
	switch v := v.(type) {
	case map[string]any:
		kept := map[string]string{}
		for _, name := range handles {
			if text, ok := v[name].(string); ok {
				kept[name] = text
				delete(v, name)
			}
		}
		var inner []func(map[string]any)
		for _, name := range lists {
			if list, ok := v[name].([]any); ok {
				put := elements(list)
				inner = append(inner, func(out map[string]any) { put(out[name]) })
			}
		}
		return func(out any) {
			object, ok := out.(map[string]any)
			for _, put := range inner {
				put(object)
			}
			for name, text := range kept {
				if ok {
					object[name] = text
				}
			}
		}
	case []any:
		return elements(v)
	}
	return func(any) {}
}

// elements is [aside] of each object of a list; lists within have none.
func elements(list []any) (back func(any)) {
	puts := make([]func(any), len(list))
	for i, element := range list {
		puts[i] = func(any) {}
		if object, ok := element.(map[string]any); ok {
			puts[i] = aside(object)
		}
	}
	return func(out any) {
		masked, ok := out.([]any)
		for i, put := range slices.All(puts) {
			if ok {
				put(masked[i])
			}
		}
	}
}
