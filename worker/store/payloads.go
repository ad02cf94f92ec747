package store

import (
	"context"
	"errors"
	"reflect"

	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// metadataInternal marks what only workers read: from the threshold on, or however short it is.
const (
	metadataInternal = "weft-internal"
	fromThreshold    = "1"
	inAnyCase        = "2"
)

// internal is the table of what only workers read, which is kept outside from the threshold
// on. All else (a run's input and result, failures, answers of queries and updates) a client
// in any language must be able to read: it stays inline for as long as the server takes it.
var internal = typesOf(
	contract.PrepareInput{}, contract.PrepareResult{}, contract.CatalogueInput{}, contract.CatalogueResult{},
	contract.ModelInput{}, contract.ModelResult{}, contract.ToolInput{}, contract.ToolResult{},
	contract.JudgeInput{}, contract.JudgeResult{}, contract.CondenseInput{}, contract.CondenseResult{},
	contract.SummariseInput{}, contract.SummariseResult{}, contract.CheckInput{}, contract.CheckResult{},
	contract.ProgramInput{}, contract.ProgramResult{}, contract.WebhookInput{},
	contract.BranchInput{}, contract.BranchResult{},
)

func typesOf(values ...any) map[reflect.Type]bool {
	out := map[reflect.Type]bool{}
	for _, v := range values {
		out[reflect.TypeOf(v)] = true
	}
	return out
}

// absent says that a pointer is nil.
func absent(value any) bool {
	v := reflect.ValueOf(value)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// isInternal says whether only workers read a value.
func isInternal(value any) bool {
	t := reflect.TypeOf(value)
	if t != nil && t.Kind() == reflect.Pointer {
		if absent(value) {
			return false
		}
		return isInternal(reflect.ValueOf(value).Elem().Interface())
	}
	if in, ok := value.(contract.RunInput); ok {
		// The interpreter starts sub-agents, and runs that continue.
		return in.Carry != nil || in.Depth > 0
	}
	return internal[t]
}

// selector sends to the store what only workers read, what is too large for Temporal, and what a
// history has no room for.
type selector struct {
	driver    *driver
	threshold int
}

// SelectDriver is asked for payloads that are longer than a claim.
func (s selector) SelectDriver(_ converter.StorageDriverSelectContext, p *commonpb.Payload) (converter.StorageDriver, error) {
	from := Inline
	switch string(p.GetMetadata()[metadataInternal]) {
	case fromThreshold:
		from = s.threshold
	case inAnyCase:
		from = 0
	}
	if p.Size() < from {
		return nil, nil
	}
	return s.driver, nil
}

// payloads is the data converter: another one, which also marks what only workers read and
// knows what is lost.
type payloads struct {
	converter.DataConverter
	mark bool
	ctx  workflow.Context
}

var _ converter.ContextAware = (*payloads)(nil)

// ToPayload converts a value.
func (c *payloads) ToPayload(value any) (*commonpb.Payload, error) {
	p, err := c.DataConverter.ToPayload(value)
	if err == nil && p != nil {
		c.note(p, value)
	}
	return p, err
}

// ToPayloads converts values.
func (c *payloads) ToPayloads(values ...any) (*commonpb.Payloads, error) {
	out, err := c.DataConverter.ToPayloads(values...)
	for i, p := range out.GetPayloads() {
		c.note(p, values[i])
	}
	return out, err
}

// note marks a payload by what its value is.
func (c *payloads) note(p *commonpb.Payload, value any) {
	if !c.mark || p.Metadata == nil {
		return
	}
	if kept, ok := value.(interface{ IsOutside() bool }); ok && !absent(value) && kept.IsOutside() {
		p.Metadata[metadataInternal] = []byte(inAnyCase)
	} else if isInternal(value) {
		p.Metadata[metadataInternal] = []byte(fromThreshold)
	}
}

// FromPayload converts a payload; its error is a [contract.Failure] where that is lost.
func (c *payloads) FromPayload(p *commonpb.Payload, value any) error {
	err := gone(p)
	if err == nil {
		err = c.DataConverter.FromPayload(p, value)
	}
	return c.settled(err, value)
}

// FromPayloads converts payloads; its error is a [contract.Failure] where one is lost.
func (c *payloads) FromPayloads(list *commonpb.Payloads, values ...any) error {
	for i, p := range list.GetPayloads() {
		if i == len(values) {
			break
		}
		if f := gone(p); f != nil {
			return c.settled(f, values...)
		}
	}
	return c.settled(c.DataConverter.FromPayloads(list, values...), values...)
}

// settled is the error of reading a payload. A run that takes a payload as it came is given the
// failure in its place: what comes by signal may be anybody's, and Temporal's SDK would drop it
// without a word. Any other that is rebuilt had read it before (a key or a file was taken away
// since) and must not take another way now: the panic fails the workflow task, with this text,
// until it is back.
func (c *payloads) settled(err error, values ...any) error {
	var f *contract.Failure
	if c.ctx == nil || !errors.As(err, &f) {
		return err
	}
	if raw, ok := values[0].(*converter.RawValue); ok && len(values) == 1 {
		p, err := contract.Unreadable(f)
		*raw = converter.NewRawValue(p)
		return err
	}
	if workflow.IsReplaying(c.ctx) {
		panic(f.Error())
	}
	return err
}

// gone is the failure that a payload stands for, or nil.
func gone(p *commonpb.Payload) error {
	if f := contract.Unread(p); f != nil {
		return f
	}
	return nil
}

// WithWorkflowContext is the converter for one run.
func (c *payloads) WithWorkflowContext(ctx workflow.Context) converter.DataConverter {
	return &payloads{DataConverter: c.DataConverter, mark: c.mark, ctx: ctx}
}

// WithContext is the converter itself.
func (c *payloads) WithContext(context.Context) converter.DataConverter { return c }

// failures is the failure converter: Temporal's own, which also gives a [contract.Failure]
// that the SDK has wrapped the class under which it must travel.
type failures struct{ converter.FailureConverter }

// newFailures makes one; encode puts the texts of failures through the data converter, too.
func newFailures(c converter.DataConverter, encode bool) failures {
	return failures{temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{DataConverter: c, EncodeCommonAttributes: encode})}
}

// ErrorToFailure converts an error.
func (c failures) ErrorToFailure(err error) *failurepb.Failure {
	var f *contract.Failure
	var sent *temporal.ApplicationError
	switch {
	case errors.As(err, &f):
		err = f.Wire()
	case errors.As(err, &sent) && sent.Type() == contract.ClassPayloadKey:
		if own := contract.FailureOf(err); own.Node == "" && own.Usage == nil {
			f, err = own, own.Wire() // of an argument, not of a node that has worked already
		}
	}
	if f != nil && f.Class == contract.ClassPayloadKey {
		// Who lacks the key must be able to read that; it holds nothing else.
		return temporal.GetDefaultFailureConverter().ErrorToFailure(err)
	}
	return c.FailureConverter.ErrorToFailure(err)
}
