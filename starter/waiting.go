package main

import (
	"context"
	"fmt"
	"sync"
	"text/tabwriter"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"weft/activities/contract"
	"weft/starter/plaintext"
	"weft/starter/progress"
	"weft/worker/config"
)

const (
	// askedAtOnce bounds how many runs are asked at a time.
	askedAtOnce = 16
	// askTimeout is how long one run's worker has to answer.
	askTimeout = 5 * time.Second
)

// inbox is what open runs wait for.
type inbox struct {
	Requests []asked `json:"requests"`
	// Silent are the runs of which nothing is known, because nobody answers for them.
	Silent []silentRun `json:"silent"`
}

// silentRun is a run whose worker does not answer.
type silentRun struct {
	Run   string `json:"run"`
	Flow  string `json:"flow,omitempty"`
	Error string `json:"error"`
}

// waiting prints what open runs wait for, the longest waits first in each run.
func (a *app) waiting(ctx context.Context, t *config.Temporal) error {
	wanted, err := a.filter(ctx, t)
	if err != nil {
		return err
	}
	// All open runs are asked: one that has no search attributes may wait too.
	if wanted.limit = 0; a.flags.has("limit") {
		wanted.limit = a.flags.limit
	}
	runs, more, err := findRuns(ctx, t, wanted)
	if err != nil {
		return err
	}
	box := a.askAll(ctx, t, runs)
	switch a.flags.output {
	case outputJSON:
		a.object(box)
	case outputLines:
		for _, q := range box.Requests {
			a.object(q)
		}
		for _, s := range box.Silent {
			a.object(s)
		}
	default:
		a.waitingTable(box.Requests)
	}
	for i, s := range box.Silent {
		if i == askedAtOnce {
			a.say("no answer: %d more runs; -output json names them", len(box.Silent)-i)
			break
		}
		a.say("no answer: %s", plaintext.Line(s.Error, 1000))
	}
	if more {
		a.say("only the %d youngest runs were asked; leave out -limit to ask all", wanted.limit)
	}
	if len(box.Silent) > 0 {
		a.say("starter: of %d open runs %d did not answer; what they wait for is not in the list", len(runs), len(box.Silent))
		return coded(exitFailed)
	}
	return nil
}

// askAll asks runs side by side and keeps their order.
func (a *app) askAll(ctx context.Context, t *config.Temporal, runs []listed) *inbox {
	answers := make([][]contract.Request, len(runs))
	errs := make([]error, len(runs))
	var group sync.WaitGroup
	slots := make(chan struct{}, askedAtOnce)
	queues := &quietQueues{waited: map[string]int{}, spoke: map[string]bool{}}
	for i := range runs {
		slots <- struct{}{}
		group.Go(func() {
			defer a.caught()
			defer func() { <-slots }()
			if errs[i] = queues.hopeless(runs[i].queue); errs[i] == nil {
				began := time.Now()
				answers[i], errs[i] = requestsOf(ctx, t, &runs[i])
				queues.note(runs[i].queue, errs[i], time.Since(began))
			}
		})
	}
	group.Wait()
	box := &inbox{Requests: []asked{}, Silent: []silentRun{}}
	now := time.Now()
	for i := range runs {
		if errs[i] != nil {
			box.Silent = append(box.Silent, silentRun{Run: runs[i].ID, Flow: runs[i].Flow, Error: errs[i].Error()})
			continue
		}
		for j := range answers[i] {
			box.Requests = append(box.Requests, a.asked(runs[i].ID, runs[i].Flow, &answers[i][j], now))
		}
	}
	return box
}

// quietQueues is what is known of the task queues whose workers are asked. Thousands of runs may
// wait at one whose workers are away: not each of them is given its time.
type quietQueues struct {
	mu sync.Mutex
	// waited counts the runs of a queue for which nobody answered in time; spoke are the queues
	// at which somebody did.
	waited map[string]int
	spoke  map[string]bool
}

// note takes down what became of a question that took a time.
func (s *quietQueues) note(queue string, err error, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.spoke[queue] = true
	case took > askTimeout/2: // what fails at once costs no time, and says nothing of others
		s.waited[queue]++
	}
}

// hopeless is why no run of a task queue is asked any more, or nil.
func (s *quietQueues) hopeless(queue string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spoke[queue] || s.waited[queue] < askedAtOnce {
		return nil
	}
	return fmt.Errorf("not asked, since for %d others on task queue %q nobody answered; start a worker with: bin/worker", askedAtOnce, queue)
}

// requestsOf asks one run.
func requestsOf(ctx context.Context, t *config.Temporal, run *listed) ([]contract.Request, error) {
	var st contract.Status
	err := ask(ctx, t, run.ID, about{queue: run.queue, status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, patience: askTimeout}, contract.QueryStatus, &st)
	return st.Requests, err
}

// waitingTable prints requests as columns; the last one is the command that answers.
func (a *app) waitingTable(list []asked) {
	if len(list) == 0 {
		a.say("no open run waits for anybody")
		return
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FLOW\tKIND\tWAITS\tDUE\tNODE\tASKED\tANSWER")
	for i := range list {
		q := &list[i]
		due, node := "-", "-"
		if q.DueAt != nil {
			due = q.DueAt.Local().Format(time.DateTime)
		}
		if q.Node != "" {
			node = plaintext.Line(q.Node, 60)
			if q.At != "" {
				node += " " + plaintext.Line(q.At, 100)
			}
		}
		flow := plaintext.Line(q.Flow, 60)
		if flow == "" {
			flow = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", flow, q.Kind, progress.Span(q.Seconds), due, node, plaintext.Line(q.Text, 80), plaintext.Line(q.Commands[0], 1000))
	}
	w.Flush()
}
