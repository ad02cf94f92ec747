package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/converter"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"weft/activities/contract"
)

// driverName is part of every claim, and thus of histories: it must never change.
const driverName = "weft"

// Keys of a claim's data.
const (
	claimKey   = "sha256"
	claimSize  = "size"
	claimStore = "store"
)

// driver adapts a backend to Temporal's interface. Without a backend its errors name the missing setting.
type driver struct {
	backend backend
	most    int
}

var _ converter.StorageDriver = (*driver)(nil)

func (d *driver) Name() string { return driverName }

// Type returns the driver type, which is the same for all backends.
func (d *driver) Type() string { return "weft" }

// Store stores payloads. Its errors are a [contract.Failure] of class too_large for a payload
// that exceeds the limit, else of class unavailable, which is retried.
func (d *driver) Store(ctx converter.StorageDriverStoreContext, list []*commonpb.Payload) ([]converter.StorageDriverClaim, error) {
	return inParallel(ctx.Context, ctx.GetLimiter(), list, d.put)
}

// inParallel calls do for each element of a list, with the concurrency that the limiter permits.
func inParallel[In, Out any](ctx context.Context, limiter converter.StorageDriverLimiter[In], list []In, do func(context.Context, In) (Out, error)) ([]Out, error) {
	out := make([]Out, len(list))
	var all errgroup.Group
	for i, v := range list {
		all.Go(func() error {
			return limiter.Permit(ctx, v, func() (err error) {
				out[i], err = do(ctx, v)
				return err
			})
		})
	}
	return out, all.Wait()
}

func (d *driver) put(ctx context.Context, p *commonpb.Payload) (converter.StorageDriverClaim, error) {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	if err != nil {
		return converter.StorageDriverClaim{}, fmt.Errorf("encode a payload: %w", err)
	}
	if d.backend == nil {
		return converter.StorageDriverClaim{}, &contract.Failure{Class: contract.ClassUnavailable,
			Text: fmt.Sprintf("a payload of %d bytes is too large for Temporal, and this process has no store", len(data)), Remedy: noStore}
	}
	if len(data) > d.most {
		return converter.StorageDriverClaim{}, &contract.Failure{Class: contract.ClassTooLarge,
			Text:   fmt.Sprintf("a payload has %d bytes; the store accepts at most %d", len(data), d.most),
			Remedy: "send less, or raise store.max_payload"}
	}
	sum := sha256.Sum256(data)
	key := hex.EncodeToString(sum[:])
	if err := d.backend.put(ctx, key, data); err != nil {
		return converter.StorageDriverClaim{}, &contract.Failure{Class: contract.ClassUnavailable,
			Text:   fmt.Sprintf("store payload %s of %d bytes in %s: %v", key, len(data), d.backend, err),
			Remedy: "make it writable and free space there (worker store sweep removes old payloads); retried until then"}
	}
	return converter.StorageDriverClaim{ClaimData: map[string]string{
		claimKey: key, claimSize: strconv.Itoa(len(data)), claimStore: d.backend.id(),
	}}, nil
}

// noStore is the remedy of failures that are due to a missing store.
const noStore = "set store.dir (WEFT_STORE_DIR) or store.bucket (WEFT_STORE_BUCKET) to the folder or bucket that the other workers and starters use"

// Retrieve fetches payloads. A temporary problem (a directory that cannot be read, a claim of another
// store) is an error, a [contract.Failure] of class unavailable: Temporal retries, possibly on another
// worker. A payload that is permanently lost is replaced with one that cannot be decoded, so that only its
// reader fails, not every attempt of the workflow task.
func (d *driver) Retrieve(ctx converter.StorageDriverRetrieveContext, claims []converter.StorageDriverClaim) ([]*commonpb.Payload, error) {
	return inParallel(ctx.Context, ctx.GetLimiter(), claims, func(ctx context.Context, c converter.StorageDriverClaim) (*commonpb.Payload, error) {
		return d.fetch(ctx, c.ClaimData)
	})
}

// hexKey matches the keys of payloads; a forged claim must not refer to any other file or object.
var hexKey = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (d *driver) fetch(ctx context.Context, claim map[string]string) (*commonpb.Payload, error) {
	key := claim[claimKey]
	unavailable := func(format string, args ...any) error {
		return &contract.Failure{Class: contract.ClassUnavailable, Remedy: noStore,
			Text: fmt.Sprintf("payload %s of %s bytes %s", quote(key), quote(claim[claimSize]), fmt.Sprintf(format, args...))}
	}
	switch {
	case d.backend == nil:
		return nil, unavailable("is in the store %s, and this process has no store", quote(claim[claimStore]))
	case claim[claimStore] != d.backend.id():
		return nil, unavailable("is in the store %s, but %s is the store %s", quote(claim[claimStore]), d.backend, d.backend.id())
	case !hexKey.MatchString(key):
		return lost("a claim refers to the payload %s, which is not a SHA-256", quote(key))
	}
	data, err := d.read(ctx, key)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return lost("payload %s of %s bytes is no longer in %s", key, quote(claim[claimSize]), d.backend)
	case errors.Is(err, errDamaged):
		return lost("payload %s of %s bytes is corrupt in %s: its %d bytes have a different SHA-256", key, quote(claim[claimSize]), d.backend, len(data))
	case err != nil:
		return nil, &contract.Failure{Class: contract.ClassUnavailable,
			Text:   fmt.Sprintf("read payload %s from %s: %v", key, d.backend, err),
			Remedy: "make it readable for the worker; retried until then"}
	}
	p := &commonpb.Payload{}
	if err := proto.Unmarshal(data, p); err != nil {
		return lost("payload %s in %s cannot be decoded: %v", key, d.backend, err)
	}
	return p, nil
}

// errDamaged reports bytes whose hash differs from their key.
var errDamaged = errors.New("damaged")

// rereadDelay is the delay before a second read: on a network file system, a file may become visible with a delay.
const rereadDelay = time.Second

// read returns the bytes of a key after checking their hash. If they are missing or corrupt, it reads them a second time.
func (d *driver) read(ctx context.Context, key string) ([]byte, error) {
	for try := 1; ; try++ {
		data, err := d.backend.get(ctx, key)
		if sum := sha256.Sum256(data); err == nil && hex.EncodeToString(sum[:]) != key {
			err = errDamaged
		}
		if try > 1 || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errDamaged) {
			return data, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(rereadDelay):
		}
	}
}

// lost returns a payload that represents a lost one; reading it through [payloads] returns the failure.
func lost(format string, args ...any) (*commonpb.Payload, error) {
	return contract.Unreadable(&contract.Failure{Class: contract.ClassPayloadLost, Text: fmt.Sprintf(format, args...),
		Remedy: "restore the file from a backup before its run continues, or start the run again; keep payloads longer than the namespace retains runs"})
}

// quote returns a claim's text, quoted and truncated, for a message: a claim may be forged.
func quote(s string) string {
	if len(s) > 80 {
		s = s[:80]
	}
	return strconv.QuoteToASCII(s)
}

// Fetch returns the payload that a claim names, or the payload itself. Its error is a
// [contract.Failure].
func (s *Store) Fetch(ctx context.Context, p *commonpb.Payload) (*commonpb.Payload, error) {
	var ref sdkpb.ExternalStorageReference
	if string(p.GetMetadata()[converter.MetadataEncoding]) != converter.MetadataEncodingProtoJSON ||
		string(p.GetMetadata()[converter.MetadataMessageType]) != string(ref.ProtoReflect().Descriptor().FullName()) {
		return p, nil
	}
	if protojson.Unmarshal(p.GetData(), &ref) != nil || ref.GetDriverName() != driverName {
		return p, nil
	}
	own, err := s.driver.fetch(ctx, ref.GetClaimData())
	if err == nil {
		err = lostError(own)
	}
	return own, err
}
