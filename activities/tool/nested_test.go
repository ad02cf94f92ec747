package tool

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"weft/activities/contract"
)

// TestNestedResults checks that results nested ever deeper are either results or failures that are not retried.
func TestNestedResults(t *testing.T) {
	for _, structured := range []bool{true, false} {
		for _, depth := range []int{900, 5000, 9996, 9999, 20000} {
			nested := strings.Repeat("[", depth) + strings.Repeat("]", depth)
			body := `{"content":[],"structuredContent":` + nested + `}`
			if !structured {
				body = `{"content":[{"type":"text","text":"ok","x":` + nested + `}]}`
			}
			l := &legacy{onCall: func(w http.ResponseWriter, id json.RawMessage, _ int) { result(w, id, body) }}
			tools := open(t, Connection{URL: start(t, l).URL + "/mcp"})
			text, _, err := resultText(tools.Call(withTimeout(t, 20*time.Second), call("nest", `{}`), Meta{}))
			if f := contract.FailureOf(err); err != nil && f.Class != contract.ClassBadRequest || err == nil && text == "" || l.calls != 1 {
				t.Errorf("depth %d: got %d bytes after %d calls, %v", depth, len(text), l.calls, err)
			}
		}
	}
}
