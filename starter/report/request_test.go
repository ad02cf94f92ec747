package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weft/starter/runs"
	"weft/starter/runs/runstest"
	"weft/worker/config"
)

func TestRequestsAsText(t *testing.T) {
	zone := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = zone })
	now := time.Date(2026, 1, 2, 3, 9, 5, 0, time.UTC)
	run := &runs.Run{Connection: &runs.Connection{Starter: "starter -dev "}, ID: "run-1"}
	var got strings.Builder
	for _, q := range runstest.Requests() {
		x := run.Request("", &q, now)
		Request(&got, &x)
	}
	want := `confirm  a#1/confirm/1.1-0000aaaa
  waits     5m0s, since 2026-01-02 03:04:05, until 2026-01-02 04:04:05; no answer means no
  node      a, step 1, x.json:7
  asked     a wants to call pay
  tool      pay, of connection crm
  arguments {"to": "A&B"}
  answer    starter -dev confirm run-1 'a#1/confirm/1.1-0000aaaa' -yes
  or        starter -dev confirm run-1 'a#1/confirm/1.1-0000aaaa' -no -reason TEXT
tool_result  a#1/client/1.2-1111aaaa
  waits     4m0s, since 2026-01-02 03:05:05
  node      a, step 1
  asked     run look_up
  tool      look_up
  arguments long; they are in: starter transcript run-1
  answer    starter -dev tool-result run-1 'a#1/client/1.2-1111aaaa' -result JSON
  or        starter -dev tool-result run-1 'a#1/client/1.2-1111aaaa' -error TEXT
retry  b#2/model/1~1-2222bbbb
  waits     3m0s, since 2026-01-02 03:06:05
  node      b, step 2
  asked     no[2J key
  answer    starter -dev retry run-1 'b#2/model/1~1-2222bbbb'
  or        starter -dev retry run-1 'b#2/model/1~1-2222bbbb' -give-up -reason TEXT
message  it's/ask-3333bbbb
  waits     2m0s, since 2026-01-02 03:07:05
  asked     Which month?
  answer    starter -dev message run-1 -request 'it'\''s/ask-3333bbbb' TEXT
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

func TestRunsAsTable(t *testing.T) {
	all, _, err := (&runs.Connection{Temporal: &config.Temporal{Client: runstest.Stored(t)}}).List(t.Context(), runs.Filter{Closed: true})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	Runs(&out, all)
	lines := strings.Split(out.String(), "\n")
	for i, want := range []string{"ID FLOW STATUS STARTED TOOK", "a Tri[2Jage completed * 1m30s", "b - failed * 1m30s", "c - terminated * 1m30s"} {
		begin, end, _ := strings.Cut(want, "*")
		if got := strings.Join(strings.Fields(lines[i]), " "); !strings.HasPrefix(got, begin) || !strings.HasSuffix(got, end) {
			t.Errorf("line %d is %q, want %q", i, got, want)
		}
	}
}

func TestRequestsAsTable(t *testing.T) {
	run := &runs.Run{Connection: &runs.Connection{Starter: "starter "}, ID: "good"}
	var out bytes.Buffer
	Requests(&out, []runs.Request{run.Request("Triage", &runstest.Requests()[0], time.Now())})
	lines := strings.Split(out.String(), "\n")
	if got := strings.Join(strings.Fields(lines[1]), " "); !strings.HasPrefix(got, "Triage confirm ") ||
		!strings.HasSuffix(got, " a x.json:7 a wants to call pay starter confirm good 'a#1/confirm/1.1-0000aaaa' -yes") {
		t.Errorf("first row = %q", got)
	}
}
