package activities

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"

	"weft/activities/contract"
	"weft/activities/llm"
)

// meters sums metrics by name and labels, without Temporal's own labels.
type meters struct {
	mu     *sync.Mutex
	labels map[string]string
	sums   map[string]int64
}

func (m meters) WithTags(tags map[string]string) client.MetricsHandler {
	all := maps.Clone(m.labels)
	for k, v := range tags {
		if !strings.Contains(k, "_") {
			all[k] = v
		}
	}
	return meters{m.mu, all, m.sums}
}

func (m meters) add(name string, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range slices.Sorted(maps.Keys(m.labels)) {
		name += fmt.Sprintf(" %s=%s", k, m.labels[k])
	}
	if strings.HasPrefix(name, "weft_") {
		m.sums[name] += n
	}
}

type (
	counting func(int64)
	timing   func(time.Duration)
	gauging  func(float64)
)

func (f counting) Inc(n int64)          { f(n) }
func (f timing) Record(d time.Duration) { f(d) }
func (f gauging) Update(v float64)      { f(v) }
func (m meters) Counter(name string) client.MetricsCounter {
	return counting(func(n int64) { m.add(name, n) })
}
func (m meters) Timer(name string) client.MetricsTimer {
	return timing(func(time.Duration) { m.add(name, 1) })
}
func (m meters) Gauge(string) client.MetricsGauge { return gauging(func(float64) {}) }

func TestMeasures(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	m := meters{&sync.Mutex{}, map[string]string{}, map[string]int64{}}
	suite.SetMetricsHandler(m)
	env := suite.NewTestActivityEnvironment()
	models, err := llm.Open(llm.Settings{Default: "script"})
	if err != nil {
		t.Fatal(err)
	}
	run := newFakeRun()
	New(Deps{Models: models, Source: run}).Register(env)
	script := scripted(t, run, `rules:
  - {kind: judge, yes: true, usage: {input: 30, output: 4}}
  - {fail: {class: denied, text: no}}`)
	if out, f := perform[contract.JudgeResult](t, env, contract.ActivityEvaluateCondition, contract.JudgeInput{Model: "script", Script: script, Question: "?", Node: "n"}); f != nil || !out.Yes {
		t.Fatalf("judge = %+v, %v", out, f)
	}
	profile := profileOf(t, run, contract.Profile{Model: "script", Node: "n", Script: script})
	_, f := perform[contract.ModelResult](t, env, contract.ActivityCallModel, contract.ModelInput{Profile: profile})
	if f == nil || f.Class != contract.ClassDenied {
		t.Fatalf("the model's failure is %v", f)
	}
	want := map[string]int64{
		"weft_model_latency model=script":                 1,
		"weft_model_tokens kind=input model=script":       30,
		"weft_model_tokens kind=output model=script":      4,
		"weft_attempt_failures class=denied":              1,
		"weft_transcript_cache of=content result=miss":    1, // the script
		"weft_transcript_cache of=content result=hit":     2, // the script again, and the profile, which the input has
		"weft_transcript_cache of=transcript result=hit":  1,
		"weft_run_queries query=" + contract.QueryContent: 1,
	}
	if diff := cmp.Diff(want, m.sums); diff != "" {
		t.Errorf("measures (-want +got):\n%s", diff)
	}
}

// TestMeasuresOfCutAnswers checks that the usage of truncated answers is counted.
func TestMeasuresOfCutAnswers(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	m := meters{&sync.Mutex{}, map[string]string{}, map[string]int64{}}
	suite.SetMetricsHandler(m)
	env := suite.NewTestActivityEnvironment()
	server := serveModel(t, 200, "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":5}}\n\n")
	models := modelsOf(t, llm.Settings{Prices: map[string]llm.Price{"here/*": {Input: 2, Output: 10}}, Providers: map[string]llm.ProviderSettings{"here": {Kind: "compatible", BaseURL: server.URL}}})
	run := newFakeRun()
	run.say(t, "t", 1)
	New(Deps{Models: models, Source: run}).Register(env)
	in := run.call("t", 0, 1)
	in.Profile = profileOf(t, run, contract.Profile{Model: "here/m", Node: "n"})
	_, f := perform[contract.ModelResult](t, env, contract.ActivityCallModel, in)
	if f == nil || f.Usage == nil || f.Usage.Cut != 1 || f.Usage.Cost != 250 {
		t.Fatalf("%+v", f)
	}
	for name, want := range map[string]int64{"weft_model_tokens kind=input model=here/m": 100, "weft_model_tokens kind=output model=here/m": 5, "weft_model_cost model=here/m": 250, "weft_model_latency model=here/m": 0} {
		if m.sums[name] != want {
			t.Errorf("%s is %d, want %d", name, m.sums[name], want)
		}
	}
}
