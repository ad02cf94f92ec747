package store

import (
	"context"
	"sync"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/proxy"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"
)

// Reader wraps a client so that histories contain the payloads instead of claims. A payload that cannot
// be fetched stays a claim; onError is called with the first such error. The client cannot be used for a
// worker.
func (s *Store) Reader(c client.Client, onError func(error)) client.Client {
	return &reader{Client: c, driver: s.driver, onError: onError}
}

type reader struct {
	client.Client
	driver  *driver
	onError func(error)
	once    sync.Once
}

// GetWorkflowHistory reads a history and fetches the offloaded payloads of its events.
func (r *reader) GetWorkflowHistory(ctx context.Context, id, run string, wait bool, filter enumspb.HistoryEventFilterType) client.HistoryEventIterator {
	return &events{HistoryEventIterator: r.Client.GetWorkflowHistory(ctx, id, run, wait, filter), ctx: ctx, reader: r}
}

type events struct {
	client.HistoryEventIterator
	ctx    context.Context
	reader *reader
}

// Next returns the next event.
func (e *events) Next() (*historypb.HistoryEvent, error) {
	event, err := e.HistoryEventIterator.Next()
	if err != nil {
		return nil, err
	}
	return event, proxy.VisitPayloads(e.ctx, &historypb.History{Events: []*historypb.HistoryEvent{event}}, proxy.VisitPayloadsOptions{
		SkipSearchAttributes: true,
		Visitor: func(_ *proxy.VisitPayloadsContext, list []*commonpb.Payload) ([]*commonpb.Payload, error) {
			out := make([]*commonpb.Payload, len(list))
			for i, p := range list {
				out[i] = e.resolve(p)
			}
			return out, nil
		},
	})
}

// resolve returns the payload that a claim names, or the payload itself.
func (e *events) resolve(p *commonpb.Payload) *commonpb.Payload {
	own, err := e.reader.driver.resolve(e.ctx, p)
	if err != nil {
		e.reader.once.Do(func() { e.reader.onError(err) })
		return p
	}
	return own
}

// Fetch returns the payload that a claim names, or the payload itself. Its error is a
// [contract.Failure].
func (s *Store) Fetch(ctx context.Context, p *commonpb.Payload) (*commonpb.Payload, error) {
	return s.driver.resolve(ctx, p)
}

func (d *driver) resolve(ctx context.Context, p *commonpb.Payload) (*commonpb.Payload, error) {
	var ref sdkpb.ExternalStorageReference
	if string(p.GetMetadata()[converter.MetadataEncoding]) != converter.MetadataEncodingProtoJSON ||
		string(p.GetMetadata()[converter.MetadataMessageType]) != string(ref.ProtoReflect().Descriptor().FullName()) {
		return p, nil
	}
	if protojson.Unmarshal(p.GetData(), &ref) != nil || ref.GetDriverName() != driverName {
		return p, nil
	}
	own, err := d.fetch(ctx, ref.GetClaimData())
	if err == nil {
		err = lostError(own)
	}
	return own, err
}
