package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// starts is a boss's call that starts a session.
func starts(agent, mode, prompt string) string {
	return fmt.Sprintf(`{tool: start_agent_session, arguments: {agent_name: %s, mode: %s, parameters: {prompt: %s}}}`, agent, mode, prompt)
}

var sessionRows = []tableRow{
	{"Z11 the callback of an agent with an output schema", func(d *doors) {
		b := d.begin("boss", `{"prompt":"go"}`, `- {node: judge, json: {verdict: "yes", marks: [1]}}
- {node: boss, contains: agent-callback, say: heard}
- {node: boss, turn: 1, call: [`+starts("judge", "async_callback", "x")+`]}
- {node: boss, say: waiting}`)
		b.idle(2)
		want := "user: <agent-callback session=\"" + b.child(1) + "\" status=\"completed\">\n## Child Result\n\n{\n  \"verdict\": \"yes\",\n  \"marks\": [\n    1\n  ]\n}\n" +
			"</agent-callback>\n\nPlease continue with the orchestration based on this result."
		if said := b.said(); !slices.Contains(said, want) {
			d.Errorf("the conversation is %q", said)
		}
	}},
	{"U8 the next prompt of a session", func(d *doors) {
		b := d.begin("plain", `{"prompt":"My name is Ada."}`, "- {match: \"^And\", say: Ada}\n- {say: hello}")
		b.ends()
		next := d.call(1, 201, "POST", "/runs", resumption(b.session, "And my name?"))
		d.same("the session", next["session_id"], b.session)
		second := &begun{d, next["run_id"].(string), b.session}
		d.same("the second text", second.ends()["result"].(map[string]any)["result_text"], "Ada")
		d.same("the conversation", b.said(), []string{"user: My name is Ada.", "assistant: hello", "user: And my name?", "assistant: Ada"})
		if now := d.call(0, 200, "GET", "/sessions/"+b.session+"/status", ""); now["last_resumed_at"] == nil {
			d.Errorf("the session is %v", now)
		}
	}},
	{"a prompt that waits in line", func(d *doors) {
		b := d.begin("plain", `{"prompt":"x"}`, "- {delay: 10m, say: late}")
		prompt := func(n int, key string) (run string, replayed bool) {
			r, err := http.NewRequest("POST", d.urls[n]+"/runs", strings.NewReader(resumption(b.session, "more")))
			if err != nil {
				d.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Idempotency-Key", key)
			got, err := http.DefaultClient.Do(r)
			if err != nil {
				d.Fatal(err)
			}
			defer got.Body.Close()
			var made struct {
				RunID string `json:"run_id"`
			}
			if err := json.NewDecoder(got.Body).Decode(&made); err != nil || got.StatusCode != 201 {
				d.Fatalf("the prompt gives %d, %v", got.StatusCode, err)
			}
			return made.RunID, got.Header.Get("Idempotent-Replayed") == "true"
		}
		run, replayed := prompt(0, "line-1")
		again, second := prompt(1, "line-1")
		if replayed || !second || run != again {
			d.Errorf("the prompt is the run %s, replayed %v, and then %s, %v", run, replayed, again, second)
		}
		if other, replayed := prompt(0, "line-2"); replayed || other == run {
			d.Errorf("another prompt is the run %s, replayed %v", other, replayed)
		}
		d.same("the status of the run", d.call(1, 200, "GET", "/runs/"+run, "")["status"], "running")
		d.same("the status of the session", d.call(1, 200, "GET", "/sessions/"+b.session+"/status", "")["status"], "running")
		for _, path := range []string{"", "?wait=30s", "/result", "/events"} {
			d.call(0, 404, "GET", "/runs/"+b.run+"~turn-000000000000"+path, "")
		}
		d.call(0, 202, "POST", "/sessions/"+b.session+"/stop", "")
		d.same("the status of the first run", b.ends()["status"], "cancelled")
	}},
	{"U9 a session below that is waited for", func(d *doors) {
		b := d.begin("boss", `{"prompt":"go"}`, `- {node: plain, say: helped}
- {node: boss, turn: 1, call: [`+starts("plain", "sync", "x")+`]}
- {node: boss, say: done}`)
		b.ends()
		d.same("the conversation", b.said(), []string{"user: go", "assistant: ", `tool: {"session_id":"` + b.child(1) + `","result_text":"helped","result_data":null}`, "assistant: done"})
		d.same("the child's status", d.call(1, 200, "GET", "/sessions/"+url.PathEscape(b.child(1))+"/status", "")["status"], "idle")
		d.call(0, 202, "POST", "/sessions/"+b.session+"/stop", "")
		var now map[string]any
		for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if now = d.call(1, 200, "GET", "/sessions/"+url.PathEscape(b.child(1))+"/status", ""); now["status"] == "stopped" {
				return
			}
		}
		d.Errorf("the child of a session that was stopped is %v", now)
	}},
	{"U10 a session below that calls back", func(d *doors) {
		b := d.begin("boss", `{"prompt":"go"}`, `- {node: plain, say: helped}
- {node: boss, contains: agent-callback, say: heard}
- {node: boss, turn: 1, call: [`+starts("plain", "async_callback", "x")+`]}
- {node: boss, say: waiting}`)
		b.idle(2)
		d.same("the conversation", b.said(), []string{"user: go", "assistant: ", `tool: {"session_id":"` + b.child(1) + `","status":"pending"}`, "assistant: waiting",
			"user: <agent-callback session=\"" + b.child(1) + "\" status=\"completed\">\n## Child Result\n\nhelped\n</agent-callback>\n\nPlease continue with the orchestration based on this result.",
			"assistant: heard"})
	}},
	{"U11 five sessions below", func(d *doors) {
		var calls []string
		for range 5 {
			calls = append(calls, starts("plain", "async_callback", "x"))
		}
		b := d.begin("boss", `{"prompt":"go"}`, `- {node: plain, say: helped}
- {node: boss, turn: 1, call: [`+strings.Join(calls, ", ")+`]}
- {node: boss, say: heard}`)
		var all string
		heard := func() bool {
			all = strings.Join(b.said(), "\n")
			for n := 1; n <= 5; n++ {
				if !strings.Contains(all, fmt.Sprintf("session=%q", b.child(n))) && !strings.Contains(all, "### Child: "+b.child(n)+" (") {
					return false
				}
			}
			return true
		}
		for end := time.Now().Add(2 * time.Minute); !heard(); time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				d.Fatalf("not all were heard of: %s", all)
			}
		}
		for n := 1; n <= 5; n++ {
			if got := strings.Count(all, fmt.Sprintf("session=%q", b.child(n))) + strings.Count(all, "### Child: "+b.child(n)+" ("); got != 1 {
				d.Errorf("the session %s is told %d times", b.child(n), got)
			}
		}
	}},
	{"U12 a session below that fails", func(d *doors) {
		b := d.begin("boss", `{"prompt":"go"}`, `- {node: plain, fail: {class: refused, text: not that}}
- {node: boss, contains: agent-callback, say: heard}
- {node: boss, turn: 1, call: [`+starts("plain", "async_callback", "x")+`]}
- {node: boss, say: waiting}`)
		b.idle(2)
		all := strings.Join(b.said(), "\n")
		if want := "<agent-callback session=\"" + b.child(1) + "\" status=\"failed\">\n## Error\n\nrefused: script: not that"; !strings.Contains(all, want) ||
			!strings.Contains(all, "</agent-callback>\n\nPlease handle this failure and continue with the orchestration.") {
			d.Errorf("the conversation is %s", all)
		}
	}},
}

var programRows = []tableRow{
	{"U16 a program", func(d *doors) {
		made := d.call(0, 201, "POST", "/runs", `{"type": "start_session", "agent_name": "program", "parameters": {"message": "{\"message\": \"x\"}"}}`)
		b := &begun{d, made["run_id"].(string), made["session_id"].(string)}
		b.ends()
		end := d.result(0, b.run)
		d.same("the data", end["result_data"], json.RawMessage(`{"message":"x"}`))
		d.same("the text", end["result_text"], nil)
		if p := d.call(1, 400, "POST", "/runs", resumption(b.session, "more")); !strings.Contains(fmt.Sprint(p["detail"]), "procedural_agent_no_resume") {
			d.Errorf("a second prompt is refused with %v", p)
		}
	}},
	{"U17 what programs print", func(d *doors) {
		for _, tc := range []struct{ params, want, status string }{
			{`{"out":" plain "}`, `{"return_code":0,"stdout":"plain","stderr":""}`, "completed"},
			{`{"out":"[1, 2]"}`, `[1,2]`, "completed"},
			{`{"out":"so far","err":"broken","code":1}`, `{"return_code":1,"stdout":"so far","stderr":"broken"}`, "failed"},
			{`{"out":"","err":"broken","code":2}`, `{"return_code":2,"stdout":"","stderr":"broken"}`, "failed"},
		} {
			made := d.call(0, 201, "POST", "/runs", `{"type": "start_session", "agent_name": "program", "parameters": `+tc.params+`}`)
			b := &begun{d, made["run_id"].(string), ""}
			d.same("the status of "+tc.params, b.ends()["status"], tc.status)
			d.same("the data of "+tc.params, d.call(1, 200, "GET", "/runs/"+b.run+"/result", "")["result_data"], json.RawMessage(tc.want))
		}
	}},
}

// guarded starts an agent with hooks, where the first one answers a rule's rest.
func guarded(d *doors, verdict string) *begun {
	d.Helper()
	return d.begin("guarded", `{"prompt":"go"}`, "- {node: guard, match: ^go$, "+verdict+"}\n- {node: audit, say: seen}\n- {node: guarded, match: ^changed$, say: other}\n- {node: guarded, say: done}")
}

var hookRows = []tableRow{
	{"on_run_start continues", func(d *doors) {
		for _, verdict := range []string{"json: {action: continue}", "say: no verdict", "json: {action: sing}", "fail: {class: refused, text: no}"} {
			b := guarded(d, verdict)
			d.same("the agent is given", b.given(), "go")
			d.same("the text behind "+verdict, d.result(0, b.run)["result_text"], "done")
		}
	}},
	{"on_run_start changes the parameters", func(d *doors) {
		b := guarded(d, `json: {action: continue, parameters: {prompt: changed}}`)
		d.same("the agent is given", b.given(), "changed")
		d.same("the text", d.result(1, b.run)["result_text"], "other")
	}},
	{"on_run_start blocks", func(d *doors) {
		for verdict, reason := range map[string]string{`{action: block, block_reason: not today}`: "not today", `{action: block}`: "No reason provided"} {
			end := guarded(d, "json: "+verdict).ends()
			d.same("the status", end["status"], "failed")
			if got := fmt.Sprint(end["error"]); !strings.Contains(got, "Blocked by on_run_start hook: "+reason) {
				d.Errorf("the error is %s, want the reason %s", got, reason)
			}
		}
	}},
	{"on_run_finish is given the result", func(d *doors) {
		b := guarded(d, "json: {action: continue}")
		b.ends()
		hook := &begun{d, url.PathEscape(b.run + "/hook:on_run_finish"), ""}
		for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			got, err := http.Get(d.urls[0] + "/runs/" + hook.run) // nobody waits for its start either
			if err != nil {
				d.Fatal(err)
			}
			got.Body.Close()
			if got.StatusCode == http.StatusOK {
				break
			}
		}
		d.same("the hook's text", hook.ends()["result"].(map[string]any)["result_text"], "seen")
		if raw := string(d.raw(0, 200, "GET", "/runs/"+hook.run+"/transcript", "")); !strings.Contains(raw, `"text":"done"`) {
			d.Errorf("the hook was not given the result: %s", raw)
		}
	}},
}
