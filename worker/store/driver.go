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
	"sync"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"weft/activities/contract"
)

// driverName stands in every claim, and so in histories: it never changes.
const driverName = "weft"

// What a claim says.
const (
	claimKey   = "sha256"
	claimSize  = "size"
	claimPlace = "store"
)

// driver is Temporal's view of a place. Without a place it says what is missing.
type driver struct {
	place place
	most  int
}

var _ converter.StorageDriver = (*driver)(nil)

// Name is the name in claims.
func (d *driver) Name() string { return driverName }

// Type is the kind of driver, the same whatever the place is.
func (d *driver) Type() string { return "weft" }

// Store keeps payloads. Its errors are a [contract.Failure]: too_large for a payload beyond
// the bound, else unavailable, which is tried again.
func (d *driver) Store(ctx converter.StorageDriverStoreContext, list []*commonpb.Payload) ([]converter.StorageDriverClaim, error) {
	claims := make([]converter.StorageDriverClaim, len(list))
	limiter := ctx.GetLimiter()
	err := each(len(list), func(i int) error {
		return limiter.Permit(ctx.Context, list[i], func() (err error) {
			claims[i], err = d.keep(ctx.Context, list[i])
			return err
		})
	})
	return claims, err
}

func (d *driver) keep(ctx context.Context, p *commonpb.Payload) (converter.StorageDriverClaim, error) {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	if err != nil {
		return converter.StorageDriverClaim{}, fmt.Errorf("encode a payload: %w", err)
	}
	if d.place == nil {
		return converter.StorageDriverClaim{}, &contract.Failure{Class: contract.ClassUnavailable,
			Text: fmt.Sprintf("a payload of %d bytes does not fit into Temporal, and there is no store for it here", len(data)), Remedy: noStore}
	}
	if len(data) > d.most {
		return converter.StorageDriverClaim{}, &contract.Failure{Class: contract.ClassTooLarge,
			Text:   fmt.Sprintf("a payload is %d bytes, at most %d go into the store", len(data), d.most),
			Remedy: "send less, or raise store.max_payload"}
	}
	sum := sha256.Sum256(data)
	key := hex.EncodeToString(sum[:])
	if err := d.place.put(ctx, key, data); err != nil {
		return converter.StorageDriverClaim{}, &contract.Failure{Class: contract.ClassUnavailable,
			Text:   fmt.Sprintf("store payload %s of %d bytes in %s: %v", key, len(data), d.place, err),
			Remedy: "make room there (worker store sweep removes what is old) and make it writable; until then it is tried again"}
	}
	return converter.StorageDriverClaim{ClaimData: map[string]string{
		claimKey: key, claimSize: strconv.Itoa(len(data)), claimPlace: d.place.id(),
	}}, nil
}

// noStore is the remedy where there is no store.
const noStore = "set store.dir (WEFT_STORE_DIR) or store.bucket (WEFT_STORE_BUCKET) to the folder or bucket that the other workers and starters use"

// Retrieve fetches payloads. What may come back (a folder that cannot be read, another
// store's claim) is an error, a [contract.Failure] of class unavailable: Temporal tries
// again, with another worker perhaps. What is gone for ever comes as a payload that cannot
// be decoded, so that its reader fails and not, again and again, the workflow task.
func (d *driver) Retrieve(ctx converter.StorageDriverRetrieveContext, claims []converter.StorageDriverClaim) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(claims))
	limiter := ctx.GetLimiter()
	err := each(len(claims), func(i int) error {
		return limiter.Permit(ctx.Context, claims[i], func() (err error) {
			out[i], err = d.fetch(ctx.Context, claims[i].ClaimData)
			return err
		})
	})
	return out, err
}

// hexKey keeps a claim that somebody made by hand from naming anything but a payload.
var hexKey = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (d *driver) fetch(ctx context.Context, claim map[string]string) (*commonpb.Payload, error) {
	key := claim[claimKey]
	away := func(format string, args ...any) error {
		return &contract.Failure{Class: contract.ClassUnavailable, Remedy: noStore,
			Text: fmt.Sprintf("payload %s of %s bytes %s", shown(key), shown(claim[claimSize]), fmt.Sprintf(format, args...))}
	}
	switch {
	case d.place == nil:
		return nil, away("is in the store %s, and there is no store here", shown(claim[claimPlace]))
	case claim[claimPlace] != d.place.id():
		return nil, away("is in the store %s, and %s is the store %s", shown(claim[claimPlace]), d.place, d.place.id())
	case !hexKey.MatchString(key):
		return lost("a claim names the payload %s, which is no SHA-256", shown(key))
	}
	data, err := d.read(ctx, key)
	var bad damage
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return lost("payload %s of %s bytes is not in %s any more", key, shown(claim[claimSize]), d.place)
	case errors.As(err, &bad):
		return lost("payload %s of %s bytes is damaged in %s: it holds %d bytes of another SHA-256", key, shown(claim[claimSize]), d.place, int(bad))
	case err != nil:
		return nil, &contract.Failure{Class: contract.ClassUnavailable,
			Text:   fmt.Sprintf("read payload %s from %s: %v", key, d.place, err),
			Remedy: "make it readable for the worker; until then it is tried again"}
	}
	p := &commonpb.Payload{}
	if err := proto.Unmarshal(data, p); err != nil {
		return lost("payload %s in %s is no payload: %v", key, d.place, err)
	}
	return p, nil
}

// damage is the error of bytes that do not have the hash by which they are named; it is how
// many they are.
type damage int

// Error is never shown.
func (d damage) Error() string { return fmt.Sprintf("%d damaged bytes", int(d)) }

// patience is how long bytes may stay away: a network folder shows them a little late.
const patience = time.Second

// read gets bytes and checks their hash. What is missing or damaged gets a second chance.
func (d *driver) read(ctx context.Context, key string) ([]byte, error) {
	for try := 1; ; try++ {
		data, err := d.place.get(ctx, key)
		if err == nil {
			if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) == key {
				return data, nil
			}
			err = damage(len(data))
		}
		var bad damage
		if try > 1 || !errors.Is(err, fs.ErrNotExist) && !errors.As(err, &bad) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(patience):
		}
	}
}

// lost is a payload that stands for one that is gone. [payloads] makes its failure of it.
func lost(format string, args ...any) (*commonpb.Payload, error) {
	return contract.Unreadable(&contract.Failure{Class: contract.ClassPayloadLost, Text: fmt.Sprintf(format, args...),
		Remedy: "put the file back from a backup before its run goes on, or start the run again; keep payloads longer than the namespace keeps runs"})
}

// shown is a claim's text for a message: a claim may have been made by anybody.
func shown(s string) string {
	if len(s) > 80 {
		s = s[:80]
	}
	return strconv.QuoteToASCII(s)
}

// each runs f for 0 to n-1 at once and gives the first error in that order.
func each(n int, f func(int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
