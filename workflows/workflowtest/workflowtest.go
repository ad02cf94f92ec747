// Package workflowtest helps to test workflow code.
package workflowtest

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/workflows/schedule"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// quiet drops Temporal's log.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

// Env is Temporal's test environment, on a machine that may be busy.
func Env() *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
	env.SetTestTimeout(4 * time.Minute)
	return env
}

// Run runs a piece of workflow code in Temporal's test environment.
func Run(t *testing.T, fn func(workflow.Context)) {
	t.Helper()
	env := Env()
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		fn(ctx)
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}

// Without are the fields of a type that the next run does not get, and why not.
type Without map[string]string

// SameFields compares all fields of what a run carried and of what the next one made of it, but some. A field that
// the test does not set might be lost and nobody would know, so each must be set.
func SameFields(t *testing.T, old, again any, without Without) {
	t.Helper()
	a := reflect.ValueOf(old).Elem()
	known := 0
	for i := range a.NumField() {
		name := a.Type().Field(i).Name
		if why, ok := without[name]; ok {
			if known++; why == "" {
				t.Errorf("say why %T.%s is not carried", old, name)
			}
		} else if a.Field(i).IsZero() {
			t.Errorf("%T.%s is not set here: set it and carry it, or say why it is not carried", old, name)
		}
	}
	if known != len(without) {
		t.Errorf("%T has no longer all of the fields %v", old, without)
	}
	skip := func(p cmp.Path) bool {
		for _, step := range p {
			if f, ok := step.(cmp.StructField); ok {
				_, skipped := without[f.Name()]
				return skipped
			}
		}
		return false
	}
	if diff := cmp.Diff(old, again, cmp.Exporter(func(reflect.Type) bool { return true }), cmp.FilterPath(skip, cmp.Ignore())); diff != "" {
		t.Errorf("%T is not carried whole (-before +after):\n%s", old, diff)
	}
}

// Travels gives what a payload makes of a value.
func Travels[T any](t *testing.T, in T) T {
	t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out T
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// State lists a view's state as key=value.
func State(v *contract.View) string {
	var out []string
	for _, e := range v.State {
		out = append(out, e.Key+"="+strings.Trim(string(e.Value), `"`))
	}
	return strings.Join(out, " ")
}

// Write makes a view write a key in a strand at a step.
func Write(v *contract.View, strand string, step int, key, value string) {
	schedule.SetEntry(v, contract.StateEntry{Key: key, Value: json.RawMessage(`"` + value + `"`), By: schedule.NextStamp(v, strand, value, step)})
}
