// Package store offloads payloads that are too large for Temporal, or too large for a run's
// history, to external storage: the server gets a claim. Worker, starter and embedded server
// add it to their client with [Store.Apply].
//
// A payload is named by the SHA-256 of its bytes, so that equal payloads are stored once and
// damage is always detected. The store does not limit what a run may hold: workflow code does,
// by a limit that each run records.
//
// Start at [Open], then [kinds]: a new kind of storage is a file and one row there.
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

// Settings say where payloads are stored. The zero value is no store.
type Settings struct {
	// Dir is a directory that all workers and starters share.
	Dir string
	// Bucket is a bucket that they share, instead.
	Bucket Bucket
	// Threshold is the size in bytes from which payloads that only workers read are offloaded.
	Threshold int
	// MaxPayload is the largest payload in bytes.
	MaxPayload int
}

// Bounds and defaults of [Settings].
const (
	DefaultThreshold  = 128 << 10
	DefaultMaxPayload = 64 << 20
	// Inline is the size from which every payload is offloaded.
	Inline = 1_900<<10 + 64<<10
	// smallest is the size below which none is: a claim is hardly shorter.
	smallest = 1 << 10
)

// maxInline is the size from which the server rejects a payload.
const maxInline = 2 << 20

// backend stores bytes by key. Implementations are safe for concurrent use by several processes.
type backend interface {
	// put stores bytes, and marks them as new if they exist already.
	put(ctx context.Context, key string, data []byte) error
	// get returns the bytes of a key. Its error is fs.ErrNotExist if, and only if, there are none.
	get(ctx context.Context, key string) ([]byte, error)
	// sweep removes what has not been put since; see [Store.Sweep].
	sweep(ctx context.Context, before time.Time) (Swept, error)
	// id identifies the storage, the same for all processes that use it.
	id() string
	// String describes the location, for messages.
	fmt.Stringer
}

// kind is a kind of storage. check looks only at the settings; open tries the storage as well.
type kind struct {
	name  string
	given func(Settings) bool
	check func(Settings) error
	open  func(Settings) (backend, error)
}

// kinds is the table of all kinds. The first whose settings are given is used.
var kinds = []kind{
	{"bucket", func(s Settings) bool { return s.Bucket.Name != "" }, checkBucket, openBucket},
	{"directory", func(s Settings) bool { return s.Dir != "" }, checkDirectory, openDirectory},
}

// Most is the largest payload that the store accepts, in bytes; 0 without a store.
func (s Settings) Most() int {
	for _, k := range kinds {
		if k.given(s) {
			return s.MaxPayload
		}
	}
	return 0
}

// Store stores payloads. One that [Open] made of empty settings stores none.
type Store struct {
	settings Settings
	driver   *driver
}

// Open opens the store of the settings. It tries the storage, so that a wrong setting is found before
// a run needs it. Settings with both a directory and a bucket are an error.
func Open(s Settings) (*Store, error) {
	if err := s.checkOne(); err != nil {
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
		return &Store{settings: s, driver: &driver{backend: p, most: s.MaxPayload}}, nil
	}
	return &Store{driver: &driver{}}, nil
}

// Check reports what is wrong with the settings, without access to the storage.
func Check(s Settings) error {
	if err := s.checkOne(); err != nil {
		return err
	}
	for _, k := range kinds {
		if k.given(s) {
			return k.check(s)
		}
	}
	return nil
}

// checkOne rejects settings with two locations.
func (s Settings) checkOne() error {
	if s.Dir != "" && s.Bucket.Name != "" {
		return fmt.Errorf("store.dir is %q and store.bucket %q; set only one of them", s.Dir, s.Bucket.Name)
	}
	return nil
}

// String describes the location; it is empty without a store.
func (s *Store) String() string {
	if s.driver.backend == nil {
		return ""
	}
	return s.driver.backend.String()
}

// Apply makes a client, and the workers that use it, offload payloads to the store and fetch them
// from there. It also adds what a client needs with or without a store: an error that names the
// missing setting where a payload needs a store, limits for Updates ([boundUpdates]), repeated
// queries ([boundAnswers]), and run ids in any alphabet ([plainHeaders]).
//
// A data converter that the options already have runs before the store: what it encrypts is stored
// encrypted. If it has a method Encrypts that returns true, the texts of failures go through it, too.
func (s *Store) Apply(o *client.Options) {
	o.ExternalStorage = converter.ExternalStorage{
		Drivers: []converter.StorageDriver{s.driver}, DriverSelector: selector{s.driver, min(s.settings.Threshold, Inline)}, PayloadSizeThreshold: maxInline,
	}
	inner := o.DataConverter
	if inner == nil {
		inner = converter.GetDefaultDataConverter()
	}
	if s.driver.backend != nil {
		o.ExternalStorage.PayloadSizeThreshold = min(s.settings.Threshold, smallest)
	}
	own := &payloads{DataConverter: inner, mark: s.driver.backend != nil}
	secret, _ := inner.(interface{ Encrypts() bool })
	o.DataConverter, o.FailureConverter = own, newFailures(own, secret != nil && secret.Encrypts())
	o.ConnectionOptions.DialOptions = append(slices.Clone(o.ConnectionOptions.DialOptions), grpc.WithChainUnaryInterceptor(boundUpdates, boundAnswers, plainHeaders))
}
