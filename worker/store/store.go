// Package store keeps payloads that are too large for Temporal, or too large for a run's
// history, outside: what goes to the server is a claim. Worker, starter and embedded server
// give it to their client with [Store.Apply].
//
// A payload is named by the SHA-256 of its bytes, so that the same one is kept once and
// nothing that was damaged is ever taken for what it was. It never decides what a run may
// hold: workflow code measures, by a bound that each run records.
//
// Start at [Open], then [kinds]: a new kind of place is a file and one row there.
package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/grpc"
)

// Settings say where payloads go. The zero value is no store.
type Settings struct {
	// Dir is a folder that all workers and starters share.
	Dir string
	// Bucket is a bucket that they share, instead.
	Bucket Bucket
	// Threshold is the size in bytes from which what only workers read is kept outside.
	Threshold int
	// MaxPayload is the largest payload in bytes.
	MaxPayload int
}

// Bounds and defaults of [Settings].
const (
	DefaultThreshold  = 128 << 10
	DefaultMaxPayload = 64 << 20
	// Inline is the size from which every payload is kept outside.
	Inline = 1_900<<10 + 64<<10
	// smallest is the size below which none is: a claim is hardly shorter.
	smallest = 1 << 10
)

// refused is the size that no payload in Temporal may have.
const refused = 2 << 20

// place keeps bytes by key. Implementations are safe for several processes at once.
type place interface {
	// put keeps bytes, and marks them as new where they are there already.
	put(ctx context.Context, key string, data []byte) error
	// get returns the bytes of a key; fs.ErrNotExist where there are none, and only then.
	get(ctx context.Context, key string) ([]byte, error)
	// sweep removes what nobody has put since; see [Store.Sweep].
	sweep(ctx context.Context, before time.Time) (Swept, error)
	// id names the place, the same for all who use it.
	id() string
	// String says where it is, for messages.
	fmt.Stringer
}

// kind is a kind of places. check looks at the settings alone; open tries the place.
type kind struct {
	name  string
	given func(Settings) bool
	check func(Settings) error
	open  func(Settings) (place, error)
}

// kinds is the table of all kinds. The first whose settings are given is used.
var kinds = []kind{
	{"bucket", func(s Settings) bool { return s.Bucket.Name != "" }, checkBucket, openBucket},
	{"directory", func(s Settings) bool { return s.Dir != "" }, checkDirectory, openDirectory},
}

// Most is the largest payload that the store takes in bytes, 0 where there is no store.
func (s Settings) Most() int {
	for _, k := range kinds {
		if k.given(s) {
			return s.MaxPayload
		}
	}
	return 0
}

// Store is a place for payloads, or says that there is none.
type Store struct {
	settings Settings
	driver   *driver
}

// Open makes a store ready, or its absence; a folder and a bucket at once are an error. It tries the place, so that a wrong setting is
// known before there is a run.
func Open(s Settings) (*Store, error) {
	if err := s.lone(); err != nil {
		return nil, err
	}
	for _, k := range kinds {
		if !k.given(s) {
			continue
		}
		p, err := k.open(s)
		if err != nil {
			return nil, err
		}
		return &Store{settings: s, driver: &driver{place: p, most: s.MaxPayload}}, nil
	}
	return &Store{driver: &driver{}}, nil
}

// Check says what of the settings cannot be right, and leaves the place alone.
func Check(s Settings) error {
	if err := s.lone(); err != nil {
		return err
	}
	for _, k := range kinds {
		if k.given(s) {
			return k.check(s)
		}
	}
	return nil
}

// lone refuses two places.
func (s Settings) lone() error {
	if s.Dir != "" && s.Bucket.Name != "" {
		return fmt.Errorf("store.dir is %q and store.bucket %q; give one of them", s.Dir, s.Bucket.Name)
	}
	return nil
}

// String says where the store is; empty where there is none.
func (s *Store) String() string {
	if s.driver.place == nil {
		return ""
	}
	return s.driver.place.String()
}

// Apply makes a client, and the workers that use it, keep payloads in the store and take
// them from there. Without a store the client says what is missing where a payload needs
// one, refuses Updates that are too large, or too many at a time, asks again where the answer of a
// query did not fit with all else that its run had to say, and takes runs with ids in any alphabet. A data converter that the options have already does its work before the store's: what
// it encrypts lies encrypted there, and where its method Encrypts says so the texts of
// failures go through it, too.
func (s *Store) Apply(o *client.Options) {
	o.ExternalStorage = converter.ExternalStorage{
		Drivers: []converter.StorageDriver{s.driver}, DriverSelector: selector{s.driver, min(s.settings.Threshold, Inline)}, PayloadSizeThreshold: refused,
	}
	inner := o.DataConverter
	if inner == nil {
		inner = converter.GetDefaultDataConverter()
	}
	if s.driver.place != nil {
		o.ExternalStorage.PayloadSizeThreshold = min(s.settings.Threshold, smallest)
	}
	own := &payloads{DataConverter: inner, mark: s.driver.place != nil}
	secret, _ := inner.(interface{ Encrypts() bool })
	o.DataConverter, o.FailureConverter = own, newFailures(own, secret != nil && secret.Encrypts())
	o.ConnectionOptions.DialOptions = append(slices.Clone(o.ConnectionOptions.DialOptions), grpc.WithChainUnaryInterceptor(boundUpdates, boundAnswers, plainHeaders))
}
