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

// TestExitCodes checks the exit code of each kind of error, wrapped or not, and that errors are
// printed unless that has already happened.
func TestExitCodes(t *testing.T) {
	tests := map[string]struct {
		err  error
		code int
		mute bool
	}{
		"completed":               {nil, exitOK, true},
		"permission denied":       {serviceerror.NewPermissionDenied("no", ""), exitFailed, false},
		"no result":               {errors.New("the run has no result yet"), exitFailed, false},
		"invalid flag":            {usage.Errorf("-output is wrong"), exitBadInput, false},
		"invalid settings":        {config.Problems{"weft.yaml:1:1: unknown setting"}, exitBadInput, false},
		"not found":               {serviceerror.NewNotFound("no such run"), exitBadInput, false},
		"diagnostic":              {exitCode(exitBadInput), exitBadInput, true},
		"Temporal unreachable":    {&config.Unreachable{}, exitNoTemporal, false},
		"lost connection":         {&follow.LostContactError{ID: "r", Address: "here:7233", Cause: io.EOF}, exitNoTemporal, false},
		"cancelled run":           {exitCode(exitCancelled), exitCancelled, true},
		"Ctrl-C":                  {exitCode(exitDetached), exitDetached, true},
		"no answer from a worker": {&runs.NoAnswerError{ID: "r", Status: "running", Cause: io.EOF}, exitFailed, false},
	}
	for name, tc := range tests {
		for _, err := range []error{tc.err, fmt.Errorf("wrapped: %w", tc.err)} {
			if tc.err == nil {
				err = nil
			}
			var stderr strings.Builder
			if got := (&app{stderr: &stderr}).exit(err); got != tc.code {
				t.Errorf("%s: exit code %d, want %d", name, got, tc.code)
			}
			if (stderr.Len() == 0) != tc.mute {
				t.Errorf("%s: stderr = %q, want empty %v", name, &stderr, tc.mute)
			}
		}
	}
	for name, err := range map[string]error{"cancelled": temporal.NewCanceledError(), "terminated": &temporal.TerminatedError{}} {
		if got := runs.EndStatus(err); got != name {
			t.Errorf("EndStatus(%v) = %s, want %s", err, got, name)
		}
	}
	if got := runs.EndStatus((&contract.Failure{Class: contract.ClassSchema, Text: "x"}).ApplicationError()); got != runs.Failed {
		t.Errorf("EndStatus of a failure = %s, want %s", got, runs.Failed)
	}
}
