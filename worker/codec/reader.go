package codec

import (
	"context"
	"sync"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/proxy"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"
)

// Fetch returns the payload that a claim of the store refers to, or the payload itself.
type Fetch = func(context.Context, *commonpb.Payload) (*commonpb.Payload, error)

// resolve fetches and decodes a payload. On an error, it also returns the payload as of the last step that succeeded.
func (c *Codec) resolve(ctx context.Context, fetch Fetch, p *commonpb.Payload) (*commonpb.Payload, error) {
	fetched, err := fetch(ctx, p)
	if err != nil {
		return p, err
	}
	out, err := c.Decode([]*commonpb.Payload{fetched})
	if err != nil {
		return fetched, err
	}
	return out[0], nil
}

// Reader wraps a client so that histories, lists and descriptions of runs contain decoded payloads and
// failure texts. Payloads that cannot be fetched or decoded are left unchanged; onError is called with the
// first such error. The client cannot be used for a worker.
func (c *Codec) Reader(inner client.Client, fetch Fetch, onError func(error)) client.Client {
	return &reader{Client: inner, codec: c, fetch: fetch, onError: onError}
}

type reader struct {
	client.Client
	codec   *Codec
	fetch   Fetch
	onError func(error)
	once    sync.Once
}

func (r *reader) GetWorkflowHistory(ctx context.Context, id, run string, wait bool, filter enumspb.HistoryEventFilterType) client.HistoryEventIterator {
	return &events{HistoryEventIterator: r.Client.GetWorkflowHistory(ctx, id, run, wait, filter), ctx: ctx, reader: r}
}

func (r *reader) DescribeWorkflowExecution(ctx context.Context, id, run string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	out, err := r.Client.DescribeWorkflowExecution(ctx, id, run)
	if err != nil {
		return nil, err
	}
	return out, r.decode(ctx, out)
}

func (r *reader) ListWorkflow(ctx context.Context, request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	out, err := r.Client.ListWorkflow(ctx, request)
	if err != nil {
		return nil, err
	}
	return out, r.decode(ctx, out)
}

type events struct {
	client.HistoryEventIterator
	ctx    context.Context
	reader *reader
}

func (e *events) Next() (*historypb.HistoryEvent, error) {
	event, err := e.HistoryEventIterator.Next()
	if err != nil {
		return nil, err
	}
	return event, e.reader.decode(e.ctx, &historypb.History{Events: []*historypb.HistoryEvent{event}})
}

// decode fetches and decodes all payloads of a message in place.
func (r *reader) decode(ctx context.Context, m proto.Message) error {
	err := proxy.VisitPayloads(ctx, m, proxy.VisitPayloadsOptions{
		SkipSearchAttributes: true,
		Visitor: func(_ *proxy.VisitPayloadsContext, list []*commonpb.Payload) ([]*commonpb.Payload, error) {
			out := make([]*commonpb.Payload, len(list))
			for i, p := range list {
				var err error
				if out[i], err = r.codec.resolve(ctx, r.fetch, p); err != nil {
					r.once.Do(func() { r.onError(err) })
				}
			}
			return out, nil
		},
	})
	if err != nil {
		return err
	}
	return proxy.VisitFailures(ctx, m, proxy.VisitFailuresOptions{Visitor: func(_ *proxy.VisitFailuresContext, f *failurepb.Failure) error {
		if f.GetEncodedAttributes() != nil {
			converter.DecodeCommonFailureAttributes(converter.GetDefaultDataConverter(), f)
		}
		return nil
	}})
}
