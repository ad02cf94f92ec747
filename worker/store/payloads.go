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

// isInternal reports whether only workers read a value; such values are offloaded from the threshold on.
// Arguments of calls and child workflows are marked when they are encoded. All other values (a run's input
// and result, failures, results of queries and Updates) must be readable by clients in any language: they
// stay inline as long as the server accepts them.
func isInternal(value any) bool {
	v := reflect.Indirect(reflect.ValueOf(value))
	if !v.IsValid() {
		return false
	}
	switch in := v.Interface().(type) {
	case contract.RunInput:
		// Sub-agents and continued runs are started by the interpreter.
		return in.Snapshot != nil || in.Depth > 0
	case contract.CompileFlowResult, contract.CatalogueResult, contract.ModelResult, contract.ToolResult, contract.JudgeResult,
		contract.CondenseResult, contract.SummariseResult, contract.ValidateAnswerResult, contract.ProgramResult, contract.BranchResult:
		return true
	}
	return false
}

// selector selects the payloads to offload: those that only workers read, those that are too large for
// Temporal, and those that do not fit into the history.
type selector struct {
	driver    *driver
	threshold int
}

// SelectDriver returns the driver for a payload to offload, else nil. The SDK calls it for payloads larger than a claim.
func (s selector) SelectDriver(_ converter.StorageDriverSelectContext, p *commonpb.Payload) (converter.StorageDriver, error) {
	from := Inline
	switch string(p.GetMetadata()[contract.MetadataInternal]) {
	case contract.InternalFromThreshold:
		from = s.threshold
	case contract.InternalAlways:
		from = 0
	}
	if p.Size() < from {
		return nil, nil
	}
	return s.driver, nil
}

// payloads is a data converter that wraps another one, marks payloads that only workers read and
// reports lost ones.
type payloads struct {
	converter.DataConverter
	mark bool
	ctx  workflow.Context
}

var _ converter.ContextAware = (*payloads)(nil)

func (c *payloads) ToPayload(value any) (*commonpb.Payload, error) {
	p, err := c.DataConverter.ToPayload(value)
	if err == nil && p != nil {
		c.markInternal(p, value)
	}
	return p, err
}

func (c *payloads) ToPayloads(values ...any) (*commonpb.Payloads, error) {
	out, err := c.DataConverter.ToPayloads(values...)
	for i, p := range out.GetPayloads() {
		c.markInternal(p, values[i])
	}
	return out, err
}

// markInternal marks a payload by the type of its value.
func (c *payloads) markInternal(p *commonpb.Payload, value any) {
	if p.Metadata == nil {
		return
	}
	if !c.mark {
		delete(p.Metadata, contract.MetadataInternal) // only the store reads it
		return
	}
	if o, ok := value.(interface{ IsOffloaded() bool }); ok && reflect.Indirect(reflect.ValueOf(value)).IsValid() && o.IsOffloaded() {
		p.Metadata[contract.MetadataInternal] = []byte(contract.InternalAlways)
	} else if isInternal(value) {
		p.Metadata[contract.MetadataInternal] = []byte(contract.InternalFromThreshold)
	}
}

// FromPayload converts a payload. Its error is a [contract.Failure] if the payload is lost.
func (c *payloads) FromPayload(p *commonpb.Payload, value any) error {
	err := lostError(p)
	if err == nil {
		err = c.DataConverter.FromPayload(p, value)
	}
	return c.handleLost(err, value)
}

// FromPayloads converts payloads. Its error is a [contract.Failure] if one is lost.
func (c *payloads) FromPayloads(list *commonpb.Payloads, values ...any) error {
	for i, p := range list.GetPayloads() {
		if i == len(values) {
			break
		}
		if err := lostError(p); err != nil {
			return c.handleLost(err, values...)
		}
	}
	return c.handleLost(c.DataConverter.FromPayloads(list, values...), values...)
}

// handleLost returns the error of reading a payload. Workflow code that reads a raw payload receives the
// failure as its value: any client may send a signal, and the SDK would silently drop an unreadable one.
// A run that is being replayed has read the payload before (a key or a file was removed since) and must
// not diverge now: the panic fails the workflow task, with this text, until the payload is restored.
func (c *payloads) handleLost(err error, values ...any) error {
	f, ok := errors.AsType[*contract.Failure](err)
	if c.ctx == nil || !ok {
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

// lostError returns the failure that a payload represents, or nil.
func lostError(p *commonpb.Payload) error {
	if f := contract.Unread(p); f != nil {
		return f
	}
	return nil
}

// WithWorkflowContext returns the converter for one run.
func (c *payloads) WithWorkflowContext(ctx workflow.Context) converter.DataConverter {
	return &payloads{DataConverter: c.DataConverter, mark: c.mark, ctx: ctx}
}

func (c *payloads) WithContext(context.Context) converter.DataConverter { return c }

// failures is Temporal's failure converter; it also preserves the class of a [contract.Failure] that
// the SDK has wrapped.
type failures struct{ converter.FailureConverter }

// newFailures returns a failure converter; encode makes it encode the texts of failures with the data converter.
func newFailures(c converter.DataConverter, encode bool) failures {
	return failures{temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{DataConverter: c, EncodeCommonAttributes: encode})}
}

func (c failures) ErrorToFailure(err error) *failurepb.Failure {
	var f *contract.Failure
	var sent *temporal.ApplicationError
	switch {
	case errors.As(err, &f):
		err = f.ApplicationError()
	case errors.As(err, &sent) && sent.Type() == contract.ClassPayloadKey:
		if own := contract.FailureOf(err); own.Node == "" && own.Usage == nil {
			f, err = own, own.ApplicationError() // it concerns an argument, not a node that has made calls
		}
	}
	if f != nil && f.Class == contract.ClassPayloadKey {
		// Clients without the key must be able to read this failure; it contains no other data.
		return temporal.GetDefaultFailureConverter().ErrorToFailure(err)
	}
	return c.FailureConverter.ErrorToFailure(err)
}
