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

// discardLogger discards Temporal's log.
type discardLogger struct{}

func (discardLogger) Debug(string, ...any) {}
func (discardLogger) Info(string, ...any)  {}
func (discardLogger) Warn(string, ...any)  {}
func (discardLogger) Error(string, ...any) {}

// Env returns Temporal's test environment, with timeouts for a busy machine.
func Env() *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(discardLogger{})
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
	env.SetTestTimeout(4 * time.Minute)
	return env
}

// Run runs fn as a workflow in Temporal's test environment.
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

// IgnoredFields maps the fields of a type that are not carried over to the next run to the reasons.
type IgnoredFields map[string]string

// CompareFields compares the fields of a struct with those that the next run has restored, except the given ones. Each field must be
// set, because the loss of a zero value would go unnoticed.
func CompareFields(t *testing.T, old, restored any, without IgnoredFields) {
	t.Helper()
	a := reflect.ValueOf(old).Elem()
	skipped := 0
	for i := range a.NumField() {
		name := a.Type().Field(i).Name
		if why, ok := without[name]; ok {
			if skipped++; why == "" {
				t.Errorf("say why %T.%s is not carried", old, name)
			}
		} else if a.Field(i).IsZero() {
			t.Errorf("%T.%s is not set here: set it and carry it, or say why it is not carried", old, name)
		}
	}
	if skipped != len(without) {
		t.Errorf("%T no longer has all of the fields %v", old, without)
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
	if diff := cmp.Diff(old, restored, cmp.Exporter(func(reflect.Type) bool { return true }), cmp.FilterPath(skip, cmp.Ignore())); diff != "" {
		t.Errorf("%T is not carried over completely (-before +after):\n%s", old, diff)
	}
}

// RoundTrip returns a value after encoding it as JSON and decoding it, as in a payload.
func RoundTrip[T any](t *testing.T, in T) T {
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

// State returns a view's state as a list of key=value.
func State(v *contract.View) string {
	var out []string
	for _, e := range v.State {
		out = append(out, e.Key+"="+strings.Trim(string(e.Value), `"`))
	}
	return strings.Join(out, " ")
}

// Write writes a key to a view, in a strand at a step.
func Write(v *contract.View, strand string, step int, key, value string) {
	schedule.SetEntry(v, contract.StateEntry{Key: key, Value: json.RawMessage(`"` + value + `"`), By: schedule.NextStamp(v, strand, value, step)})
}
