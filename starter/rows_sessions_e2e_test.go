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

// startSessionCall returns a script's tool call by which an agent starts a session.
func startSessionCall(agent, mode, prompt string) string {
	return fmt.Sprintf(`{tool: start_agent_session, arguments: {agent_name: %s, mode: %s, parameters: {prompt: %s}}}`, agent, mode, prompt)
}

var sessionRows = []tableRow{
	{"Z11 callback of an agent with an output schema", func(d *servers) {
		b := d.startRun("boss", `{"prompt":"go"}`, `- {node: judge, json: {verdict: "yes", marks: [1]}}
- {node: boss, contains: agent-callback, say: heard}
- {node: boss, turn: 1, call: [`+startSessionCall("judge", "async_callback", "x")+`]}
- {node: boss, say: waiting}`)
		b.waitIdle(2)
		want := "user: <agent-callback session=\"" + b.child(1) + "\" status=\"completed\">\n## Child Result\n\n{\n  \"verdict\": \"yes\",\n  \"marks\": [\n    1\n  ]\n}\n" +
			"</agent-callback>\n\nPlease continue with the orchestration based on this result."
		if got := b.conversation(); !slices.Contains(got, want) {
			d.Errorf("conversation = %q, want %q in it", got, want)
		}
	}},
	{"U8 the next prompt of a session", func(d *servers) {
		b := d.startRun("plain", `{"prompt":"My name is Ada."}`, "- {match: \"^And\", say: Ada}\n- {say: hello}")
		b.wait()
		next := d.call(1, 201, "POST", "/runs", resumeBody(b.session, "And my name?"))
		d.equal("session", next["session_id"], b.session)
		second := &startedRun{d, next["run_id"].(string), b.session}
		d.equal("second text", second.wait()["result"].(map[string]any)["result_text"], "Ada")
		d.equal("conversation", b.conversation(), []string{"user: My name is Ada.", "assistant: hello", "user: And my name?", "assistant: Ada"})
		if now := d.call(0, 200, "GET", "/sessions/"+b.session+"/status", ""); now["last_resumed_at"] == nil {
			d.Errorf("session = %v, want last_resumed_at", now)
		}
	}},
	{"a queued prompt", func(d *servers) {
		b := d.startRun("plain", `{"prompt":"x"}`, "- {delay: 10m, say: late}")
		prompt := func(n int, key string) (run string, replayed bool) {
			r, err := http.NewRequest("POST", d.urls[n]+"/runs", strings.NewReader(resumeBody(b.session, "more")))
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
			var started struct {
				RunID string `json:"run_id"`
			}
			if err := json.NewDecoder(got.Body).Decode(&started); err != nil || got.StatusCode != 201 {
				d.Fatalf("status %d, %v", got.StatusCode, err)
			}
			return started.RunID, got.Header.Get("Idempotent-Replayed") == "true"
		}
		run, replayed := prompt(0, "line-1")
		again, second := prompt(1, "line-1")
		if replayed || !second || run != again {
			d.Errorf("the same prompt twice: run %s, replayed %v, and then %s, %v", run, replayed, again, second)
		}
		if other, replayed := prompt(0, "line-2"); replayed || other == run {
			d.Errorf("another prompt: run %s, replayed %v", other, replayed)
		}
		d.equal("status of the run", d.call(1, 200, "GET", "/runs/"+run, "")["status"], "running")
		d.equal("status of the session", d.call(1, 200, "GET", "/sessions/"+b.session+"/status", "")["status"], "running")
		for _, path := range []string{"", "?wait=30s", "/result", "/events"} {
			d.call(0, 404, "GET", "/runs/"+b.run+"~turn-000000000000"+path, "")
		}
		d.call(0, 202, "POST", "/sessions/"+b.session+"/stop", "")
		d.equal("status of the first run", b.wait()["status"], "cancelled")
	}},
	{"U9 child session, mode sync", func(d *servers) {
		b := d.startRun("boss", `{"prompt":"go"}`, `- {node: plain, say: helped}
- {node: boss, turn: 1, call: [`+startSessionCall("plain", "sync", "x")+`]}
- {node: boss, say: done}`)
		b.wait()
		d.equal("conversation", b.conversation(), []string{"user: go", "assistant: ", `tool: {"session_id":"` + b.child(1) + `","result_text":"helped","result_data":null}`, "assistant: done"})
		d.equal("child's status", d.call(1, 200, "GET", "/sessions/"+url.PathEscape(b.child(1))+"/status", "")["status"], "idle")
		d.call(0, 202, "POST", "/sessions/"+b.session+"/stop", "")
		var now map[string]any
		for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if now = d.call(1, 200, "GET", "/sessions/"+url.PathEscape(b.child(1))+"/status", ""); now["status"] == "stopped" {
				return
			}
		}
		d.Errorf("child of a stopped session = %v, want status stopped", now)
	}},
	{"U10 child session, mode async_callback", func(d *servers) {
		b := d.startRun("boss", `{"prompt":"go"}`, `- {node: plain, say: helped}
- {node: boss, contains: agent-callback, say: heard}
- {node: boss, turn: 1, call: [`+startSessionCall("plain", "async_callback", "x")+`]}
- {node: boss, say: waiting}`)
		b.waitIdle(2)
		d.equal("conversation", b.conversation(), []string{"user: go", "assistant: ", `tool: {"session_id":"` + b.child(1) + `","status":"pending"}`, "assistant: waiting",
			"user: <agent-callback session=\"" + b.child(1) + "\" status=\"completed\">\n## Child Result\n\nhelped\n</agent-callback>\n\nPlease continue with the orchestration based on this result.",
			"assistant: heard"})
	}},
	{"U11 five child sessions", func(d *servers) {
		var calls []string
		for range 5 {
			calls = append(calls, startSessionCall("plain", "async_callback", "x"))
		}
		b := d.startRun("boss", `{"prompt":"go"}`, `- {node: plain, say: helped}
- {node: boss, turn: 1, call: [`+strings.Join(calls, ", ")+`]}
- {node: boss, say: heard}`)
		var all string
		reported := func() bool {
			all = strings.Join(b.conversation(), "\n")
			for n := 1; n <= 5; n++ {
				if !strings.Contains(all, fmt.Sprintf("session=%q", b.child(n))) && !strings.Contains(all, "### Child: "+b.child(n)+" (") {
					return false
				}
			}
			return true
		}
		for end := time.Now().Add(2 * time.Minute); !reported(); time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				d.Fatalf("not all child sessions are in the conversation: %s", all)
			}
		}
		for n := 1; n <= 5; n++ {
			if got := strings.Count(all, fmt.Sprintf("session=%q", b.child(n))) + strings.Count(all, "### Child: "+b.child(n)+" ("); got != 1 {
				d.Errorf("session %s was reported %d times", b.child(n), got)
			}
		}
	}},
	{"U12 failed child session", func(d *servers) {
		b := d.startRun("boss", `{"prompt":"go"}`, `- {node: plain, fail: {class: refused, text: not that}}
- {node: boss, contains: agent-callback, say: heard}
- {node: boss, turn: 1, call: [`+startSessionCall("plain", "async_callback", "x")+`]}
- {node: boss, say: waiting}`)
		b.waitIdle(2)
		all := strings.Join(b.conversation(), "\n")
		if want := "<agent-callback session=\"" + b.child(1) + "\" status=\"failed\">\n## Error\n\nrefused: script: not that"; !strings.Contains(all, want) ||
			!strings.Contains(all, "</agent-callback>\n\nPlease handle this failure and continue with the orchestration.") {
			d.Errorf("conversation = %s, want %s in it", all, want)
		}
	}},
}

var programRows = []tableRow{
	{"U16 a program", func(d *servers) {
		started := d.call(0, 201, "POST", "/runs", `{"type": "start_session", "agent_name": "program", "parameters": {"message": "{\"message\": \"x\"}"}}`)
		b := &startedRun{d, started["run_id"].(string), started["session_id"].(string)}
		b.wait()
		end := d.result(0, b.run)
		d.equal("data", end["result_data"], json.RawMessage(`{"message":"x"}`))
		d.equal("text", end["result_text"], nil)
		if p := d.call(1, 400, "POST", "/runs", resumeBody(b.session, "more")); !strings.Contains(fmt.Sprint(p["detail"]), "procedural_agent_no_resume") {
			d.Errorf("response to a second prompt = %v", p)
		}
	}},
	{"U17 output of programs", func(d *servers) {
		for _, tc := range []struct{ params, want, status string }{
			{`{"out":" plain "}`, `{"return_code":0,"stdout":"plain","stderr":""}`, "completed"},
			{`{"out":"[1, 2]"}`, `[1,2]`, "completed"},
			{`{"out":"so far","err":"broken","code":1}`, `{"return_code":1,"stdout":"so far","stderr":"broken"}`, "failed"},
			{`{"out":"","err":"broken","code":2}`, `{"return_code":2,"stdout":"","stderr":"broken"}`, "failed"},
		} {
			started := d.call(0, 201, "POST", "/runs", `{"type": "start_session", "agent_name": "program", "parameters": `+tc.params+`}`)
			b := &startedRun{d, started["run_id"].(string), ""}
			d.equal("status of "+tc.params, b.wait()["status"], tc.status)
			d.equal("data of "+tc.params, d.call(1, 200, "GET", "/runs/"+b.run+"/result", "")["result_data"], json.RawMessage(tc.want))
		}
	}},
}

// startGuarded starts an agent with hooks; verdict is the answer of the first one, in the form of a script rule.
func startGuarded(d *servers, verdict string) *startedRun {
	d.Helper()
	return d.startRun("guarded", `{"prompt":"go"}`, "- {node: guard, match: ^go$, "+verdict+"}\n- {node: audit, say: seen}\n- {node: guarded, match: ^changed$, say: other}\n- {node: guarded, say: done}")
}

var hookRows = []tableRow{
	{"on_run_start continues", func(d *servers) {
		for _, verdict := range []string{"json: {action: continue}", "say: no verdict", "json: {action: sing}", "fail: {class: refused, text: no}"} {
			b := startGuarded(d, verdict)
			d.equal("prompt", b.firstPrompt(), "go")
			d.equal("text after "+verdict, d.result(0, b.run)["result_text"], "done")
		}
	}},
	{"on_run_start changes the parameters", func(d *servers) {
		b := startGuarded(d, `json: {action: continue, parameters: {prompt: changed}}`)
		d.equal("prompt", b.firstPrompt(), "changed")
		d.equal("text", d.result(1, b.run)["result_text"], "other")
	}},
	{"on_run_start blocks the run", func(d *servers) {
		for verdict, reason := range map[string]string{`{action: block, block_reason: not today}`: "not today", `{action: block}`: "No reason provided"} {
			end := startGuarded(d, "json: "+verdict).wait()
			d.equal("status", end["status"], "failed")
			if got := fmt.Sprint(end["error"]); !strings.Contains(got, "Blocked by on_run_start hook: "+reason) {
				d.Errorf("error = %s, want the reason %q", got, reason)
			}
		}
	}},
	{"on_run_finish gets the result", func(d *servers) {
		b := startGuarded(d, "json: {action: continue}")
		b.wait()
		hook := &startedRun{d, url.PathEscape(b.run + "/hook:on_run_finish"), ""}
		for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			got, err := http.Get(d.urls[0] + "/runs/" + hook.run) // the run does not wait for the hook to start
			if err != nil {
				d.Fatal(err)
			}
			got.Body.Close()
			if got.StatusCode == http.StatusOK {
				break
			}
		}
		d.equal("hook's text", hook.wait()["result"].(map[string]any)["result_text"], "seen")
		if raw := string(d.raw(0, 200, "GET", "/runs/"+hook.run+"/transcript", "")); !strings.Contains(raw, `"text":"done"`) {
			d.Errorf("the result is not in the hook's transcript: %s", raw)
		}
	}},
}
