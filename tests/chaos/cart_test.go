package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"weft/activities/contract"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// cartURL is the environment variable with the URL to which the test binary, started as the cart server, reports its calls.
const cartURL = "CHAOS_CART"

// serveCart serves tools over stdio and exits if the test binary was started as the cart server. The cart is in its memory; what
// it ships is recorded outside the process, as a log of side effects.
func serveCart() {
	url := os.Getenv(cartURL)
	if url == "" {
		return
	}
	var cart []int
	open := false
	s := server.NewMCPServer("cart", "1")
	add := func(name string, do func(n int) string, hints ...mcp.ToolOption) {
		s.AddTool(mcp.NewTool(name, append(hints, mcp.WithNumber("n"))...), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if name != "open" && !open {
				return mcp.NewToolResultError("no cart is open"), nil
			}
			raw, err := json.Marshal(map[string]any{"method": "tools/call", "params": req.Params})
			if err != nil {
				return nil, err
			}
			resp, err := http.Post(url, "application/json", bytes.NewReader(raw))
			if err != nil {
				os.Exit(1) // the test has killed its worker
			}
			resp.Body.Close()
			return mcp.NewToolResultText(do(req.GetInt("n", 0))), nil
		})
	}
	add("open", func(int) string { open, cart = true, nil; return "opened" }, mcp.WithIdempotentHintAnnotation(true))
	add("ship", func(n int) string { cart = append(cart, n); return fmt.Sprintf("shipped %d", n) }, mcp.WithIdempotentHintAnnotation(false))
	add("look", func(int) string { return fmt.Sprintf("shipped in this session: %v", cart) }, mcp.WithReadOnlyHintAnnotation(true))
	if err := server.ServeStdio(s); err != nil && !errors.Is(err, context.Canceled) {
		os.Exit(1)
	}
	os.Exit(0)
}

// cartFlow is an agent with a cart.
const cartFlow = `{"name":"chaos cart",` + plainAnswer + `,"nodes":[
{"id":"a","name":"A","prompt":"[a]","is_exit_node":true,"tools":[{"name":"open","data_connection_id":"cart"},{"name":"ship","data_connection_id":"cart"},{"name":"look","data_connection_id":"cart"}]}],` + oneExit + `}`

// cartModel opens a cart, ships 1 and 2 and lists the cart. It relies on the tool results: after a lost session it opens the cart
// again, and it does not repeat a shipment whose outcome is unknown. It answers with the outcome of each shipment, or with a contradiction.
func cartModel(t conversation) modelReply {
	var open, looked bool
	var inSession []int
	var outcomes []string
	next := func() toolCall {
		switch {
		case !open:
			return toolCall{"open", `{"n":0}`}
		case len(outcomes) < 2:
			return toolCall{"ship", fmt.Sprintf(`{"n":%d}`, len(outcomes)+1)}
		}
		return toolCall{"look", `{"n":0}`}
	}
	for _, reply := range t.replies {
		call, n := next().tool, len(outcomes)+1
		switch {
		case strings.HasPrefix(reply, "The session with this tool's server was lost"), strings.HasSuffix(reply, "no cart is open"):
			open, inSession = false, nil
		case strings.HasPrefix(reply, "outcome unknown: "):
			outcomes = append(outcomes, fmt.Sprintf("perhaps %d", n))
		case reply == "opened":
			open = true
		case call == "ship" && reply == fmt.Sprintf("shipped %d", n):
			outcomes, inSession = append(outcomes, fmt.Sprintf("shipped %d", n)), append(inSession, n)
		case call == "look" && reply == fmt.Sprintf("shipped in this session: %v", inSession):
			looked = true
		default:
			return text("%s returned %q, which contradicts %v", call, reply, inSession)
		}
	}
	if !looked {
		return calls(next())
	}
	return text("%s", strings.Join(outcomes, ", "))
}

// checkShipments compares the model's final answer with the server's log of side effects.
func checkShipments(p *flowRun) (out []string) {
	if p.result.ResultText == nil {
		return []string{"the run has no result text"}
	}
	for n, reported := range strings.Split(*p.result.ResultText, ", ") {
		shipments := 0
		for _, s := range p.log {
			if s.what == fmt.Sprintf(`ship {"n":%d}`, n+1) {
				shipments++
			}
		}
		certain := reported == fmt.Sprintf("shipped %d", n+1)
		if !certain && reported != fmt.Sprintf("perhaps %d", n+1) || shipments > 1 || certain && shipments != 1 {
			out = append(out, fmt.Sprintf("%d was shipped %d times, but the model reports %q", n+1, shipments, reported))
		}
	}
	return out
}

// TestCheckShipments checks that checkShipments reports shipments that do not match the model's answer.
func TestCheckShipments(t *testing.T) {
	ship := func(n ...int) (log []request) {
		for _, i := range n {
			log = append(log, request{what: fmt.Sprintf(`ship {"n":%d}`, i)})
		}
		return log
	}
	for answer, tc := range map[string]struct {
		log      []request
		problems int
	}{
		"shipped 1, shipped 2": {ship(1, 2), 0}, "perhaps 1, shipped 2": {ship(2), 0}, "shipped 1, perhaps 2": {ship(1, 2), 0},
		"shipped 1": {ship(1, 1), 1}, "shipped 1, shipped 2, shipped 3": {ship(1, 2), 1},
		"perhaps 1, perhaps 2": {ship(1, 2, 2), 1}, `look returned nothing`: {ship(1, 2), 1},
	} {
		if got := checkShipments(&flowRun{result: &contract.RunResult{ResultText: &answer}, log: tc.log}); len(got) != tc.problems {
			t.Errorf("%q: problems = %q, want %d", answer, got, tc.problems)
		}
	}
}
