package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// Workflow types of the map's twin.
const (
	workflowTwinMap     = "TwinMap"
	workflowTwinElement = "TwinElement"
)

func registerTwinMap(w worker.WorkflowRegistry) {
	w.RegisterWorkflowWithOptions(twinMap, workflow.RegisterOptions{Name: workflowTwinMap})
	w.RegisterWorkflowWithOptions(twinElement, workflow.RegisterOptions{Name: workflowTwinElement})
}

// twinMapInput starts or continues the twin of a map.
type twinMapInput struct {
	Model  string          `json:"model"`
	Script json.RawMessage `json:"script,omitempty"`
	// Held is where the first run stores the script.
	Held   *contract.ContentRef `json:"held,omitempty"`
	Items  []string             `json:"items"`
	AtOnce int                  `json:"at_once"`
	// InPlace runs the elements as coroutines instead of children.
	InPlace bool `json:"in_place,omitempty"`
	// Said are the answers for the first items.
	Said []string `json:"said,omitempty"`
}

// twinElementInput starts the child for one element.
type twinElementInput struct {
	Model  string               `json:"model"`
	Script *contract.ContentRef `json:"script,omitempty"`
	Item   string               `json:"item"`
	N      int                  `json:"n"`
}

// twinMap is the hand-written equivalent of a map: a child or a coroutine per element, with bounded concurrency,
// and continue-as-new when the server suggests it.
func twinMap(ctx workflow.Context, in twinMapInput) ([]string, error) {
	held, err := newShelf(ctx)
	if err != nil {
		return nil, err
	}
	if in.Held == nil {
		in.Held, in.Script = held.put(ctx, in.Script), nil
	}
	said := make([]string, len(in.Items))
	next := copy(said, in.Said)
	var failed []error
	lanes := workflow.NewWaitGroup(ctx)
	for range in.AtOnce {
		lanes.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer lanes.Done()
			for next < len(said) && len(failed) == 0 && !workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
				i := next
				next++
				var err error
				if element := (twinElementInput{in.Model, in.Held, in.Items[i], i + 1}); in.InPlace {
					said[i], err = twinElement(ctx, element)
				} else {
					child := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
						WorkflowID: fmt.Sprintf("%s/each#1:%d", workflow.GetInfo(ctx).WorkflowExecution.ID, i+1), StaticSummary: "each"})
					err = workflow.ExecuteChildWorkflow(child, workflowTwinElement, element).Get(ctx, &said[i])
				}
				if err != nil {
					failed = append(failed, err)
				}
			}
		})
	}
	lanes.Wait(ctx)
	if len(failed) > 0 {
		return nil, errors.Join(failed...)
	}
	if next < len(said) {
		in.Said = said[:next]
		return nil, workflow.NewContinueAsNewError(ctx, workflowTwinMap, in)
	}
	return said, nil
}

// twinElement calls the model for one element.
func twinElement(ctx workflow.Context, in twinElementInput) (string, error) {
	t := &conversation{profile: contract.Profile{Model: in.Model, Node: mapNode, Script: in.Script}, step: in.N}
	if err := t.write(&contract.Message{Role: contract.RoleUser, Text: mapQuestion(in.Item)}); err != nil {
		return "", err
	}
	m, err := t.ask(ctx)
	if err != nil {
		return "", err
	}
	return m.Text, nil
}
