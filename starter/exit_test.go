package main

import (
	"weft/starter/runs"
	"weft/starter/usage"

	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
	"weft/starter/follow"
	"weft/worker/config"
)

// TestExitCodes gives each kind of error its code, wrapped or not; all but those whose reason
// has been printed are said.
func TestExitCodes(t *testing.T) {
	tests := map[string]struct {
		err  error
		code int
		mute bool
	}{
		"completed":             {nil, exitOK, true},
		"the server's refusal":  {serviceerror.NewPermissionDenied("no", ""), exitFailed, false},
		"no result yet":         {errors.New("the run has no result yet"), exitFailed, false},
		"a wrong flag":          {usage.Errorf("-output is wrong"), exitBadInput, false},
		"wrong settings":        {config.Problems{"weft.yaml:1:1: unknown setting"}, exitBadInput, false},
		"an id that there is":   {serviceerror.NewNotFound("no such run"), exitBadInput, false},
		"a diagnostic":          {exitCode(exitBadInput), exitBadInput, true},
		"no Temporal":           {&config.Unreachable{}, exitNoTemporal, false},
		"no Temporal any more":  {&follow.LostContactError{ID: "r", Address: "here:7233", Cause: io.EOF}, exitNoTemporal, false},
		"a run that was ended":  {exitCode(exitCancelled), exitCancelled, true},
		"Ctrl-C":                {exitCode(exitDetached), exitDetached, true},
		"a worker that is away": {&runs.NoAnswerError{ID: "r", Status: "running", Cause: io.EOF}, exitFailed, false},
	}
	for name, tc := range tests {
		for _, err := range []error{tc.err, fmt.Errorf("while it was read: %w", tc.err)} {
			if tc.err == nil {
				err = nil
			}
			var stderr strings.Builder
			if got := (&app{stderr: &stderr}).exit(err); got != tc.code {
				t.Errorf("%s: exit code %d, want %d", name, got, tc.code)
			}
			if (stderr.Len() == 0) != tc.mute {
				t.Errorf("%s: stderr is %q", name, &stderr)
			}
		}
	}
	for name, err := range map[string]error{"cancelled": temporal.NewCanceledError(), "terminated": &temporal.TerminatedError{}} {
		if got := runs.EndStatus(err); got != name {
			t.Errorf("%v is %s, want %s", err, got, name)
		}
	}
	if got := runs.EndStatus((&contract.Failure{Class: contract.ClassSchema, Text: "x"}).ApplicationError()); got != runs.Failed {
		t.Errorf("a failure is %s", got)
	}
}
