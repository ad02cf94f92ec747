package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"weft/starter/progress"
)

// requestsOverHTTP answers the requests of a run, through both servers.
func requestsOverHTTP(d *servers) {
	d.call(0, 201, "POST", "/runs", mailRun)
	open := func() map[string]string {
		ids := map[string]string{}
		for _, q := range d.call(1, 200, "GET", "/runs/mail-http/requests", "")["requests"].([]any) {
			q := q.(map[string]any)
			ids[q["kind"].(string)+" "+q["tool"].(string)] = q["id"].(string)
		}
		return ids
	}
	waitFor := func(key string) string {
		for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if id := open()[key]; id != "" {
				return id
			}
		}
		d.Fatalf("no open request %s; open requests: %v", key, open())
		return ""
	}
	opened := 0
	events := d.follow(1, "mail-http", "", func(e event) bool {
		if e.kind == progress.EventRequest {
			opened++
		}
		return opened == 2
	})
	pay, look := waitFor("confirm send_mail"), waitFor("tool_result look_up")
	first := <-events
	post := func(n, status int, kind, body string) map[string]any {
		return d.call(n, status, "POST", "/runs/mail-http/"+kind, body)
	}
	post(0, 422, "confirm", `{"id": "`+pay+`", "approve": true, "arguments": {"to": 7}}`)
	post(1, 404, "confirm", `{"id": "nobody", "approve": true}`)
	post(0, 200, "confirm", `{"id": "`+pay+`", "approve": true, "arguments": {"to": "bob"}}`)
	post(1, 200, "confirm", `{"id": "`+pay+`", "approve": true, "arguments": {"to": "bob"}}`)
	post(1, 409, "confirm", `{"id": "`+pay+`", "approve": false}`)
	sent := waitFor("tool_result send_mail")
	if got := post(0, 422, "tool_result", `{"id": "`+sent+`", "result": {"sent": "no"}}`); !strings.Contains(fmt.Sprint(got["errors"]), "$.sent") {
		d.Errorf("response to an invalid result = %v, want an error at $.sent", got)
	}
	post(1, 200, "message", `{"text": "Leave May out.", "key": "note-1"}`)
	post(0, 200, "tool_result", `{"id": "`+sent+`", "result": {"sent": true}}`)
	post(0, 200, "tool_result", `{"id": "`+look+`", "error": "no such thing"}`)
	d.result(1, "mail-http")
	if state := d.call(0, 200, "GET", "/runs/mail-http/state", ""); len(state) != 0 {
		d.Errorf("state = %v, want none", state)
	}
	status := d.call(0, 200, "GET", "/runs/mail-http/status", "")
	if status["status"] != "completed" {
		d.Errorf("status = %v, want completed", status)
	}
	post(0, 409, "retry", `{"id": "`+look+`"}`)
	d.call(0, 409, "POST", "/runs/mail-http/cancel", "")
	messages := fmt.Sprint(d.call(0, 200, "GET", "/runs/mail-http/transcript?thread=mail%231", "")["messages"])
	if !strings.Contains(messages, "no such thing") || !strings.Contains(messages, "Leave May out.") {
		d.Errorf("transcript = %s", messages)
	}
	// The stream gets the answers of requests from the worker, which may be busy.
	got := ""
	for end := time.Now().Add(3 * time.Minute); strings.Count(got, "request_answered") < 3 && time.Now().Before(end); {
		var kinds []string
		for _, e := range <-d.follow(0, "mail-http", first[len(first)-1].id, nil) {
			kinds = append(kinds, e.kind)
		}
		got = strings.Join(kinds, " ")
	}
	// The only request that is opened after the first two is for the result of send_mail.
	if strings.Count(got, "request_opened") != 1 || !strings.HasSuffix(got, " result") || strings.Count(got, "request_answered") < 3 {
		d.Errorf("events after the first two requests = %s", got)
	}
}

const mailRun = `{"id": "mail-http", "input": "go", "flow": {"name": "mail.json", "text": "{\"name\": \"Mail\", \"nodes\": [{\"id\": \"mail\", \"name\": \"Mail\", \"prompt\": \"Send it.\", \"is_exit_node\": true, \"tools\": [{\"name\": \"send_mail\", \"data_connection_id\": \"web\"}, {\"name\": \"look_up\", \"data_connection_id\": \"web\"}]}], \"edges\": [{\"id\": \"in\", \"source\": \"START\", \"target\": \"mail\"}, {\"id\": \"out\", \"source\": \"mail\", \"target\": \"END\"}]}"},
 "data_connections": [{"id": "web", "kind": "client", "tools": [
   {"name": "send_mail", "schema": {"type": "object", "required": ["to"], "properties": {"to": {"type": "string"}}},
    "result": {"type": "object", "required": ["sent"], "properties": {"sent": {"type": "boolean"}}}},
   {"name": "look_up"}]}],
 "script": {"rules": [{"turn": 1, "call": [{"tool": "send_mail", "arguments": {"to": "ann"}}, {"tool": "look_up", "arguments": {"q": 1}}]}, {"say": "done"}]}}`

// event is a server-sent event.
type event struct{ kind, id, data string }

// follow reads a run's events in the background, until the stream ends or stop returns true. It
// omits partial answers, because their number varies.
func (d *servers) follow(n int, id, after string, stop func(e event) bool) <-chan []event {
	d.Helper()
	return d.stream(n, id, after, func(e event) bool { return e.kind != progress.EventText }, stop)
}

// stream is like follow, but returns the events for which keep returns true.
func (d *servers) stream(n int, id, after string, keep, stop func(e event) bool) <-chan []event {
	d.Helper()
	r, err := http.NewRequest("GET", d.urls[n]+"/runs/"+id+"/events", nil)
	if err != nil {
		d.Fatal(err)
	}
	r.Header.Set("Last-Event-ID", after)
	got, err := http.DefaultClient.Do(r)
	if err != nil || got.StatusCode != 200 || got.Header.Get("Content-Type") != "text/event-stream" {
		d.Fatalf("events of %s: %v, %v", id, got, err)
	}
	out := make(chan []event, 1)
	go func() {
		defer got.Body.Close()
		var all []event
		var e event
		text := bufio.NewReader(got.Body)
		for {
			line, err := text.ReadString('\n')
			if err != nil {
				break
			}
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			switch name {
			case "event":
				e = event{kind: value}
			case "id":
				e.id = value
			case "data":
				e.data = value
				schema := map[string]string{"result": "ResultEvent", "run_failed": "ErrorEvent"}[e.kind]
				if schema == "" {
					schema = "RunEvent"
				}
				if err := d.checker.Schema(schema, []byte(value)); err != nil {
					d.Errorf("%s: %v", value, err)
				}
				if !keep(e) {
					continue
				}
				if all = append(all, e); stop != nil && stop(e) {
					out <- all
					return
				}
			}
		}
		out <- all
	}()
	return out
}

// textOverHTTP reads an answer while the model streams it. A client that reconnects after the
// previous event gets the partial answer again.
func textOverHTTP(d *servers) {
	d.call(0, 201, "POST", "/runs", `{"id": "told", "input": "go", "flow": {"name": "told.json", "text": "{\"name\": \"Told\", \"nodes\": [{\"id\": \"tell\", \"name\": \"Tell\", \"prompt\": \"Tell it.\", \"is_exit_node\": true}], \"edges\": [{\"id\": \"in\", \"source\": \"START\", \"target\": \"tell\"}, {\"id\": \"out\", \"source\": \"tell\", \"target\": \"END\"}]}"},
 "script": {"rules": [{"delay": "2m", "say": "`+strings.Repeat("word ", 400)+`"}]}}`)
	all := func(event) bool { return true }
	after := ""
	for n := range 2 {
		seen := <-d.stream(n, "told", after, all, func(e event) bool { return e.kind == progress.EventText || e.kind == progress.EventModel })
		last := seen[len(seen)-1]
		var v struct{ Node, Call, Text string }
		if err := json.Unmarshal([]byte(last.data), &v); err != nil {
			d.Fatal(err)
		}
		if last.kind != progress.EventText || last.id != "" || v.Node != "tell#1" || v.Call != "model call 1" || !strings.HasPrefix(v.Text, "word") {
			d.Fatalf("events after %q = %v, want a partial answer at the end", after, seen)
		}
		for _, e := range seen {
			after = cmp.Or(e.id, after)
		}
	}
	d.call(0, 202, "POST", "/runs/told/cancel", "")
}

// wideFlow has three concurrent branches, and joins them.
const wideFlow = `{"name": "Wide", "nodes": [
 {"id": "a", "name": "A", "prompt": "Go."}, {"id": "b", "name": "B", "prompt": "Go."}, {"id": "c", "name": "C", "prompt": "Go."},
 {"id": "a2", "name": "A2", "prompt": "Go."}, {"id": "b2", "name": "B2", "prompt": "Go."}, {"id": "end", "name": "End", "prompt": "Go.", "defer": true, "is_exit_node": true}],
 "edges": [{"id": "1", "source": "START", "target": "a"}, {"id": "2", "source": "START", "target": "b"}, {"id": "3", "source": "START", "target": "c"},
  {"id": "4", "source": "a", "target": "a2"}, {"id": "5", "source": "b", "target": "b2"}, {"id": "6", "source": "a2", "target": "end"},
  {"id": "7", "source": "b2", "target": "end"}, {"id": "8", "source": "c", "target": "end"}, {"id": "9", "source": "end", "target": "END"}]}`

// eventsOverHTTP interrupts streams after each event and continues with the other server: together
// they must have each event once.
func eventsOverHTTP(d *servers) {
	d.call(0, 201, "POST", "/runs", `{"id": "wide", "flow": {"name": "wide"}, "input": "go"}`)
	var live []event
	for after := ""; ; {
		// While the run is open, each stream is closed after three events.
		n := 0
		part := <-d.follow(len(live)%2, "wide", after, func(event) bool { n++; return n == 3 })
		live = append(live, part...)
		if len(part) == 0 {
			d.Fatalf("the stream ended after %v", live)
		}
		if after = part[len(part)-1].id; after == "end" {
			break
		}
	}
	all := <-d.follow(0, "wide", "", nil)
	want := occurrences(all)
	if got := occurrences(live); fmt.Sprint(got) != fmt.Sprint(want) {
		d.Errorf("events in several streams:\n%v, in one:\n%v", got, want)
	}
	for k := range all[:len(all)-1] {
		rest := <-d.follow(1, "wide", all[k].id, nil)
		if got := occurrences(append(slices.Clone(all[:k+1]), rest...)); fmt.Sprint(got) != fmt.Sprint(want) {
			d.Fatalf("events if interrupted after event %d:\n%v, want\n%v", k, got, want)
		}
	}
	if len(all) < 15 {
		d.Errorf("%d events, want at least 15", len(all))
	}
	d.raw(0, 204, "GET", "/runs/wide/events", "", "Last-Event-ID: end")
	d.call(0, 400, "GET", "/runs/wide/events", "", "Last-Event-ID: zzz")
}

// occurrences counts equal events, without notes, which depend on when the stream is read.
func occurrences(list []event) map[string]int {
	out := map[string]int{}
	for _, e := range list {
		var v struct{ Node, Call, Text string }
		_ = json.Unmarshal([]byte(e.data), &v)
		if e.kind != progress.EventNote {
			out[strings.Join([]string{e.kind, v.Node, v.Call, v.Text}, " ")]++
		}
	}
	return out
}
