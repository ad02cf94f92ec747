package history

import (
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
	"weft/starter/plaintext"
)

// FailureText returns the class and message of a failure in one line.
func FailureText(p *failurepb.Failure) string {
	if p == nil {
		return "an unknown failure"
	}
	text := plaintext.Line(p.GetMessage(), 300)
	if class := p.GetApplicationFailureInfo().GetType(); class != "" {
		return plaintext.Line(class, 60) + ": " + text
	}
	return text
}

// FailureOf returns a run's or a call's failure with its details, nil for nil.
func FailureOf(p *failurepb.Failure) *contract.Failure {
	if p == nil {
		return nil
	}
	var f contract.Failure
	if d := p.GetApplicationFailureInfo().GetDetails(); d != nil && Decode(d, &f) && f.Class != "" {
		return &f
	}
	return &contract.Failure{Class: p.GetApplicationFailureInfo().GetType(), Text: plaintext.Line(p.GetMessage(), 2000)}
}

// Error returns a failure as the SDK's error.
func Error(p *failurepb.Failure) error {
	return temporal.GetDefaultFailureConverter().FailureToError(p)
}
