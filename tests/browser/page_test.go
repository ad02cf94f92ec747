package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// token is the token of Ann, who uses the page.
const token = "the-token-of-ann-1234"

// hostile is markup for every field of a flow that a page shows.
const hostile = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`

// hostileFlow requests a tool result from its client, so that arguments are shown, too.
var hostileFlow = strings.ReplaceAll(`{"id":"h","name":"H","description":"","nodes":[{"id":"a","name":"H","prompt":"H","is_exit_node":true,"tools":[]},
{"id":"b","name":"Second","prompt":"Say more.","is_exit_node":true,"tools":[]}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"e2","source":"a","target":"b"},{"id":"e3","source":"b","target":"END"}]}`, `"H"`, quoted(hostile))

func quoted(s string) string {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// largeFlow has this many nodes: a hundred chains between the first node and a join.
func largeFlow(n int) string {
	type object = map[string]any
	var nodes, edges []object
	edge := func(from, to string) {
		edges = append(edges, object{"id": fmt.Sprint("e", len(edges)), "source": from, "target": to})
	}
	for i := range n {
		nodes = append(nodes, object{"id": fmt.Sprint("n", i), "name": fmt.Sprint("Node ", i), "prompt": "p", "tools": []any{}, "is_exit_node": i == n-1, "defer": i == n-1})
	}
	last := fmt.Sprint("n", n-1)
	edge("START", "n0")
	for i := 1; i < n-1; i++ {
		if i <= 100 {
			edge("n0", fmt.Sprint("n", i))
		}
		if i+100 < n-1 {
			edge(fmt.Sprint("n", i), fmt.Sprint("n", i+100))
		} else {
			edge(fmt.Sprint("n", i), last)
		}
	}
	edge(last, "END")
	raw, err := json.Marshal(object{"id": "large", "name": "Large", "description": "", "nodes": nodes, "edges": edges})
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// serveHTTP starts the HTTP server and returns its URL.
func (s *site) serveHTTP(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(s.programs, "starter"), "serve", "-listen", "127.0.0.1:0")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TEMPORAL_ADDRESS=" + s.address, "WEFT_MODEL=script", "WEFT_SERVE_TOKENS=ann:" + token}
	cmd.Dir, cmd.Stderr = t.TempDir(), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimRight(strings.TrimSpace(line), "/")
}

// await waits until a JavaScript expression is true.
func (s *site) await(t *testing.T, what, expression string) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		ok, err := chromedp.Run(s.tab, chromedp.Evaluate[bool]("!!("+expression+")"))
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if ok {
			return
		}
	}
	text, _ := chromedp.Run(s.tab, chromedp.Evaluate[string](shown))
	t.Fatalf("not within %v: %s; the page shows:\n%s", patience, what, text)
}

// do executes a statement in the page.
func (s *site) do(t *testing.T, statement string) {
	t.Helper()
	if _, err := chromedp.Run(s.tab, chromedp.Evaluate[bool]("(() => {"+statement+"; return true})()")); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// open navigates to a URL of the page.
func (s *site) visit(t *testing.T, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(s.tab, 2*patience)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(address)); err != nil {
		t.Fatalf("open %s: %v", address, err)
	}
}

// shows waits until the page shows a text.
func (s *site) shows(t *testing.T, text string) {
	t.Helper()
	s.await(t, "the page shows "+text, "document.body.innerText.includes("+quoted(text)+")")
}

// snap saves a screenshot to the folder set by make picture.
func (s *site) snap(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv("WEFT_PICTURES")
	if dir == "" {
		return
	}
	time.Sleep(time.Second) // animations finish
	png, err := chromedp.Run(s.tab, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
}

// started starts a flow on the page and returns the run's id.
func (s *site) started(t *testing.T, document, input, script string) string {
	t.Helper()
	s.do(t, "location.hash = '#/start'")
	s.await(t, "the form is there", "document.getElementById('document')")
	for id, value := range map[string]string{"document": document, "file-name": "flow.json", "input": input, "model": "script", "script": script} {
		s.do(t, fmt.Sprintf("document.getElementById(%s).value = %s", quoted(id), quoted(value)))
	}
	s.do(t, "[...document.querySelectorAll('button')].find(b => b.textContent === 'Start').click()")
	s.await(t, "the run is shown", "location.hash.startsWith('#/runs/') && document.querySelector('#graph [data-node]')")
	id, err := chromedp.Run(s.tab, chromedp.Evaluate[string]("decodeURIComponent(location.hash.slice('#/runs/'.length))"))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// state requests the state before and after the selected node.
func (s *site) state(t *testing.T) {
	t.Helper()
	s.do(t, "[...document.querySelectorAll('#node button')].find(b => b.textContent.startsWith('State')).click()")
}

// choose clicks on a node of the graph, which may be redrawn concurrently.
func (s *site) choose(t *testing.T, node string) {
	t.Helper()
	s.await(t, "a node is chosen", "(n => n && (n.dispatchEvent(new MouseEvent('click')), true))(document.querySelector('#graph [data-node"+node+"]'))")
}

// TestEndToEndPage signs in, starts a flow, inspects its nodes, answers its requests and reruns it from a node.
func TestEndToEndPage(t *testing.T) {
	s := open(t)
	address := s.serveHTTP(t)
	s.visit(t, address+"/")
	s.shows(t, "Sign in")
	s.do(t, "document.getElementById('token').value = 'wrong-wrong-wrong'; document.querySelector('form button').click()")
	s.shows(t, "invalid token")
	s.do(t, "document.getElementById('token').value = "+quoted(token)+"; document.querySelector('form button').click()")
	s.shows(t, "Start a flow, here or with starter.")
	s.await(t, "scripts do not see the token", "!document.cookie")

	doc, err := os.ReadFile(example + ".json")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(example + ".script")
	if err != nil {
		t.Fatal(err)
	}
	first := s.started(t, string(doc), "Look at the market.", string(script))
	s.await(t, "the run completes", "document.querySelector('.status.completed') && document.getElementById('result')")
	s.await(t, "all nodes are done", "document.querySelector('#graph').textContent.includes('done') && !document.querySelector('#graph').textContent.includes('running')")
	s.do(t, "document.querySelector('#graph [data-node=editor]').dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'}))")
	s.await(t, "the node is described", "document.querySelector('#node h3')?.textContent === 'Editor'")
	s.do(t, "[...document.querySelectorAll('#node button')].find(b => b.textContent.startsWith('Messages')).click()")
	s.await(t, "its messages are there", "document.querySelector('#node .panel')?.textContent.startsWith('user')")
	s.state(t)
	s.await(t, "its state is there", "document.querySelector('#node table.state tbody')?.innerText.includes('demand#2')")
	s.snap(t, "page")

	s.do(t, `const f = document.querySelector('#node .fork'); f.open = true; f.querySelector('textarea').value = 'Write it anew.'; f.querySelector('button').click()`)
	s.await(t, "both runs are compared", "location.hash.startsWith('#/compare/') && document.querySelectorAll('.status.completed').length === 2")
	s.shows(t, "recorded")
	s.snap(t, "compare")
	s.do(t, "location.hash = '#/'")
	s.await(t, "both runs are listed", "document.querySelectorAll('tbody tr').length === 2 && document.body.innerText.includes("+quoted(first)+")")

	s.ask(t) // this run has no owner: Ann does not see it
	id := s.started(t, hostileFlow, hostile, "rules:\n- {node: a, turn: 1, call: [{tool: set_state, arguments: {key: k, value: '"+strings.ReplaceAll(hostile, "'", "''")+"'}}]}\n- {node: a, say: '"+hostile+"'}\n- {say: done}")
	s.await(t, "the run completes", "document.querySelector('.status.completed')")
	s.choose(t, "")
	s.shows(t, "<img src=x onerror=")
	s.do(t, "[...document.querySelectorAll('#node button')].find(b => b.textContent.startsWith('Messages')).click()")
	s.await(t, "its messages are there", "document.querySelector('#node .panel pre')")
	s.state(t)
	s.await(t, "its state is there", "document.querySelector('#node table.state tbody')?.innerText.includes('absent') && document.querySelector('#node table.state pre').textContent.includes('<img')")
	s.await(t, "nothing was executed", "window.hacked === undefined && !document.querySelector('main img, main script') && location.hash.endsWith("+quoted(id)+")")

	nodes := 300
	if os.Getenv("WEFT_SIZES") != "" {
		nodes = 1000
	}
	large := s.started(t, largeFlow(nodes), "x", "rules: [{say: ok}]")
	s.await(t, "all nodes are drawn", fmt.Sprintf("document.querySelectorAll('#graph [data-node]').length === %d", nodes))
	s.await(t, "the large run completes", "document.querySelector('.status.completed')")
	s.await(t, "its executions are there", fmt.Sprintf("document.querySelectorAll('.fall button').length === %d", nodes))
	s.choose(t, "=n150")
	s.await(t, "a node of it is described", "document.querySelector('#node h3')?.textContent === 'Node 150' && location.hash.endsWith("+quoted(large)+")")

	if err := chromedp.Do(s.tab, chromedp.EmulateViewport(400, 800)); err != nil {
		t.Fatal(err)
	}
	for _, hash := range []string{"#/", "#/start", "#/prompt", "#/runs/" + id, "#/compare/" + id + "/" + first} {
		s.do(t, "location.hash = "+quoted(hash))
		time.Sleep(300 * time.Millisecond)
		s.await(t, hash+" fits 400 pixels", "document.documentElement.scrollWidth <= 400")
	}
	s.do(t, "document.getElementById('sign-out').click()")
	s.await(t, "the form to sign in is back", "document.getElementById('token')")
}
