package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/activities/mask"
	"weft/activities/tool"
	"weft/workflows/plan"
)

// testSecret must not appear in anything that leaves an activity.
const testSecret = "Vq4-canary-88c1"

// TestMask checks that a secret of the worker is masked in the answers of models and tools.
func TestMask(t *testing.T) {
	type nothing struct{}
	tools, err := tool.Open(tool.Settings{Functions: []tool.Function{
		tool.Func("tells", "It knows "+testSecret+".", func(context.Context, nothing) (any, error) {
			return map[string]any{"found": testSecret, "n": 1}, nil
		}),
		tool.Func("fails", "", func(context.Context, nothing) (any, error) { return nil, fmt.Errorf("no %s", testSecret) }),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tools.Close)
	r := newFakeRun()
	r.say(t, "t", 1)
	_, env := bench(t, Deps{Source: r, Tools: tools, Mask: mask.New(testSecret)})
	ask := func(script string, output *plan.Output) *contract.ModelInput {
		in := r.call("t", 0, 1)
		in.Profile = profileOf(t, r, contract.Profile{Model: "script", Node: "n", Script: scripted(t, r, script), Output: output})
		return in
	}
	schema := &plan.Output{Schema: json.RawMessage(`{"type":"object","properties":{"key":{"type":"integer"}}}`)}
	local := plan.Connection{Kind: plan.ConnectionLocal}
	outputs := map[string]func() (any, *contract.Failure){
		"an answer": func() (any, *contract.Failure) {
			return perform[contract.ModelResult](t, env, contract.ActivityCallModel, ask(`rules: [{say: "it is `+testSecret+`"}]`, nil))
		},
		"arguments": func() (any, *contract.Failure) {
			return perform[contract.ModelResult](t, env, contract.ActivityCallModel, ask(`rules: [{call: {tool: send, arguments: {to: "`+testSecret+`"}}}]`, nil))
		},
		"data": func() (any, *contract.Failure) {
			return perform[contract.ModelResult](t, env, contract.ActivityCallModel, ask(`{"rules":[{"say":"{\"key\":\"`+testSecret+`\"}"}]}`, schema))
		},
		"a failure": func() (any, *contract.Failure) {
			return perform[contract.ModelResult](t, env, contract.ActivityCallModel, ask(`rules: [{fail: {class: denied, text: "wrong key `+testSecret+`"}}]`, nil))
		},
		"a result": func() (any, *contract.Failure) {
			return perform[contract.ToolResult](t, env, contract.ActivityCallTool, contract.ToolInput{Connection: local, Name: "tells", As: "tells", CallID: "1"})
		},
		"an error for the model": func() (any, *contract.Failure) {
			return perform[contract.ToolResult](t, env, contract.ActivityCallTool, contract.ToolInput{Connection: local, Name: "fails", As: "fails", CallID: "1"})
		},
		"a catalogue": func() (any, *contract.Failure) {
			return perform[contract.CatalogueResult](t, env, contract.ActivityListTools, contract.CatalogueInput{Connection: local, Names: []string{"tells"}})
		},
	}
	for name, do := range outputs {
		t.Run(name, func(t *testing.T) {
			out, failure := do()
			raw, err := json.Marshal([]any{out, failure})
			if err != nil {
				t.Fatal(err)
			}
			if text := string(raw); strings.Contains(text, testSecret) || !strings.Contains(text, mask.Hidden) {
				t.Errorf("the activity returned %s", text)
			}
		})
	}
}

// TestMaskStream checks that no heartbeat shows a part of a secret that arrives byte by byte.
func TestMaskStream(t *testing.T) {
	text := "my key is " + testSecret + ", as you asked"
	isComplete := func(b contract.Heartbeat) bool { return b.Text == "my key is [secret], as you asked" }
	seen := watchedFor(t, 500*time.Millisecond, nil, func(tell, _ func(string), seen func() []contract.Heartbeat) {
		for n := range len(text) {
			tell(text[:n+1])
			time.Sleep(40 * time.Millisecond)
		}
		for end := time.Now().Add(time.Minute); !slices.ContainsFunc(seen(), isComplete) && time.Now().Before(end); {
			time.Sleep(50 * time.Millisecond)
		}
	})
	for _, b := range seen {
		if strings.Contains(b.Text, testSecret[:4]) {
			t.Errorf("heartbeat text = %q", b.Text)
		}
	}
	if !slices.ContainsFunc(seen, isComplete) {
		t.Errorf("no heartbeat has the complete text: %+v", seen)
	}
}
