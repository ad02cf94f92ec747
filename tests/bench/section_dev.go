package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The edited file, and the target for the time to the first effect.
const (
	devNodes   = 30
	devChanged = 21
	devTarget  = time.Second
)

// authored returns a chain of nodes, one of which has a given prompt.
func authored(prompt string) string {
	type object = map[string]any
	var nodes, edges []object
	last := "START"
	for i := 1; i <= devNodes; i++ {
		id, text := fmt.Sprint("n", i), "Go on."
		if i == devChanged {
			text = prompt
		}
		nodes = append(nodes, object{"id": id, "name": id, "prompt": text, "tools": []any{}, "is_exit_node": i == devNodes})
		edges = append(edges, object{"id": fmt.Sprint("e", i), "source": last, "target": id})
		last = id
	}
	edges = append(edges, object{"id": "end", "source": last, "target": "END"})
	raw, _ := json.Marshal(object{"id": "chain", "name": "Chain", "description": "", "nodes": nodes, "edges": edges}) // cannot fail
	return string(raw)
}

// saves measures the time from the end of the write of a flow to the first event of its new run at a client of starter dev,
// such as the page.
func saves(ctx context.Context, b *bench) error {
	b.table.plainHead("dev: a flow of %d nodes saved with another prompt of node %d, %d times", devNodes, devChanged, b.scale.saves)
	e, err := b.startDev(ctx)
	if err != nil {
		return err
	}
	defer e.close()
	var waits []float64
	calls := 0
	for i := range b.scale.saves {
		began, err := replace(e.file, authored(fmt.Sprintf("Go on, %d.", i)))
		if err != nil {
			return err
		}
		run, err := e.next()
		if err != nil {
			return err
		}
		if err := e.firstEvent(ctx, run); err != nil {
			return err
		}
		waits = append(waits, float64(time.Since(began)))
		n, err := e.calls(ctx, run)
		if err != nil {
			return err
		}
		calls += n
	}
	p95 := quantile(waits, 0.95)
	b.table.note("from a save to the first event: median %s, p95 %s, target %s %s", nanos(quantile(waits, 0.5)), nanos(p95), devTarget, verdict(p95, float64(devTarget)))
	b.table.note("model calls per save: %.1f; without what came before: %d", float64(calls)/float64(len(waits)), devNodes-devChanged+1)
	return nil
}

// replace writes a file atomically, as editors do, and returns when it was done.
func replace(file, text string) (time.Time, error) {
	err := errors.Join(os.WriteFile(file+"~", []byte(text), 0o600), os.Rename(file+"~", file))
	return time.Now(), err
}

// editing is starter dev and its messages about saves.
type editing struct {
	*process
	url, file string
	saves     *bufio.Scanner
	stop      func()
}

func (e *editing) close() {
	e.stop()
	_ = e.cmd.Process.Signal(os.Interrupt) // it stops the worker that it started
	_ = e.cmd.Wait()
}

// startDev runs starter dev on a folder with the flow, which has one finished run.
func (b *bench) startDev(ctx context.Context) (*editing, error) {
	dir := filepath.Join(b.dir, "authored")
	e := &editing{file: filepath.Join(dir, "chain.json")}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if _, err := replace(e.file, authored("Go on.")); err != nil {
		return nil, err
	}
	// Killed workers of other sections still count as pollers of their queue.
	env := append([]string{"TEMPORAL_ADDRESS=" + b.address, "TEMPORAL_CONFIG_FILE=none", "WEFT_MODEL=script", "XDG_STATE_HOME=" + b.dir, "WEFT_TASK_QUEUE=authored"}, b.env...)
	var err error
	if e.process, err = launch("dev", b.dir, env, filepath.Join(filepath.Dir(b.settings.server), "starter"), "dev", dir, "-listen", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	e.url, err = e.line("")
	e.url = strings.TrimRight(e.url, "/")
	ctx, e.stop = context.WithCancel(ctx)
	var res *http.Response
	if err == nil {
		res, err = e.ask(ctx, "GET", "/dev/events", nil)
	}
	if err == nil {
		e.saves = bufio.NewScanner(res.Body)
		context.AfterFunc(ctx, func() { res.Body.Close() })
		err = e.first(ctx)
	}
	if err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

// first starts the flow's first run and waits for its end.
func (e *editing) first(ctx context.Context) error {
	body := map[string]any{"id": "first", "flow": map[string]string{"text": authored("Go on."), "name": "chain.json"}, "input": "x", "model": "script", "max_steps": 2 * devNodes,
		"script": map[string]any{"rules": []any{map[string]string{"say": "ok"}}}}
	res, err := e.ask(ctx, "POST", "/runs", body)
	if err != nil {
		return err
	}
	res.Body.Close()
	_, err = e.calls(ctx, "first")
	return err
}

// ask sends a request. The caller closes the response's body.
func (e *editing) ask(ctx context.Context, method, path string, body any) (*http.Response, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, e.url+path, strings.NewReader(string(raw)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err == nil && res.StatusCode >= 300 {
		res.Body.Close()
		err = fmt.Errorf("%s %s: %s; starter dev said: %s", method, path, res.Status, e.tail())
	}
	return res, err
}

// next waits for the run started by a save.
func (e *editing) next() (string, error) {
	for e.saves.Scan() {
		data, ok := strings.CutPrefix(e.saves.Text(), "data: ")
		if !ok {
			continue
		}
		var s struct {
			Run  string `json:"run_id"`
			From string `json:"from"`
		}
		if err := json.Unmarshal([]byte(data), &s); err != nil {
			return "", err
		}
		if s.Run == "" || s.From == "" {
			return "", fmt.Errorf("a save was not run from a node: %s", data)
		}
		return s.Run, nil
	}
	return "", fmt.Errorf("starter dev says no more of saves; it said: %s", e.tail())
}

// firstEvent waits for a run's first event.
func (e *editing) firstEvent(ctx context.Context, run string) error {
	res, err := e.ask(ctx, "GET", "/runs/"+run+"/events", nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data: ") {
			return nil
		}
	}
	return fmt.Errorf("the run %s has no event", run)
}

// calls waits for a run's end and counts its model calls.
func (e *editing) calls(ctx context.Context, run string) (int, error) {
	res, err := e.ask(ctx, "GET", "/runs/"+run+"?wait=60s", nil)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	var view struct {
		Status string
		Usage  struct{ Calls int }
		Error  json.RawMessage
	}
	if err := json.NewDecoder(res.Body).Decode(&view); err != nil {
		return 0, err
	}
	if view.Status != "completed" {
		return 0, fmt.Errorf("the run %s is %s: %s", run, view.Status, view.Error)
	}
	return view.Usage.Calls, nil
}
