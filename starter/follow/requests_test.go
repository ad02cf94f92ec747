package follow

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/starter/runs/runstest"
)

// TestFollowerReportsRequests gives the follower one status after another.
func TestFollowerReportsRequests(t *testing.T) {
	zone := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = zone })
	var out bytes.Buffer
	f := New(target("r", "", nil), lines{&out})
	open := runstest.Requests()
	begin := open[0].OpenedAt
	f.begin = begin
	open[1].Execution = "a#1:call_1/b%2Fc#2"
	late := begin.Add(time.Hour)
	f.news(&contract.Status{Requests: open, Answered: []contract.Answered{{ID: "old", Kind: contract.RequestConfirm, At: begin}}})
	f.news(&contract.Status{Requests: open})
	f.news(&contract.Status{Requests: open[3:], Answered: []contract.Answered{
		{ID: "old", Kind: contract.RequestConfirm, At: begin},
		{ID: open[0].ID, Kind: open[0].Kind, At: late},
		{ID: open[1].ID, Kind: open[1].Kind, At: begin.Add(90 * time.Second), Hash: "h", Author: contract.Author{By: "kim"}},
		{ID: open[2].ID, Kind: open[2].Kind, At: begin.Add(91 * time.Second), Hash: "h"},
	}})
	want := `    0.0s                            confirm old: needs no new answer
    0.0s  a#1                       waits for confirm: a wants to call pay (until 2026-01-02 04:04:05); answer with: starter confirm r 'a#1/confirm/1.1-0000aaaa' -yes | starter confirm r 'a#1/confirm/1.1-0000aaaa' -no -reason TEXT
   60.0s  a#1 › b/c#2               waits for tool_result: run look_up; answer with: starter tool-result r 'a#1/client/1.2-1111aaaa' -result JSON | starter tool-result r 'a#1/client/1.2-1111aaaa' -error TEXT
  120.0s  b#2                       waits for retry: no[2J key; answer with: starter retry r 'b#2/model/1~1-2222bbbb' | starter retry r 'b#2/model/1~1-2222bbbb' -give-up -reason TEXT
  180.0s                            waits for message: Which month?; answer with: starter message r -request 'it'\''s/ask-3333bbbb' TEXT
 3600.0s  a#1                       confirm a#1/confirm/1.1-0000aaaa: no answer in time
   90.0s  a#1 › b/c#2               tool_result a#1/client/1.2-1111aaaa: answered by kim
   91.0s  b#2                       retry b#2/model/1~1-2222bbbb: answered
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	out.Reset()
	f.news(&contract.Status{})
	if got := out.String(); !strings.HasSuffix(got, "message it's/ask-3333bbbb: closed: no longer needed\n") || len(f.requests.open) != 0 {
		t.Errorf("a request that nobody waits for is told as %q", got)
	}
}

// TestFollowerReportsReopenedRequests gives the follower a request that is asked anew.
func TestFollowerReportsReopenedRequests(t *testing.T) {
	var out bytes.Buffer
	f := New(target("r", "", nil), lines{&out})
	open := runstest.Requests()[:1]
	f.begin = open[0].OpenedAt
	answered := contract.Answered{ID: open[0].ID, Kind: open[0].Kind, At: f.begin.Add(time.Minute), Hash: "h"}
	f.news(&contract.Status{Requests: open})
	f.news(&contract.Status{Answered: []contract.Answered{answered}})
	open[0].Reopened, open[0].OpenedAt = 1, f.begin.Add(2*time.Minute)
	f.news(&contract.Status{Requests: open})
	answered.Reopened, answered.At = 1, f.begin.Add(3*time.Minute)
	f.news(&contract.Status{Answered: []contract.Answered{answered}})
	if got := out.String(); strings.Count(got, "waits for confirm") != 2 || strings.Count(got, ": answered\n") != 2 {
		t.Errorf("two questions and two answers are told as\n%s", got)
	}
}
