// Package browser tests a run's pages in the Web UI in a headless browser.
package browser

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"go.temporal.io/sdk/client"

	"weft/tests/programs"
)

// patience bounds the wait for a page's content.
const patience = 5 * time.Minute

// site is an embedded server with its Web UI and a worker, and a browser.
type site struct {
	ui, address string
	client      client.Client
	// programs is the folder of the server and starter binaries.
	programs string
	// tab is the context of the browser's only tab.
	tab context.Context
}

// open starts the server and the browser, or skips the test if one of them is missing.
func open(t *testing.T) *site {
	t.Helper()
	server := programs.Path(t, "WEFT_DEVSERVER")
	program := programs.Browser(t)
	s := &site{programs: filepath.Dir(server)}
	s.serve(t, server)
	options := append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...)
	options = append(options, chromedp.ExecPath(program))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // required by Chromium if run as root
	}
	browser, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	tab, end := chromedp.NewContext(browser)
	t.Cleanup(end)
	s.tab = tab
	if err := chromedp.Do(s.tab, chromedp.EmulateViewport(1400, 760)); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return s
}

// serve starts the server with a worker that has only the scripted model.
func (s *site) serve(t *testing.T, program string) {
	t.Helper()
	cmd := exec.Command(program, "-db", ":memory:", "-port", "0", "-ui-port", "-1")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "WEFT_MODEL=script"}
	cmd.Dir = t.TempDir()
	var ready struct{ Address, UI string }
	programs.Ready(t, cmd, &ready)
	s.ui, s.address = ready.UI, ready.Address
	var err error
	if s.client, err = client.Dial(client.Options{HostPort: ready.Address}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
}

// shown returns the text of a page and of its frames: the Web UI shows what an author wrote
// in frames.
const shown = `[document, ...Array.from(document.querySelectorAll('iframe'), f => f.contentDocument)]
  .map(d => d && d.body ? d.body.innerText : '').join('\n')`

// look opens a page of a run and waits until it contains all wanted texts, in any order.
func (s *site) look(t *testing.T, id, page string, want ...string) {
	t.Helper()
	d, err := s.client.DescribeWorkflowExecution(context.Background(), id, "")
	if err != nil {
		t.Fatal(err)
	}
	run := d.GetWorkflowExecutionInfo().GetExecution().GetRunId()
	address := fmt.Sprintf("%s/namespaces/default/workflows/%s/%s/%s", s.ui, url.PathEscape(id), run, page)
	ctx, cancel := context.WithTimeout(s.tab, 2*patience)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(address)); err != nil {
		t.Fatalf("open %s: %v", address, err)
	}
	var text string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		var err error
		if text, err = chromedp.Run(ctx, chromedp.Evaluate[string](shown)); err != nil {
			t.Fatalf("read %s: %v", address, err)
		}
		if missing(text, want) == nil {
			return
		}
	}
	t.Errorf("the page %s does not show %q within %v; it shows:\n%s", page, missing(text, want), patience, text)
}

// missing returns the wanted texts that a page does not contain, ignoring repeated spaces.
func missing(text string, want []string) []string {
	var out []string
	text = strings.Join(strings.Fields(text), " ")
	for _, w := range want {
		if !strings.Contains(text, w) {
			out = append(out, w)
		}
	}
	return out
}
