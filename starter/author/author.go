// Package author runs a flow again each time one of its files is saved: from the first node that changed, reusing
// the results before it from the last run.
package author

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/specadapter"
	"weft/starter/fork"
	"weft/starter/history"
	"weft/starter/impact"
	"weft/starter/input"
	"weft/starter/runs"
	"weft/starter/runtree"
	"weft/starter/validate"
	"weft/workflows/plan"
)

// Save is the result of a save for one flow.
type Save struct {
	File string `json:"file"`
	Flow string `json:"flow,omitempty"`
	// Diagnostics are the flow's errors and warnings.
	Diagnostics []string `json:"diagnostics,omitempty"`
	// Run is the id of the run that was started, and Last the id of the run from which it was forked, at the execution
	// From. If From is "", the run started from the beginning.
	Run  string `json:"run_id,omitempty"`
	Last string `json:"last_run_id,omitempty"`
	From string `json:"from,omitempty"`
	// Note is the reason why nothing was run, or why the run started from the beginning.
	Note string `json:"note,omitempty"`
}

// Author watches a folder. Dir, Load, Start, Connection and Say are required.
type Author struct {
	Dir        string
	Load       func(file string) (*input.Document, error)
	Connection *runs.Connection
	// Start starts a run of a flow with a new id.
	Start func(ctx context.Context, flow *plan.Flow, in *contract.RunInput) (*runs.Run, error)
	Say   func(format string, args ...any)

	watcher   *fsnotify.Watcher
	mu        sync.Mutex
	listeners map[chan any]bool
	// files are the flows of the folder, by document.
	files map[string]flowFile
	// own holds the id of the last run of each flow, by name, that this Author has started: lists may not have it yet.
	own map[string]string
}

type flowFile struct {
	// hash is the hash of the plan, or of its diagnostics; script is the hash of the flow's script.
	hash, script string
}

// settle is how long a file must be unchanged before it is read: editors write in several steps.
const settle = 40 * time.Millisecond

// Open reads the flows of the folder and detects changes from then on. The caller must call [Author.Watch] next.
func (a *Author) Open() error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", a.Dir, err)
	}
	a.watcher = w
	if err := add(w, a.Dir); err != nil {
		return errors.Join(err, w.Close())
	}
	a.files, a.own = map[string]flowFile{}, map[string]string{}
	all, err := a.changed()
	if err != nil {
		return errors.Join(err, w.Close())
	}
	for _, e := range all {
		if e.result == nil {
			a.notify(e.save)
		}
	}
	return nil
}

// Watch runs flows at each save until ctx is done.
func (a *Author) Watch(ctx context.Context) error {
	w := a.watcher
	defer w.Close()
	quiet := time.NewTimer(time.Hour)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-w.Errors:
			a.Say("dev: watch %s: %v", a.Dir, err)
		case e := <-w.Events:
			if info, err := os.Stat(e.Name); err == nil && info.IsDir() {
				if err := add(w, e.Name); err != nil {
					a.Say("dev: %v", err)
				}
			}
			if !e.Has(fsnotify.Chmod) {
				quiet.Reset(settle)
			}
		case <-quiet.C:
			a.saved(ctx)
		}
	}
}

// add watches a folder and its subfolders, except hidden ones.
func add(w *fsnotify.Watcher, dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("watch %s: %w", dir, err)
		case !entry.IsDir():
			return nil
		case path != dir && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules"):
			return fs.SkipDir
		}
		if err := w.Add(path); err != nil {
			return fmt.Errorf("watch %s: %w", path, err)
		}
		return nil
	})
}

// edited is a flow that has changed since the last save.
type edited struct {
	save   Save
	result *specadapter.Result
	script []byte
}

func (a *Author) saved(ctx context.Context) {
	all, err := a.changed()
	if err != nil {
		a.Say("dev: %v", err)
		return
	}
	for _, e := range all {
		if e.result != nil {
			if err := a.run(ctx, &e); err != nil {
				e.save.Note = err.Error()
			}
		}
		a.notify(e.save)
	}
}

// changed reads the flows of the folder, and returns those that have changed, including those that cannot be run.
func (a *Author) changed() ([]edited, error) {
	files, found, err := validate.Files([]string{a.Dir})
	if err != nil {
		return nil, err
	}
	var out []edited
	var report validate.Report
	for _, file := range files {
		d, unread := a.Load(file)
		f, err := report.Add(file, d, unread, found[file])
		if err != nil {
			return nil, err
		}
		if f.Skipped {
			continue
		}
		e := edited{save: Save{File: file, Flow: f.Name}}
		for _, x := range f.Diagnostics {
			e.save.Diagnostics = append(e.save.Diagnostics, x.String())
		}
		now := flowFile{}
		script := strings.TrimSuffix(file, filepath.Ext(file)) + ".script"
		if text, err := os.ReadFile(script); err == nil {
			now.script = contract.SHA(text)
			if e.script, err = llm.ParseScript(script, text); err != nil {
				e.save.Diagnostics, f.OK = append(e.save.Diagnostics, err.Error()), false
			}
		}
		if now.hash = f.Hash; f.OK {
			e.result = d.Result
		} else {
			now.hash = strings.Join(e.save.Diagnostics, "\n")
		}
		if a.files[file] != now {
			a.files[file] = now
			out = append(out, e)
		}
	}
	return out, nil
}

// run forks the flow's last run at the first node that changed, or runs it from the beginning if the edges from START changed.
func (a *Author) run(ctx context.Context, e *edited) error {
	last, err := a.last(ctx, e.result.Flow.Name)
	if err != nil {
		return err
	}
	if last == nil {
		return errors.New("the flow has no run yet: start one with its input, and the next save continues from it")
	}
	tree, err := runtree.Read(ctx, history.From(a.Connection.Client), last.ID, last.RunID)
	if err != nil {
		return err
	}
	root := tree.Root()
	if root.Input == nil || root.Flow == nil {
		return fmt.Errorf("the run %q has no plan", last.ID)
	}
	if len(root.Input.Script) == 0 {
		e.script = nil // the last run used a model
	}
	e.save.Last = last.ID
	from, anew, err := a.first(ctx, last, root, e)
	if err != nil {
		return err
	}
	var in *contract.RunInput
	switch {
	case anew:
	case from == "":
		e.save.Last = ""
		return fmt.Errorf("no node that ran in %q has changed", last.ID)
	default:
		in, err = fork.Input(ctx, last, tree, fork.Options{From: from, Flow: e.result, File: e.save.File, Script: e.script, Say: func(string, ...any) {}})
		if e.save.From = from; err != nil {
			e.save.Note, e.save.From = "restarting: "+err.Error(), ""
		}
	}
	if in == nil {
		again := *root.Input
		again.Fork, again.Flow = nil, contract.FlowRef{Plan: e.result.Flow, Source: &e.result.Source}
		if e.script != nil {
			again.Script = e.script
		}
		in = &again
	}
	run, err := a.Start(ctx, e.result.Flow, in)
	if err != nil {
		return err
	}
	a.own[e.result.Flow.Name], e.save.Run = run.ID, run.ID
	if last.Open() {
		return a.Connection.Client.CancelWorkflow(ctx, last.ID, "")
	}
	return nil
}

func (a *Author) last(ctx context.Context, flow string) (*runs.Run, error) {
	page, _, err := a.Connection.Page(ctx, runs.Filter{Flow: flow, Closed: true, Limit: 1}, nil)
	if err != nil {
		return nil, err
	}
	id := a.own[flow]
	if len(page) > 0 && page[0].ID != id {
		if id == "" {
			return a.Connection.Find(ctx, page[0].ID)
		}
		// Use the later one of the Author's own last run and the listed run.
		d, err := a.Connection.Describe(ctx, id, "")
		if err != nil || d.GetWorkflowExecutionInfo().GetStartTime().AsTime().Before(page[0].Started) {
			id = page[0].ID
		}
	}
	if id == "" {
		return nil, nil
	}
	return a.Connection.Find(ctx, id)
}

// first returns the first execution of the last run whose node has changed or, for an open run without one, the execution
// that is running. anew reports whether the edges from START have changed.
func (a *Author) first(ctx context.Context, last *runs.Run, root *runtree.Workflow, e *edited) (from string, anew bool, err error) {
	flow := e.result.Flow
	if !impact.SameNode(root.Flow, flow, plan.Start) {
		return "", true, nil
	}
	st, _, err := last.CurrentStatus(ctx)
	if err != nil {
		return "", false, err
	}
	last.AddBranches(ctx, st)
	all := slices.Clone(st.Executions)
	for _, label := range st.Running {
		all = append(all, history.ExecutionOf(label))
	}
	slices.SortStableFunc(all, func(x, y contract.Execution) int { return x.Step - y.Step })
	scripted := changedRules(root.Input.Script, e.script)
	for _, x := range all {
		if !impact.SameNode(root.Flow, flow, x.Node) || scripted(x.Node) {
			return history.Label(x), false, nil
		}
	}
	if last.Open() && len(st.Running) > 0 {
		return history.Label(history.ExecutionOf(st.Running[0])), false, nil
	}
	return "", false, nil
}

// changedRules returns a function that reports whether a script's answers for a node may have changed.
func changedRules(old, now json.RawMessage) func(node string) bool {
	if now == nil {
		return func(string) bool { return false }
	}
	count := map[string]int{}
	for sign, text := range map[int]json.RawMessage{1: old, -1: now} {
		var s struct {
			Rules []json.RawMessage `json:"rules"`
		}
		if json.Unmarshal(text, &s) == nil {
			for _, r := range s.Rules {
				count[string(r)] += sign
			}
		}
	}
	nodes := map[string]bool{}
	for text, n := range count {
		var rule struct {
			Node string `json:"node"`
		}
		if n != 0 && json.Unmarshal([]byte(text), &rule) == nil {
			nodes[rule.Node] = true
		}
	}
	return func(node string) bool { return nodes[""] || nodes[node] }
}

func (a *Author) notify(s Save) {
	for _, d := range s.Diagnostics {
		a.Say("%s", d)
	}
	switch {
	case s.Run != "" && s.From != "":
		a.Say("dev: %s: %s continues from %s of %s", s.File, s.Run, s.From, s.Last)
	case s.Run != "":
		a.Say("dev: %s: %s restarts; %s", s.File, s.Run, s.Note)
	case s.Note != "":
		a.Say("dev: %s: %s", s.File, s.Note)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range a.listeners {
		select {
		case c <- s:
		default: // a listener that is too slow can read the list of runs
		}
	}
}

// Listen returns a channel that receives the results of saves from now on, and a function that stops it.
func (a *Author) Listen() (saves <-chan any, end func()) {
	c := make(chan any, 16)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.listeners == nil {
		a.listeners = map[chan any]bool{}
	}
	a.listeners[c] = true
	return c, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.listeners, c)
	}
}
