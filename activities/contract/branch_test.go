package contract

import (
	"strings"
	"testing"
)

// TestFitting checks that the least important parts of a status that is too large are dropped first, and nothing of one that fits.
func TestFitting(t *testing.T) {
	large := strings.Repeat("x", 100_000)
	full := func() Status {
		s := Status{Dropped: 5, Executions: make([]Execution, 8), Conflicts: make([]Conflict, 4), Requests: make([]Request, 4), Inbox: make([]Inbound, 2)}
		for i := range s.Executions {
			s.Executions[i].Step = i
		}
		return s
	}
	tests := map[string]struct {
		grow                                                   func(s *Status)
		conflicts, executions, dropped, unread, requests, more int
	}{
		"all fits": {func(*Status) {}, 4, 8, 5, 2, 4, 0},
		"conflicts": {func(s *Status) {
			s.Conflicts[0].Key = strings.Repeat(large, 20)
		}, 2, 8, 5, 2, 4, 0},
		"executions": {func(s *Status) {
			for i := range s.Executions {
				s.Executions[i].Branch = strings.Repeat(large, 5)
			}
		}, 0, 2, 11, 2, 4, 0},
		"messages": {func(s *Status) { s.Inbox[0].Text = strings.Repeat(large, 20) }, 0, 0, 13, 0, 4, 0},
		"requests": {func(s *Status) { s.Requests[2].Text = strings.Repeat(large, 20) }, 0, 0, 13, 0, 2, 2},
		"one":      {func(s *Status) { s.Requests[0].Text = strings.Repeat(large, 20) }, 0, 0, 13, 0, 1, 3},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := full()
			tc.grow(&s)
			s = s.Fitting()
			if len(s.Conflicts) != tc.conflicts || len(s.Executions) != tc.executions || s.Dropped != tc.dropped || len(s.Inbox) != tc.unread || len(s.Requests) != tc.requests || s.MoreRequests != tc.more {
				t.Errorf("%d conflicts, %d executions, %d dropped, %d messages, %d requests and %d more", len(s.Conflicts), len(s.Executions), s.Dropped, len(s.Inbox), len(s.Requests), s.MoreRequests)
			}
			if n := len(s.Executions); n > 0 && s.Executions[n-1].Step != 7 {
				t.Errorf("the last execution is of step %d", s.Executions[n-1].Step)
			}
		})
	}
}
