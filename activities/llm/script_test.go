package llm

import (
	"context"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
	"weft/activities/llm/wire"
)

// playScript makes one scripted call.
func playScript(t *testing.T, source string, call Call, in []contract.Message, opts ...llms.CallOption) (*Answer, error) {
	t.Helper()
	if source != "" {
		raw, err := ParseScript("s.yaml", []byte(source))
		if err != nil {
			t.Fatal(err)
		}
		call.Script = raw
	}
	if in == nil {
		in = []contract.Message{{Role: "user", Text: "hello"}}
	}
	return generate(t.Context(), &scripted{}, newCall(&call, transcriptOf("the system prompt", in...), nil, opts...))
}

func TestScriptRules(t *testing.T) {
	user := contract.Message{Role: "user", Text: "book a flight"}
	called := contract.Message{Role: "assistant", Calls: []contract.ToolCall{{ID: "1", Name: "find", Arguments: `{"to":"Oslo"}`}, {ID: "2", Name: "price"}}}
	results := []contract.Message{user, called, {Role: "tool", CallID: "1", Name: "find", Text: "3 found"}, {Role: "tool", CallID: "2", Name: "price", Text: "90 EUR"}}
	none := llms.WithToolChoice("none")
	tests := map[string]struct {
		script string
		call   Call
		in     []contract.Message
		opts   []llms.CallOption
		want   string
		calls  string
	}{
		"the first rule wins":               {`rules: [{say: one}, {say: two}]`, Call{}, nil, nil, "one", ""},
		"default":                           {`{rules: [{node: a, say: one}], default: {say: other}}`, Call{Node: "b"}, nil, nil, "other", ""},
		"by node":                           {`rules: [{node: a, say: one}, {node: b, say: two}]`, Call{Node: "b"}, nil, nil, "two", ""},
		"by kind":                           {`rules: [{kind: judge, yes: no}, {kind: agent, say: two}]`, Call{}, nil, nil, "two", ""},
		"by question":                       {`rules: [{question: "Is it done?", yes: no, reason: not yet}, {kind: judge, yes: yes}]`, Call{Kind: "judge", Question: "Is it done?"}, nil, nil, `{"answer":"no","reason":"not yet"}`, ""},
		"another question":                  {`rules: [{question: "Is it done?", yes: no}, {kind: judge, yes: true}]`, Call{Kind: "judge", Question: "Is it?"}, nil, nil, `{"answer":"yes","reason":""}`, ""},
		"by step, 0 included":               {`rules: [{step: 0, say: one}, {step: 3, say: two}]`, Call{Step: 3}, nil, nil, "two", ""},
		"by turn":                           {`rules: [{turn: 1, say: one}, {turn: 2, say: two}]`, Call{}, results, nil, "two", ""},
		"by exact text":                     {`rules: [{text: book, say: one}, {text: book a flight, say: two}]`, Call{}, []contract.Message{user}, nil, "two", ""},
		"by location":                       {`rules: [{at: "b#1/a#1/model/1", say: one}, {at: "a#1/model/1", say: two}]`, Call{At: "run/c#1/a#1/model/1"}, nil, nil, "two", ""},
		"partial name does not match":       {`rules: [{at: "a#1/model/1", say: one}, {say: two}]`, Call{At: "run/aa#1/model/1"}, nil, nil, "two", ""},
		"calls with ids, recorded ignored":  {`{rules: [{call: {tool: t, id: x}}], recorded: {any: thing}}`, Call{}, nil, nil, "", "t({})"},
		"after a tool":                      {`rules: [{after: find, say: one}, {after: price, say: two}]`, Call{}, results, nil, "two", ""},
		"after no tool":                     {`rules: [{after: find, say: one}, {say: two}]`, Call{}, []contract.Message{user}, nil, "two", ""},
		"by a match on the last message":    {`rules: [{match: flight, say: one}, {match: '\d+ EUR$', say: two}]`, Call{}, results, nil, "two", ""},
		"by a text anywhere":                {`rules: [{contains: Rome, say: one}, {contains: Oslo, say: two}]`, Call{}, results, nil, "two", ""},
		"system prompt does not match":      {`rules: [{contains: system prompt, say: one}, {say: two}]`, Call{}, nil, nil, "two", ""},
		"all conditions must hold":          {`rules: [{node: a, turn: 2, say: one}, {node: a, turn: 1, say: two}]`, Call{Node: "a"}, nil, nil, "two", ""},
		"an empty text":                     {`rules: [{say: ""}]`, Call{}, nil, nil, "", ""},
		"JSON keeps its order and digits":   {`rules: [{json: {b: 1.50, a: [12345678901234567, null, "<x>"]}}]`, Call{}, nil, nil, `{"b":1.50,"a":[12345678901234567,null,"<x>"]}`, ""},
		"JSON null":                         {`rules: [{json: null}]`, Call{}, nil, nil, "null", ""},
		"calls":                             {`rules: [{say: wait, call: [{tool: find, arguments: {to: Oslo}}, {tool: price, raw: "{oops"}, {tool: now}]}]`, Call{}, nil, nil, "wait", `find({"to":"Oslo"}) price({oops) now({})`},
		"one call without a list":           {`rules: [{call: {tool: now}}]`, Call{}, nil, nil, "", "now({})"},
		"no call where none is allowed":     {`rules: [{call: {tool: now}}, {say: done}]`, Call{}, nil, []llms.CallOption{none}, "done", ""},
		"after failed attempts":             {`rules: [{node: a, fail: {class: unavailable, times: 2}}, {say: up}]`, Call{Node: "a", Attempt: 3}, nil, nil, "up", ""},
		"after failed attempts, same rule":  {`rules: [{fail: {class: unavailable, times: 2}, say: up}]`, Call{Attempt: 3}, nil, nil, "up", ""},
		"a script in JSON with its escapes": {"{\"rules\":\t[{\"say\":\"\\ud83d\\ude00\\/\"}]}", Call{}, nil, nil, "😀/", ""},
		"nothing scripted":                  {"", Call{Node: "plan"}, results, nil, "[script] plan answered turn 2; the last message was: book a flight", ""},
		"a long message is quoted short":    {"", Call{Node: "plan"}, []contract.Message{{Role: "user", Text: strings.Repeat("é", 201)}}, nil, "[script] plan answered turn 1; the last message was: " + strings.Repeat("é", 200) + "...", ""},
		"nothing scripted, a judge":         {"", Call{Kind: "judge"}, nil, nil, `{"answer":"yes","reason":"[script] without a script every condition holds up to step 20"}`, ""},
		"nothing scripted, a finish tool":   {"", Call{Node: "n", Finish: "end"}, nil, []llms.CallOption{llms.WithTools([]llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "end", Parameters: json.RawMessage(`{"type":"object","properties":{"value":{"type":"integer","minimum":2}}}`)}}})}, "", `end({"value":2})`},
		"nothing scripted, JSON":            {"", Call{Request: wire.Request{JSON: true}, Node: "n"}, nil, nil, `{"script":"[script] n answered turn 1; the last message was: hello"}`, ""},
		"nothing scripted, bounds":          {"", Call{Request: wire.Request{Schema: json.RawMessage(`{"$defs":{"code":{"type":"string","pattern":"^[A-Z]{2}-[0-9]+(x|y)?$"},"short":{"type":"string","maxLength":8}},"type":"object","required":["more"],"properties":{"c":{"$ref":"#/$defs/code"},"s":{"$ref":"#/$defs/short"},"n":{"type":"integer","maximum":-2},"m":{"type":"number","exclusiveMinimum":2},"any":{"description":"anything","enum":["a"]},"gone":{"$ref":"other.json"}}}`)}, Node: "n"}, nil, nil, `{"any":"a","c":"AA-0","m":3,"more":"[script] n answered turn 1; the last message was: hello","n":-2,"s":"[script]"}`, ""},
		"nothing scripted, a schema":        {"", Call{Request: wire.Request{Schema: json.RawMessage(`{"type":"object","properties":{"s":{"enum":["x","y"]},"n":{"type":["integer","null"],"minimum":3},"l":{"type":"array","items":{"type":"boolean"},"minItems":2},"a":{"anyOf":[{"const":7}]}}}`)}, Node: "n"}, nil, nil, `{"a":7,"l":[true,true],"n":3,"s":"x"}`, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a, err := playScript(t, tc.script, tc.call, tc.in, tc.opts...)
			if err != nil {
				t.Fatal(err)
			}
			var calls []string
			for _, c := range a.Message.Calls {
				calls = append(calls, c.Name+"("+c.Arguments+")")
			}
			if a.Message.Text != tc.want || strings.Join(calls, " ") != tc.calls || a.Model != "script" {
				t.Errorf("text %q, calls %q, model %q; want %q, %q", a.Message.Text, calls, a.Model, tc.want, tc.calls)
			}
			if want := map[bool]string{true: "tool_calls", false: "stop"}[len(calls) > 0]; a.Stop != want {
				t.Errorf("stop %q, want %q", a.Stop, want)
			}
		})
	}
}

func TestScriptedFailures(t *testing.T) {
	tests := map[string]struct {
		script   string
		call     Call
		class    string
		after    time.Duration
		wantText []string
	}{
		"always":                         {`rules: [{fail: {class: rate_limited, text: busy, retry_after: 2s}}]`, Call{Attempt: 9}, contract.ClassRateLimited, 2 * time.Second, []string{"busy", "attempt 9"}},
		"the first attempts":             {`rules: [{fail: {class: unavailable, times: 2}, say: up}]`, Call{Attempt: 2}, contract.ClassUnavailable, 0, nil},
		"attempt number not set":         {`rules: [{fail: {class: timeout, times: 1}, say: up}]`, Call{}, contract.ClassTimeout, 0, nil},
		"a filter":                       {`rules: [{say: bad, stop: content_filter}]`, Call{}, contract.ClassRefused, 0, nil},
		"no rule":                        {`rules: [{node: a, say: x}]`, Call{Node: "b", Step: 4}, contract.ClassBadRequest, 0, []string{`node "b"`, "kind agent", "turn 1", "step 4", `{node: "b", kind: agent, turn: 1, say: "..."}`}},
		"no rule for a judge":            {`rules: [{node: a, say: x}]`, Call{Node: "b", Kind: "judge", Question: "Done?"}, contract.ClassBadRequest, 0, []string{`question "Done?"`, "yes: true"}},
		"no rule, after failed attempts": {`rules: [{fail: {class: unavailable, times: 1}}]`, Call{Attempt: 2}, contract.ClassBadRequest, 0, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := playScript(t, tc.script, tc.call, nil)
			f := failureOf(t, err)
			if f.Class != tc.class || f.After != tc.after {
				t.Errorf("class %q after %s, want %q after %s", f.Class, f.After, tc.class, tc.after)
			}
			checkContains(t, f.Error(), tc.wantText...)
		})
	}
	_, err := generate(t.Context(), &scripted{}, newCall(&Call{Script: json.RawMessage(`{"rules":[{"sya":"x"}]}`)}, hello(), nil))
	f := failureOf(t, err)
	if f.Class != contract.ClassBadRequest {
		t.Errorf("class %q", f.Class)
	}
	checkContains(t, f.Text, `script:1:12: rule 1: unknown field "sya"`)
}

func TestScriptTiming(t *testing.T) {
	var seen []string
	start := time.Now()
	a, err := playScript(t, `rules: [{say: "one two three", delay: 60ms, usage: {input: 5, output: 6}}]`, Call{Partial: func(s string) { seen = append(seen, s) }}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 55*time.Millisecond {
		t.Errorf("took %s", took)
	}
	if !reflect.DeepEqual(seen, []string{"one ", "one two ", "one two three"}) {
		t.Errorf("partial texts %q", seen)
	}
	if !reflect.DeepEqual(a.Usage, contract.Usage{Calls: 1, Input: 5, Output: 6}) {
		t.Errorf("usage %+v", a.Usage)
	}
	n := 0
	long := strings.Repeat("word ", 10_000)
	if _, err := playScript(t, `rules: [{say: "`+long+`"}]`, Call{Partial: func(string) { n++ }}, nil); err != nil || n > maxChunks {
		t.Errorf("%d pieces, %v", n, err)
	}
	for _, s := range []string{`rules: [{say: a, delay: 1h}]`, `rules: [{delay: 1h, fail: {class: unavailable}}]`} {
		raw, err := ParseScript("s", []byte(s))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := generate(ctx, &scripted{}, newCall(&Call{Script: raw}, hello(), nil)); err != context.DeadlineExceeded {
			t.Errorf("error %v", err)
		}
		cancel()
	}
}

func TestScriptProblems(t *testing.T) {
	tests := map[string]struct {
		script string
		want   []string
	}{
		"empty":          {"", []string{"s.yaml:1:1: the script is empty"}},
		"only a comment": {"# hi\n", []string{"the script is empty"}},
		"no rules":       {"{}", []string{"s.yaml:1:1: the script has neither rules nor a default"}},
		"a list":         {"- say: x", []string{"s.yaml:1:1: script: expected an object, got an array"}},
		"broken YAML":    {"rules:\n  - say: [", []string{"s.yaml:2:1: neither JSON nor YAML"}},
		"broken JSON":    {`{"rules": [}`, []string{"neither JSON nor YAML"}},
		"two documents":  {"default: {say: a}\n---\ndefault: {say: b}", []string{"more than one document"}},
		"fields":         {"rules:\n  - sya: x\n    turn: 0\n  - kind: robot\n    say: 5\ndefault:\n  say: a\n  say: b\n", []string{`s.yaml:2:5: rule 1: unknown field "sya"; expected one of after, at, call,`, "s.yaml:3:11: turn: expected an integer of at least 1, got 0", "s.yaml:4:11: kind: expected one of agent, judge, condense", "s.yaml:5:10: say: expected text, got 5; put it in quotes", `s.yaml:8:3: duplicate key "say", first used at line 7`}},
		"no action":      {"rules: [{node: a}]", []string{"s.yaml:1:9: rule 1 has no action; set one of say, json, call, yes, fail"}},
		"conflicting actions": {"rules:\n- {say: a, json: 1}\n- {yes: true, call: {tool: t}}\n- {say: a, reason: b}\n- {say: a, fail: {class: denied}}\n- {kind: agent, question: q, say: a}",
			[]string{"s.yaml:2:3: rule 1: say, json and yes are mutually", "s.yaml:3:3: rule 2: yes is a judge's", "s.yaml:4:3: rule 3: reason requires yes", "s.yaml:5:3: rule 4: always fails", "s.yaml:6:3: rule 5: only judges"}},
		"values": {"rules:\n- {match: '(', say: a}\n- {delay: 3, say: a}\n- {stop: never, say: a}\n- {yes: maybe}\n- {node: '', say: a}\n- {step: -1, say: a}\n- {usage: {input: x}, say: a}\n- {delay: 2h, say: a}\n- {say: }",
			[]string{"s.yaml:2:11: match: error parsing regexp", "s.yaml:3:11: delay: expected a duration", "s.yaml:4:10: stop: expected one of", "s.yaml:5:9: yes: expected true or false, got \"maybe\"", "s.yaml:6:10: node is empty", "s.yaml:7:10: step: expected", "s.yaml:8:19: input: expected", "s.yaml:9:11: delay", "s.yaml:10:9: say: expected text, got null"}},
		"calls": {"rules:\n- {call: []}\n- {call: [{arguments: {}}]}\n- {call: {tool: t, arguments: [1]}}\n- {call: {tool: t, args: 1}}\n- {call: {tool: t, arguments: {}, raw: x}}",
			[]string{"s.yaml:2:10: call: expected a list", "s.yaml:3:11: call: tool is not set", "s.yaml:4:31: arguments: expected an object", "arguments and raw are mutually", `s.yaml:5:20: call: unknown field "args"; expected one of arguments, id, raw, tool`}},
		"failures":        {"rules:\n- {fail: {class: oops}}\n- {fail: {text: a}}\n- {fail: {class: denied, times: -1}}", []string{"s.yaml:2:18: class: expected one of rate_limited", "s.yaml:3:10: fail: class is not set", "s.yaml:4:33: times"}},
		"aliases":         {"rules:\n- {json: &a {x: 1}}\n- {json: *a}\n- *a", []string{`s.yaml:2:14: rule 3: unknown field "x"`}},
		"recursive alias": {"rules:\n- {json: &a [*a]}", []string{"s.yaml:2:14: the alias *a contains itself"}},
		"numbers":         {"rules: [{json: [.inf, 0x1F]}, {json: !foo x}, {json: {a: 1, a: 2}}, {json: {<<: {a: 1}}}, {json: {[1]: 2}}]", []string{"s.yaml:1:77: merge keys", "s.yaml:1:99: key is an array, expected a string", `s.yaml:1:17: JSON has no number ".inf"`, `unsupported tag "!foo"`, `s.yaml:1:61: duplicate key "a"`}},
		"JSON":            {"{\n\t\"rules\": [\n\t\t{\"say\": \"é\", \"turn\": \"1\"},\n\t\t{\"oops\": 1}\n\t]\n}", []string{"s.yaml:3:25: turn: expected an integer of at least 1", `s.yaml:4:4: rule 2: unknown field "oops"`}},
		"deep":            {`{"default": {"json": ` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}}`, []string{"nested deeper than 200"}},
		"deep YAML":       {`default: {json: ` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, []string{"nested deeper than 200"}},
		"too large":       {"# " + strings.Repeat("x", maxScript), []string{"the limit is 4194304"}},
		"many":            {"rules:\n" + strings.Repeat("- {}\n", 200), []string{"s.yaml:51:3: rule 50", "s.yaml: further problems"}},
		"a question":      {"rules: [{question: 5, yes: true}]", []string{"question: expected text"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			raw, err := ParseScript("s.yaml", []byte(tc.script))
			if raw != nil || err == nil {
				t.Fatalf("ParseScript() = %s, want an error", raw)
			}
			f := failureOf(t, err)
			if f.Class != contract.ClassBadRequest {
				t.Errorf("class %q", f.Class)
			}
			checkContains(t, f.Text, tc.want...)
			if n := strings.Count(f.Text, "\n") + 1; n > maxProblems+1 || n < len(tc.want) {
				t.Errorf("%d problems:\n%s", n, f.Text)
			}
		})
	}
}

func TestScriptCanonicalForm(t *testing.T) {
	const want = `{"rules":[{"node":"a","turn":1,"call":[{"tool":"t","arguments":{"x":31,"d":"2024-01-01","y":true}}],"usage":{"input":3}},{"question":"q","yes":false,"reason":"r"}],"default":{"fail":{"class":"denied"}}}`
	for name, source := range map[string]string{
		"YAML":               "default:\n  fail: {class: denied}\nrules:\n  - call: {tool: t, arguments: {x: 0x1F, d: 2024-01-01, y: true}}\n    turn: 1\n    node: a\n    usage: {input: 3}\n  - {question: q, reason: r, yes: no}\n",
		"JSON":               `{"default":{"fail":{"class":"denied"}},"rules":[{"usage":{"input":3},"call":[{"tool":"t","arguments":{"x":31,"d":"2024-01-01","y":true}}],"turn":1,"node":"a"},{"question":"q","yes":false,"reason":"r"}]}`,
		"YAML with an alias": "default:\n  fail: {class: denied}\nrules:\n  - call: {tool: &t t, arguments: {x: 0x1F, d: 2024-01-01, y: true}}\n    turn: 1\n    node: a\n    usage: {input: 3}\n  - {question: q, reason: r, yes: no}\nrecorded: *t\n",
		"self-reference":     want,
	} {
		got, err := ParseScript(name, []byte(source))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

func FuzzParseScript(f *testing.F) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		f.Fatal(err)
	}
	for _, m := range fences.FindAllSubmatch(readme, -1) {
		f.Add(m[2])
	}
	for _, s := range []string{`{"rules":[{"json":{"a":[1,2.5e3,"\ud83d"]}}]}`, "rules: [{say: *a}]", "a: &a [*a]", "<<: {}", "? [x]\n: y", "!!binary x", "\xff", "default: {json: 1e999}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		raw, err := ParseScript("f", data)
		if err != nil {
			if raw != nil || err.Error() == "" {
				t.Errorf("%s returned with error %v", raw, err)
			}
			return
		}
		again, err := ParseScript("f", raw)
		if err != nil || string(again) != string(raw) {
			t.Errorf("not canonical: %s became %s, %v", raw, again, err)
		}
		// A valid script returns an answer or a failure, and never panics.
		call := &Call{Script: raw, Node: "n", Attempt: 1}
		act, err := chooseAction(call, newConversation(hello().Messages), false)
		if err != nil {
			return
		}
		act.Delay = ""
		if _, err := act.perform(context.Background(), call, ScriptModel); err != nil && !act.fails(call) {
			t.Error(err)
		}
	})
}

// fences matches the code blocks of a Markdown file and their language.
var fences = regexp.MustCompile("(?s)```(\\w*)\n(.*?)```")

func TestReadmeExamplesParse(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, m := range fences.FindAllSubmatch(readme, -1) {
		if lang := string(m[1]); lang != "yaml" && lang != "json" {
			continue
		}
		n++
		if _, err := ParseScript("README.md", m[2]); err != nil {
			t.Errorf("%v in\n%s", err, m[2])
		}
	}
	if n < 3 {
		t.Errorf("%d examples", n)
	}
}

func TestReadmeDocumentsScriptFields(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range actionsAndConditions() {
		if !strings.Contains(string(readme), "| `"+field+"` |") {
			t.Errorf("README.md does not explain %q", field)
		}
	}
}

// actionsAndConditions returns the names of all fields of a rule.
func actionsAndConditions() []string {
	var out []string
	for _, t := range []reflect.Type{reflect.TypeFor[Rule](), reflect.TypeFor[Action]()} {
		for i := range t.NumField() {
			if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" {
				out = append(out, name)
			}
		}
	}
	return out
}

func TestScriptErrorResults(t *testing.T) {
	for _, failed := range []bool{false, true} {
		in := transcriptOf("", user("go"), contract.Message{Role: "assistant", Calls: []contract.ToolCall{{ID: "1", Name: "get"}}},
			contract.Message{Role: "tool", CallID: "1", Name: "get", Text: "no such key", Error: failed})
		got := newConversation(in.Messages)
		if got.afterTool != "get" || got.lastText != "no such key" || !strings.Contains(got.allText, "no such key") {
			t.Errorf("failed %v: %+v", failed, got)
		}
	}
}
