// Package store offloads payloads that are too large for Temporal, or too large for a run's
// history, to external storage: the server gets a claim. Worker, starter and embedded server
// add it to their client with [Store.Apply].
//
// A payload is named by the SHA-256 of its bytes, so that equal payloads are stored once and
// corruption is always detected. The store does not limit how much a run may hold: workflow code
// does, by a limit that each run records.
//
// Start at [Open], then [backend], the interface that a new kind of storage implements.
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

// Settings specify where payloads are stored: a directory or a bucket that all workers and starters share.
// The zero value means no store. The tags are read by worker/config.
type Settings struct {
	Dir         string `mapstructure:"dir" doc:"folder, shared by workers and starters, for payloads that are too large for Temporal; default: none"`
	Bucket      string `mapstructure:"bucket" doc:"bucket of an S3-compatible service, instead of a folder"`
	Endpoint    string `mapstructure:"endpoint" doc:"URL of the service; default: Amazon S3"`
	Region      string `mapstructure:"region" doc:"region of the bucket; default: us-east-1"`
	Prefix      string `mapstructure:"prefix" doc:"prefix of all object names; the namespace follows it"`
	VirtualHost bool   `mapstructure:"virtual_host" default:"false" doc:"true: the bucket's name is part of the host instead of the path"`
	Threshold   int    `mapstructure:"threshold" min:"1024" max:"2011136" default:"131072" doc:"size in bytes above which payloads that only workers read are also stored"`
	MaxPayload  int    `mapstructure:"max_payload" min:"2097152" max:"1073741824" default:"67108864" doc:"largest stored payload, in bytes"`
	// Namespace follows the prefix, so that several namespaces can share a bucket.
	Namespace string `mapstructure:"-"`
	// AccessKey, SecretKey and SessionToken sign requests; if they are empty, the machine's IAM role is used.
	AccessKey    string `mapstructure:"-"`
	SecretKey    string `mapstructure:"-"`
	SessionToken string `mapstructure:"-"`
}

// Bounds and defaults of [Settings].
const (
	DefaultThreshold  = 128 << 10
	DefaultMaxPayload = 64 << 20
	// Inline is the size from which every payload is offloaded.
	Inline = 1_900<<10 + 64<<10
	// smallest is the size below which no payload is offloaded: a claim is hardly smaller.
	smallest = 1 << 10
)

// maxInline is the size from which the server rejects a payload.
const maxInline = 2 << 20

// backend stores bytes by key. Implementations are safe for concurrent use by several processes.
type backend interface {
	// check validates the settings; it makes no requests and creates nothing.
	check() error
	// open verifies access to the storage, and creates the storage if possible.
	open() error
	// put stores bytes, and renews their age if they exist already.
	put(ctx context.Context, key string, data []byte) error
	// get returns the bytes of a key. Its error is fs.ErrNotExist if, and only if, the key does not exist.
	get(ctx context.Context, key string) ([]byte, error)
	// create stores bytes of a new key; the error is fs.ErrExist if the key exists.
	create(ctx context.Context, key string, data []byte) error
	remove(ctx context.Context, key string) error
	// sweep removes payloads last put before a time; see [Store.Sweep].
	sweep(ctx context.Context, before time.Time) (Swept, error)
	// id identifies the storage, the same for all processes that use it.
	id() string
	// String describes the location, for messages.
	fmt.Stringer
}

// backend returns the storage that the settings name, or nil if they name none.
func (s Settings) backend() (backend, error) {
	switch {
	case s.Dir != "" && s.Bucket != "":
		return nil, fmt.Errorf("store.dir is %q and store.bucket %q; set only one of them", s.Dir, s.Bucket)
	case s.Bucket != "":
		return newBucket(s)
	case s.Dir != "":
		return newDirectory(s)
	}
	return nil, nil
}

// PayloadLimit returns the size in bytes of the largest payload that the store accepts; 0 without a store.
func (s Settings) PayloadLimit() int {
	if s.Dir == "" && s.Bucket == "" {
		return 0
	}
	return s.MaxPayload
}

// Store stores payloads. A Store that was opened with empty settings stores none.
type Store struct {
	settings Settings
	driver   *driver
}

// Open opens the store of the settings. It verifies access to the storage, so that an invalid setting
// is reported before a run needs it. Settings with both a directory and a bucket are an error.
func Open(s Settings) (*Store, error) {
	b, err := s.backend()
	if err == nil && b != nil {
		err = b.open()
	}
	if err != nil {
		return nil, err
	}
	return &Store{settings: s, driver: &driver{backend: b, most: s.MaxPayload}}, nil
}

// Check validates the settings without making requests to the storage.
func Check(s Settings) error {
	b, err := s.backend()
	if err != nil || b == nil {
		return err
	}
	return b.check()
}

// MaxPayload returns the size in bytes of the largest payload that the store accepts; 0 if it stores none.
func (s *Store) MaxPayload() int { return s.settings.PayloadLimit() }

// String describes the location; it returns "" without a store.
func (s *Store) String() string {
	if s.driver.backend == nil {
		return ""
	}
	return s.driver.backend.String()
}

// Apply makes a client, and the workers that use it, offload payloads to the store and fetch them
// from there. With or without a store, it also adds an error that names the missing setting if a
// payload needs a store, limits for Updates ([boundUpdates]), repeated requests ([RepeatRequests]),
// and support for non-ASCII run ids ([plainHeaders]).
//
// A data converter that the options already have runs before the store, so that encrypted payloads
// are stored encrypted. If its method Encrypts returns true, it also encodes the texts of failures.
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
	o.ConnectionOptions.DialOptions = append(slices.Clone(o.ConnectionOptions.DialOptions), grpc.WithChainUnaryInterceptor(boundUpdates, boundAnswers, RepeatRequests, plainHeaders))
}
