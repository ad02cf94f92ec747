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

// cartURL names, for the test's own program, where it reports calls as a server with a cart.
const cartURL = "CHAOS_CART"

// serveCart serves tools on standard input and output and exits, if the program was started as a server with a cart. The cart is
// in its memory; what it ships is noted outside: the server's log of effects.
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
				os.Exit(1) // the world has ended its worker
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

// shopping is an agent with a cart.
const shopping = `{"name":"chaos cart",` + plainAnswer + `,"nodes":[
{"id":"a","name":"A","prompt":"[a]","is_exit_node":true,"tools":[{"name":"open","data_connection_id":"cart"},{"name":"ship","data_connection_id":"cart"},{"name":"look","data_connection_id":"cart"}]}],` + oneExit + `}`

// shops opens a cart, ships 1 and 2 and looks. It believes what it is told: a session that was lost begins again with open, and what may
// have been shipped is not shipped again. It says what it knows of each, and where what it sees contradicts that.
func shops(t talk) says {
	var open, looked bool
	var here []int
	var knows []string
	next := func() asks {
		switch {
		case !open:
			return asks{"open", `{"n":0}`}
		case len(knows) < 2:
			return asks{"ship", fmt.Sprintf(`{"n":%d}`, len(knows)+1)}
		}
		return asks{"look", `{"n":0}`}
	}
	for _, reply := range t.replies {
		call, n := next().tool, len(knows)+1
		switch {
		case strings.HasPrefix(reply, "The session with this tool's server was lost"), strings.HasSuffix(reply, "no cart is open"):
			open, here = false, nil
		case strings.HasPrefix(reply, "outcome unknown: "):
			knows = append(knows, fmt.Sprintf("perhaps %d", n))
		case reply == "opened":
			open = true
		case call == "ship" && reply == fmt.Sprintf("shipped %d", n):
			knows, here = append(knows, fmt.Sprintf("shipped %d", n)), append(here, n)
		case call == "look" && reply == fmt.Sprintf("shipped in this session: %v", here):
			looked = true
		default:
			return text("%s gave %q, which contradicts %v", call, reply, here)
		}
	}
	if !looked {
		return calls(next())
	}
	return text("%s", strings.Join(knows, ", "))
}

// shipped compares what the model says at the end with the server's log of effects.
func shipped(p *passage) (out []string) {
	if p.result.ResultText == nil {
		return []string{"the run has no text"}
	}
	for n, known := range strings.Split(*p.result.ResultText, ", ") {
		made := 0
		for _, s := range p.log {
			if s.what == fmt.Sprintf(`ship {"n":%d}`, n+1) {
				made++
			}
		}
		sure := known == fmt.Sprintf("shipped %d", n+1)
		if !sure && known != fmt.Sprintf("perhaps %d", n+1) || made > 1 || sure && made != 1 {
			out = append(out, fmt.Sprintf("%d was shipped %d times, and the model says %q", n+1, made, known))
		}
	}
	return out
}

// TestShippedFindsErrors gives the check runs that must not pass.
func TestShippedFindsErrors(t *testing.T) {
	ship := func(n ...int) (log []seen) {
		for _, i := range n {
			log = append(log, seen{what: fmt.Sprintf(`ship {"n":%d}`, i)})
		}
		return log
	}
	for says, tc := range map[string]struct {
		log      []seen
		problems int
	}{
		"shipped 1, shipped 2": {ship(1, 2), 0}, "perhaps 1, shipped 2": {ship(2), 0}, "shipped 1, perhaps 2": {ship(1, 2), 0},
		"shipped 1": {ship(1, 1), 1}, "shipped 1, shipped 2, shipped 3": {ship(1, 2), 1},
		"perhaps 1, perhaps 2": {ship(1, 2, 2), 1}, `look gave nothing`: {ship(1, 2), 1},
	} {
		if got := shipped(&passage{result: &contract.RunResult{ResultText: &says}, log: tc.log}); len(got) != tc.problems {
			t.Errorf("%q: problems are %q, want %d", says, got, tc.problems)
		}
	}
}
