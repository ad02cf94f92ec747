package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"weft/activities/contract"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(Settings{Dir: dir, Threshold: DefaultThreshold, MaxPayload: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func payload(text string) *commonpb.Payload {
	return &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("json/plain"), "a": []byte("1"), "b": []byte("2")}, Data: []byte(text)}
}

func storeAll(t *testing.T, s *Store, texts ...string) []converter.StorageDriverClaim {
	t.Helper()
	var list []*commonpb.Payload
	for _, text := range texts {
		list = append(list, payload(text))
	}
	claims, err := s.driver.Store(converter.StorageDriverStoreContext{Context: context.Background()}, list)
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

func fetch(s *Store, claims ...converter.StorageDriverClaim) ([]*commonpb.Payload, error) {
	return s.driver.Retrieve(converter.StorageDriverRetrieveContext{Context: context.Background()}, claims)
}

// files lists the files of a store, without the one that holds its name.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && e.Name() != nameFile {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "here")
	texts := []string{"", "one", strings.Repeat("two", 100_000), "one"}
	claims := storeAll(t, open(t, dir), texts...)
	// Another process reads them.
	got, err := fetch(open(t, dir), claims...)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		if !proto.Equal(got[i], payload(text)) {
			t.Errorf("payload %d = %.100s", i, got[i])
		}
	}
	if n := len(files(t, dir)); n != 3 {
		t.Errorf("%d files, want 3", n)
	}
	info, err := os.Stat(files(t, dir)[0])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("a payload is readable by other users: %v, %v", info.Mode(), err)
	}
}

func TestConcurrentWorkers(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			s, err := Open(Settings{Dir: dir, MaxPayload: 1 << 20})
			if err != nil {
				t.Error(err)
				return
			}
			var list []*commonpb.Payload
			for i := range 30 {
				list = append(list, payload(strings.Repeat(fmt.Sprint(i), 5000)))
			}
			claims, err := s.driver.Store(converter.StorageDriverStoreContext{Context: context.Background()}, list)
			if err != nil {
				t.Error(err)
				return
			}
			got, err := fetch(s, claims...)
			for i := range got {
				if !proto.Equal(got[i], list[i]) {
					t.Errorf("payload %d differs", i)
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := len(files(t, dir)); n != 30 {
		t.Errorf("%d files, want 30", n)
	}
}

// countingLimiter admits as many operations at once as room has capacity, and records the maximum.
type countingLimiter[T any] struct {
	room      chan struct{}
	now, peak atomic.Int32
}

func (c *countingLimiter[T]) Permit(_ context.Context, _ T, fn func() error) error {
	c.room <- struct{}{}
	defer func() { <-c.room }()
	n := c.now.Add(1)
	defer c.now.Add(-1)
	for m := c.peak.Load(); n > m && !c.peak.CompareAndSwap(m, n); m = c.peak.Load() {
	}
	time.Sleep(time.Millisecond)
	return fn()
}

func TestOperationsAreLimited(t *testing.T) {
	s := open(t, t.TempDir())
	in := &countingLimiter[*commonpb.Payload]{room: make(chan struct{}, 2)}
	list := make([]*commonpb.Payload, 20)
	for i := range list {
		list[i] = payload(fmt.Sprint(i))
	}
	claims, err := s.driver.Store(converter.StorageDriverStoreContext{Context: context.Background(), Limiter: in}, list)
	if err != nil {
		t.Fatal(err)
	}
	out := &countingLimiter[converter.StorageDriverClaim]{room: make(chan struct{}, 2)}
	if _, err := s.driver.Retrieve(converter.StorageDriverRetrieveContext{Context: context.Background(), Limiter: out}, claims); err != nil {
		t.Fatal(err)
	}
	if in.peak.Load() != 2 || out.peak.Load() != 2 {
		t.Errorf("%d stored and %d fetched at once, want 2", in.peak.Load(), out.peak.Load())
	}
}

func TestDamageIsDetectedAndRepaired(t *testing.T) {
	damage := map[string]func(string) error{
		"changed":   func(f string) error { return os.WriteFile(f, bytes.Repeat([]byte("x"), 40), 0o600) },
		"truncated": func(f string) error { return os.Truncate(f, 3) },
		"empty":     func(f string) error { return os.Truncate(f, 0) },
		"removed":   os.Remove,
	}
	for name, do := range damage {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, dir)
			claims := storeAll(t, s, "something")
			if err := do(files(t, dir)[0]); err != nil {
				t.Fatal(err)
			}
			got, err := fetch(s, claims...)
			if err != nil {
				t.Fatal(err)
			}
			var text string
			f := contract.FailureOf((&payloads{DataConverter: converter.GetDefaultDataConverter()}).FromPayload(got[0], &text))
			if f == nil || f.Class != contract.ClassPayloadLost || !strings.Contains(f.Text, claims[0].ClaimData[claimKey]) || !strings.Contains(f.Text, dir) || f.Remedy == "" {
				t.Errorf("failure = %+v", f)
			}
			// Storing it again repairs it.
			storeAll(t, s, "something")
			if got, err := fetch(s, claims...); err != nil || !proto.Equal(got[0], payload("something")) {
				t.Errorf("after storing it again: %v, %v", got, err)
			}
		})
	}
}

func TestInvalidClaims(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	good := storeAll(t, s, "x")[0].ClaimData
	with := func(key, value string) map[string]string {
		out := map[string]string{claimKey: good[claimKey], claimSize: good[claimSize], claimStore: good[claimStore]}
		out[key] = value
		return out
	}
	noStore, err := Open(Settings{MaxPayload: DefaultMaxPayload})
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		store *Store
		claim map[string]string
		// class is the class of the error; empty if the payload counts as lost.
		class, want string
	}{
		"another store":                    {s, with(claimStore, "other"), contract.ClassUnavailable, `is in the store "other", but directory ` + dir},
		"no store":                         {noStore, good, contract.ClassUnavailable, "this process has no store; set store.dir (WEFT_STORE_DIR)"},
		"empty claim":                      {s, nil, contract.ClassUnavailable, "is in the store"},
		"key with a path out of the store": {s, with(claimKey, "../../../etc/passwd"), "", "not a SHA-256"},
		"short key":                        {s, with(claimKey, "a"), "", "not a SHA-256"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := fetch(tc.store, converter.StorageDriverClaim{ClaimData: tc.claim})
			if tc.class == "" {
				if err != nil || contract.Unread(got[0]) == nil || !strings.Contains(contract.Unread(got[0]).Text, tc.want) {
					t.Errorf("%v, %v", got, err)
				}
				return
			}
			if f := contract.FailureOf(err); f == nil || f.Class != tc.class || !strings.Contains(f.Error(), tc.want) {
				t.Errorf("error = %v", err)
			}
		})
	}
}

func TestTooLargeOrNoStore(t *testing.T) {
	dir := t.TempDir()
	noStore, err := Open(Settings{})
	if err != nil {
		t.Fatal(err)
	}
	for want, s := range map[string]*Store{contract.ClassTooLarge: open(t, dir), contract.ClassUnavailable: noStore} {
		_, err := s.driver.Store(converter.StorageDriverStoreContext{Context: context.Background()}, []*commonpb.Payload{payload(strings.Repeat("x", 3<<20))})
		if f := contract.FailureOf(err); f == nil || f.Class != want || f.Remedy == "" || !strings.Contains(f.Text, "31457") {
			t.Errorf("error = %v, want class %s", err, want)
		}
	}
	if n := len(files(t, dir)); n != 0 {
		t.Errorf("%d files left", n)
	}
}

func TestUnusableFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	unnamed := t.TempDir()
	if err := os.WriteFile(filepath.Join(unnamed, nameFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{file: "cannot be created", filepath.Join(file, "below"): "cannot be created", unnamed: "store.id is empty"} {
		_, err := Open(Settings{Dir: dir})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "use a directory") {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// TestUnmountedFolder checks that payloads are unavailable, not lost, if their folder is missing or was created anew.
func TestUnmountedFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, dir)
	claims := storeAll(t, s, "x")
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	for _, create := range []func() error{func() error { return nil }, func() error { _, err := Open(Settings{Dir: dir}); return err }} {
		if err := create(); err != nil {
			t.Fatal(err)
		}
		_, err := fetch(s, claims...)
		if f := contract.FailureOf(err); f == nil || f.Class != contract.ClassUnavailable || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("error = %v", err)
		}
	}
}
