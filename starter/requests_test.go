package main

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/serviceerror"

	"weft/activities/contract"
	"weft/starter/runs"
)

func TestRejectedAnswers(t *testing.T) {
	tests := map[string]struct {
		err  error
		code int
		want string
	}{
		"invalid value": {err: (&contract.Failure{Class: contract.ClassSchema, Text: "it is not what the tool declares", Remedy: "fix it",
			Errors: []contract.FieldError{{Path: "$.to", Message: "is no string"}}}).ApplicationError(), code: exitBadInput,
			want: "starter: confirm was rejected: schema: it is not what the tool declares\n          $.to: is no string\n  remedy: fix it\n"},
		"unknown request": {err: (&contract.Failure{Class: contract.ClassUnknownRequest, Text: "no request has the id"}).ApplicationError(), code: exitBadInput,
			want: "starter: confirm was rejected: unknown_request: no request has the id\n"},
		"already answered": {err: (&contract.Failure{Class: contract.ClassAlreadyAnswered, Text: "it has one", Remedy: "look"}).ApplicationError(), code: exitFailed,
			want: "starter: confirm was rejected: already_answered: it has one\n  remedy: look\n"},
		"too large for Temporal": {err: serviceerror.NewInvalidArgument("blob is too large"), code: exitBadInput, want: "starter: confirm was rejected: blob is too large\n"},
		"no receipt": {err: runs.ErrNoReceipt, code: exitFailed,
			want: "starter: no receipt within 1m0s; start a worker for task queue \"q\" and answer again, or send the answer without waiting with -signal\n"},
		"other error": {err: errors.New("strange"), code: exitFailed, want: "starter: confirm was rejected: unavailable: strange\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			a := &app{stderr: &stderr}
			code := a.exit(a.refused(t.Context(), &runs.Run{ID: "r", Queue: "q"}, contract.RequestConfirm, tc.err))
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if diff := cmp.Diff(tc.want, stderr.String()); diff != "" {
				t.Errorf("stderr (-want +got):\n%s", diff)
			}
		})
	}
}
