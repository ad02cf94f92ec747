package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/minio/minio-go/v7"
)

// lockTime is how long a lock remains valid if its holder exits without releasing it.
const lockTime = 2 * time.Minute

// Load returns a record. Unlike a payload, a record has a name, can be replaced, and is never swept. The
// error is fs.ErrNotExist if the record does not exist.
func (s *Store) Load(ctx context.Context, name string) ([]byte, error) {
	if s.driver.backend == nil {
		return nil, errors.New(noStore)
	}
	return s.driver.backend.get(ctx, name)
}

// Save writes a record. The name must have at least two characters and must not be a payload's key.
func (s *Store) Save(ctx context.Context, name string, data []byte) error {
	if s.driver.backend == nil {
		return errors.New(noStore)
	}
	return s.driver.backend.put(ctx, name, data)
}

// Lock waits until no other process holds the lock of a record, and holds it until unlock is called.
func (s *Store) Lock(ctx context.Context, name string) (unlock func(), err error) {
	b := s.driver.backend
	if b == nil {
		return nil, errors.New(noStore)
	}
	name += ".lock"
	for {
		err := b.create(ctx, name, []byte(time.Now().Add(lockTime).Format(time.RFC3339)))
		if err == nil {
			return func() { _ = b.remove(context.WithoutCancel(ctx), name) }, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if text, err := b.get(ctx, name); err == nil {
			if until, err := time.Parse(time.RFC3339, string(text)); err == nil && time.Now().After(until) {
				_ = b.remove(ctx, name) // the next create reports an error, if any
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (d *directory) create(_ context.Context, key string, data []byte) error {
	file := d.file(key)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return createFile(file, data)
}

func (d *directory) remove(_ context.Context, key string) error { return os.Remove(d.file(key)) }

func (b *bucket) create(ctx context.Context, key string, data []byte) error {
	var o minio.PutObjectOptions
	o.SetMatchETagExcept("*")
	return b.write(ctx, key, data, o)
}

func (b *bucket) remove(ctx context.Context, key string) error {
	return b.client.RemoveObject(ctx, b.Bucket, b.object(key), minio.RemoveObjectOptions{})
}
