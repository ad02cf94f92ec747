// Package storage is a stub of the Google Cloud Storage client, with which a server can archive histories. The embedded
// server archives nothing; the stub saves it some 210 packages. [NewClient] always fails.
package storage

import (
	"context"
	"errors"

	"google.golang.org/api/option"
)

// ScopeFullControl is the scope of credentials.
const ScopeFullControl = "https://www.googleapis.com/auth/devstorage.full_control"

var errUnsupported = errors.New("this server is built without Google Cloud Storage")

// Client is a client that cannot be created.
type Client struct{}

// NewClient always fails.
func NewClient(context.Context, ...option.ClientOption) (*Client, error) { return nil, errUnsupported }

// Bucket returns nil.
func (*Client) Bucket(string) *BucketHandle { return nil }

// BucketHandle is a bucket.
type BucketHandle struct{}

// BucketAttrs describes a bucket.
type BucketAttrs struct{}

// Query selects objects.
type Query struct{ Prefix string }

// Object returns nil.
func (*BucketHandle) Object(string) *ObjectHandle { return nil }

// Objects returns nil.
func (*BucketHandle) Objects(context.Context, *Query) *ObjectIterator { return nil }

// Attrs fails.
func (*BucketHandle) Attrs(context.Context) (*BucketAttrs, error) { return nil, errUnsupported }

// ObjectIterator lists objects.
type ObjectIterator struct{}

// Next fails.
func (*ObjectIterator) Next() (*ObjectAttrs, error) { return nil, errUnsupported }

// ObjectHandle is an object.
type ObjectHandle struct{}

// ObjectAttrs describes an object.
type ObjectAttrs struct{ Name string }

// Attrs fails.
func (*ObjectHandle) Attrs(context.Context) (*ObjectAttrs, error) { return nil, errUnsupported }

// NewWriter returns nil.
func (*ObjectHandle) NewWriter(context.Context) *Writer { return nil }

// NewReader fails.
func (*ObjectHandle) NewReader(context.Context) (*Reader, error) { return nil, errUnsupported }

// Writer writes an object.
type Writer struct{}

// Write fails.
func (*Writer) Write([]byte) (int, error) { return 0, errUnsupported }

// Close fails.
func (*Writer) Close() error { return errUnsupported }

// CloseWithError does nothing.
func (*Writer) CloseWithError(error) error { return nil }

// Reader reads an object.
type Reader struct{}

// Read fails.
func (*Reader) Read([]byte) (int, error) { return 0, errUnsupported }

// Close does nothing.
func (*Reader) Close() error { return nil }
