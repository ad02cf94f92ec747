package session

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"weft/workflows/plan/pytext"
)

// Verdict is a hook's decision about a run that is about to start.
type Verdict struct {
	// Block stops the run; Reason is "" if the hook gives none.
	Block  bool
	Reason string
	// Params, if set, replace the run's parameters.
	Params json.RawMessage
}

// Blocked returns the problem of a run that a hook stops.
func (v *Verdict) Blocked() string {
	return "Blocked by on_run_start hook: " + cmp.Or(v.Reason, "No reason provided")
}

// ReadVerdict reads the result of a hook before a run: its data if there is any, otherwise its text as JSON. Text that is
// not JSON, and unknown actions, let the run continue.
//
// It fails if the result is JSON but not an object; the hook's on_error then applies.
func ReadVerdict(data json.RawMessage, text *string) (Verdict, error) {
	result, err := pytext.Parse(data)
	if err != nil || !result.Truthy() {
		if text == nil {
			return Verdict{}, nil
		}
		if result, err = pytext.Parse([]byte(*text)); err != nil || result.Kind == pytext.Null {
			return Verdict{}, nil //nolint:nilerr // text that is not JSON is not a verdict
		}
	}
	if result.Kind != pytext.Object {
		return Verdict{}, fmt.Errorf("the hook's result is %s, expected an object", result.ReprUpTo(80))
	}
	if action := result.Get("action"); action != nil && action.Kind == pytext.String && action.Text == "block" {
		v := Verdict{Block: true}
		if reason := result.Get("block_reason"); reason.Truthy() {
			v.Reason = reason.Str()
		}
		return v, nil
	}
	params := result.Get("parameters")
	if params == nil || params.Kind == pytext.Null {
		return Verdict{}, nil
	}
	if params.Kind != pytext.Object {
		return Verdict{}, errors.New("the hook's parameters are not an object")
	}
	return Verdict{Params: json.RawMessage(params.JSON())}, nil
}
