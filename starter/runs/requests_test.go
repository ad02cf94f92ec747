package runs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/mock"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/mocks"

	"weft/activities/contract"
	"weft/starter/runs/runstest"
	"weft/starter/usage"
	"weft/worker/config"
)

func TestChoose(t *testing.T) {
	const listing = `; open:
  confirm  a#1/confirm/1.1-0000aaaa  (a wants to call pay)
  tool_result  a#1/client/1.2-1111aaaa  (run look_up)
  retry  b#2/model/1~1-2222bbbb  (no[2J key)
  message  it's/ask-3333bbbb  (Which month?)`
	twice := append(runstest.Requests(), contract.Request{ID: "a#1/confirm/1.1-0000aaaa/more", Kind: contract.RequestConfirm})
	tests := map[string]struct {
		kind, word string
		open       []contract.Request
		want, err  string
	}{
		"only one of its kind": {kind: contract.RequestRetry, open: runstest.Requests(), want: "b#2/model/1~1-2222bbbb"},
		"by suffix":            {kind: contract.RequestConfirm, word: "0000aaaa", open: runstest.Requests(), want: "a#1/confirm/1.1-0000aaaa"},
		"by prefix":            {kind: contract.RequestToolResult, word: "a#1/cl", open: runstest.Requests(), want: "a#1/client/1.2-1111aaaa"},
		"complete id that is a prefix of another": {kind: contract.RequestConfirm, word: "a#1/confirm/1.1-0000aaaa", open: twice, want: "a#1/confirm/1.1-0000aaaa"},
		"already answered":                        {kind: contract.RequestConfirm, word: "was#1/confirm", open: runstest.Requests(), want: "was#1/confirm"},
		"none of its kind":                        {kind: contract.RequestConfirm, open: runstest.Requests()[2:3], err: "the run \"r\" has no open request of kind confirm; open:\n  retry  b#2/model/1~1-2222bbbb  (no[2J key)"},
		"no open requests":                        {kind: contract.RequestConfirm, err: `the run "r" has no open request of kind confirm; it has no open requests`},
		"unknown":                                 {kind: contract.RequestConfirm, word: "zzz", open: runstest.Requests(), err: `the run "r" has no open request "zzz"` + listing},
		"ambiguous":                               {kind: contract.RequestConfirm, word: "aaaa", open: runstest.Requests(), err: `"aaaa" matches 2 open requests of the run "r"; use a longer prefix or suffix` + listing},
		"of another kind": {kind: contract.RequestConfirm, word: "2222bbbb", open: runstest.Requests(),
			err: "the request \"b#2/model/1~1-2222bbbb\" is of kind retry, which confirm cannot answer; use: starter retry r 'b#2/model/1~1-2222bbbb'\n  or: starter retry r 'b#2/model/1~1-2222bbbb' -give-up -reason TEXT"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			q, err := (&Run{Connection: &Connection{Starter: "starter "}, ID: "r"}).Choose(tc.kind, tc.word, &contract.Status{Requests: tc.open, Answered: []contract.Answered{{ID: "was#1/confirm"}}})
			if err != nil {
				if diff := cmp.Diff(tc.err, err.Error()); diff != "" {
					t.Errorf("error (-want +got):\n%s", diff)
				}
				if !Is[usage.Error](err) {
					t.Errorf("not a usage error: %v", err)
				}
				return
			}
			if tc.err != "" || q != tc.want {
				t.Errorf("chose %q, want %q%s", q, tc.want, tc.err)
			}
		})
	}
}

// TestRequests checks the list of requests: a run is queried only if its memo does not have all of its requests.
func TestRequests(t *testing.T) {
	c := &mocks.Client{}
	c.On("QueryWorkflow", mock.Anything, "many", "", contract.QueryStatus).Return(runstest.Answer(t, contract.Status{Requests: runstest.Requests()[:2]}), nil)
	c.On("QueryWorkflow", mock.Anything, "silent", "", contract.QueryStatus).Return(nil, serviceerror.NewUnavailable("nobody is there"))
	list := []Summary{{ID: "silent", Flow: "S", Queue: "q"}, {ID: "many", Flow: "Triage", Requests: &contract.OpenRequests{Requests: runstest.Requests()[:1], More: 1}},
		{ID: "idle", Requests: &contract.OpenRequests{}}, {ID: "listed", Requests: &contract.OpenRequests{Requests: runstest.Requests()[2:3]}}}
	box := (&Connection{Temporal: &config.Temporal{Client: c, Namespace: "default", Address: "127.0.0.1:7233"}, Starter: "starter "}).Requests(t.Context(), list)
	var got []string
	for _, q := range box.Requests {
		got = append(got, q.WorkflowID+" "+q.Flow+" "+q.ID)
	}
	if diff := cmp.Diff([]string{"many Triage a#1/confirm/1.1-0000aaaa", "many Triage a#1/client/1.2-1111aaaa", "listed  b#2/model/1~1-2222bbbb"}, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	want := []SilentRun{{Run: "silent", Flow: "S", Error: `the run "silent" is running, but no worker responds for it on task queue "q", namespace default at 127.0.0.1:7233 (nobody is there); start one with: bin/worker`}}
	if diff := cmp.Diff(want, box.Silent); diff != "" {
		t.Errorf("silent runs (-want +got):\n%s", diff)
	}
}
