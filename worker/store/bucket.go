package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// bucket stores each payload in an object, PREFIX/NAMESPACE/ab/abcd….
type bucket struct {
	Settings
	client *minio.Client
	base   string
}

// tries is the number of attempts of a request; then Temporal retries, later and possibly on another
// worker.
const tries = 3

const openTimeout = 10 * time.Second

func (b *bucket) check() error { return nil }

func (b *bucket) open() error {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	switch exists, err := b.client.BucketExists(ctx, b.Bucket); {
	case err != nil:
		return fmt.Errorf("store.bucket %q at %s cannot be used: %w; check store.endpoint, store.region and the keys", b.Bucket, b.service(), shorten(err))
	case !exists:
		return fmt.Errorf("store.bucket %q does not exist at %s; create it, or set another", b.Bucket, b.service())
	}
	return nil
}

func (b *bucket) service() string { return cmp.Or(b.Endpoint, "https://s3.amazonaws.com") }

// newBucket returns a bucket. It makes no requests.
func newBucket(s Settings) (backend, error) {
	b := &bucket{Settings: s}
	u, err := serviceURL(b.service())
	if err != nil {
		return nil, err
	}
	for _, part := range []string{b.Prefix, b.Namespace} {
		if part = strings.Trim(part, "/"); part != "" {
			b.base += part + "/"
		}
	}
	keys := credentials.NewIAM("")
	if b.AccessKey != "" {
		keys = credentials.NewStaticV4(b.AccessKey, b.SecretKey, b.SessionToken)
	}
	lookup := minio.BucketLookupPath
	if b.VirtualHost {
		lookup = minio.BucketLookupDNS
	}
	b.client, err = minio.New(u.Host, &minio.Options{Creds: keys, Secure: u.Scheme == "https", Region: cmp.Or(b.Region, "us-east-1"), BucketLookup: lookup, MaxRetries: tries})
	if err != nil {
		return nil, fmt.Errorf("store.bucket %q: %w", b.Bucket, err)
	}
	return b, nil
}

// serviceURL checks the URL of a service. Its error does not quote the URL, which may contain a key.
func serviceURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("store.endpoint is not the URL of a host; use a URL such as https://minio.example.com:9000, without user and path")
	}
	return u, nil
}

// shorten returns a library error without its URL, which may contain a signature.
func shorten(err error) error {
	if sent, ok := errors.AsType[*url.Error](err); ok {
		return sent.Err
	}
	r := minio.ToErrorResponse(err)
	if r.Code == "" {
		return err
	}
	return fmt.Errorf("%s (%d %s)", r.Message, r.StatusCode, r.Code)
}

func (b *bucket) id() string { return "s3:" + b.Bucket + "/" + b.base }

func (b *bucket) String() string { return "bucket " + b.Bucket + "/" + b.base }

func (b *bucket) object(key string) string { return b.base + key[:2] + "/" + key }

// put writes an object atomically. Writing an existing object renews its modification time.
func (b *bucket) put(ctx context.Context, key string, data []byte) error {
	return b.write(ctx, key, data, minio.PutObjectOptions{})
}

func (b *bucket) write(ctx context.Context, key string, data []byte, o minio.PutObjectOptions) error {
	o.ContentType, o.DisableMultipart = "application/octet-stream", true
	_, err := b.client.PutObject(ctx, b.Bucket, b.object(key), bytes.NewReader(data), int64(len(data)), o)
	switch r := minio.ToErrorResponse(err); {
	case err == nil:
		return nil
	case r.Code == "PreconditionFailed", r.Code == "ConditionalRequestConflict":
		return fs.ErrExist
	}
	return shorten(err)
}

// get reads an object. It returns fs.ErrNotExist only if the service itself reports that the object does not exist.
func (b *bucket) get(ctx context.Context, key string) ([]byte, error) {
	o, err := b.client.GetObject(ctx, b.Bucket, b.object(key), minio.GetObjectOptions{})
	if err != nil {
		return nil, shorten(err)
	}
	defer o.Close()
	data, err := io.ReadAll(o)
	switch r := minio.ToErrorResponse(err); {
	case err == nil:
		return data, nil
	case r.Code == "NoSuchKey", r.StatusCode == http.StatusNotFound && r.Code == "":
		return nil, fs.ErrNotExist
	}
	return nil, shorten(err)
}

// sweep removes objects that were last modified before the given time. It checks each object again
// before removing it, because it may have been stored again meanwhile.
func (b *bucket) sweep(ctx context.Context, before time.Time) (Swept, error) {
	var out Swept
	var failed error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for o := range b.client.ListObjects(ctx, b.Bucket, minio.ListObjectsOptions{Prefix: b.base, Recursive: true}) {
		if o.Err != nil {
			return out, fmt.Errorf("sweep %s: %w", b, shorten(o.Err))
		}
		name := o.Key[strings.LastIndex(o.Key, "/")+1:]
		if !hexKey.MatchString(name) || o.Key != b.object(name) {
			continue
		}
		old := o.LastModified.Before(before)
		if old {
			now, err := b.client.StatObject(ctx, b.Bucket, o.Key, minio.StatObjectOptions{})
			old = err == nil && now.LastModified.Before(before)
		}
		if !old {
			out.keep(o.Size)
			continue
		}
		if err := b.client.RemoveObject(ctx, b.Bucket, o.Key, minio.RemoveObjectOptions{}); err != nil {
			failed = cmp.Or(failed, fmt.Errorf("sweep %s: %w", b, shorten(err)))
			continue
		}
		out.free(o.Size)
	}
	return out, failed
}
