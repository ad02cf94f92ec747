package trace

import (
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/starter/audit"
	"weft/starter/history"
	"weft/starter/plaintext"
)

// executes are the parts of the id of a request that name the call of a tool which it is about.
var executes = regexp.MustCompile(`/(confirm|client)/(\d+\.\d+)-[0-9a-f]{8}$`)

// request adds what a run asked of people, and what they answered, to the span of the node that asked.
func (r *reader) request(q *audit.Request) {
	s := r.byID[""]
	if s == nil || q.AskedAt == nil {
		return
	}
	if q.Execution != "" {
		place, parts := "", strings.Split(q.Execution, "/")
		for _, call := range parts[:len(parts)-1] {
			place += plaintext.Line(history.Unescape(call), 100) + " › "
		}
		s = r.node(place, history.Unescape(parts[len(parts)-1]), *q.AskedAt)
	}
	tool, outs := r.tool(s.place, s.exec, q.Connection, q.Name, q.Tool)
	of := func(kind string, at time.Time, name string, content Object) {
		e, execution := Object{"request_id": q.ID}, executes.ReplaceAllString(q.ID, "/tool/$2")
		switch q.Kind {
		case contract.RequestConfirm:
			kind = "ToolConfirmation" + kind
			e["tool"], e["tool_execution_request_id"] = tool, execution
			if kind == "ToolConfirmationResponse" {
				approve, _ := content["approve"].(json.RawMessage)
				e["execution_confirmed"] = string(approve) == "true"
			}
		case contract.RequestToolResult: // of a tool that a client executes
			kind = "ToolExecution" + kind
			e["tool"], e["request_id"], e[name] = tool, execution, r.sensitive(content)
		default:
			kind = "HumanInTheLoop" + kind
			e["content"] = r.sensitive(content)
		}
		s.add(kind, at, e)
	}
	asked := Object{"kind": q.Kind, "text": q.Asked}
	if q.Kind == contract.RequestToolResult {
		asked = values("arguments", nil, q.Arguments)
	}
	of("Request", *q.AskedAt, "inputs", asked)
	if a := q.Taken(); a != nil {
		given := values("answer", nil, a.Answer)
		if delete(given, "id"); q.Kind == contract.RequestToolResult {
			delete(given, "by")
			if result, ok := given["result"].(json.RawMessage); ok {
				text := ""
				if json.Unmarshal(result, &text) != nil {
					text = string(result)
				}
				given = returned(outs, text, result)
			}
		}
		of("Response", a.Time, "output", given)
		r.over(s, a.Time)
	}
}
