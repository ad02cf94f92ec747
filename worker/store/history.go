package store

import (
	"context"

	commonpb "go.temporal.io/api/common/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"
)

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
