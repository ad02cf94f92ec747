package store

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/converter"

	"weft/activities/contract"
)

// s3 is a fake S3 service with one bucket; it implements the requests that the store uses.
type s3 struct {
	mu      sync.Mutex
	objects map[string]object
	// fail, if set, is called first and reports whether it answered the request.
	fail func(w http.ResponseWriter, r *http.Request) bool
}

type object struct {
	data []byte
	at   time.Time
}

const s3Key, s3Secret = "AKIAcanary", "secret-canary"

func newS3(t *testing.T) (*s3, Settings) {
	t.Helper()
	s := &s3{objects: map[string]object{}}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return s, Settings{Threshold: DefaultThreshold, MaxPayload: DefaultMaxPayload,
		Bucket: "payloads", Endpoint: srv.URL, Prefix: "weft/", Namespace: "default", AccessKey: s3Key, SecretKey: s3Secret}
}

func s3Error(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>error %s</Message></Error>", code, code)
}

// ServeHTTP implements http.Handler.
func (s *s3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	if s.fail != nil && s.fail(w, r) {
		return
	}
	if !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential="+s3Key+"/") {
		s3Error(w, http.StatusForbidden, "AccessDenied")
		return
	}
	bucket, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	o, found := s.objects[name]
	switch {
	case bucket != "payloads":
		s3Error(w, http.StatusNotFound, "NoSuchBucket")
	case name == "" && r.Method == http.MethodHead:
	case name == "":
		s.list(w, r.URL.Query().Get("prefix"))
	case r.Method == http.MethodPut:
		if strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
			body = unchunk(body)
		}
		s.objects[name] = object{body, time.Now()}
		w.Header().Set("ETag", etag(body))
	case r.Method == http.MethodDelete:
		delete(s.objects, name)
		w.WriteHeader(http.StatusNoContent)
	case !found:
		s3Error(w, http.StatusNotFound, "NoSuchKey")
	default:
		w.Header().Set("ETag", etag(o.data))
		w.Header().Set("Last-Modified", o.at.UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Length", strconv.Itoa(len(o.data)))
		if r.Method == http.MethodGet {
			_, _ = w.Write(o.data)
		}
	}
}

func etag(data []byte) string {
	sum := md5.Sum(data)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

// unchunk removes the signatures from a signed stream of chunks: SIZE;chunk-signature=…, then the bytes.
func unchunk(body []byte) []byte {
	var out []byte
	for {
		head, rest, ok := bytes.Cut(body, []byte("\r\n"))
		size, _, _ := strings.Cut(string(head), ";")
		n, err := strconv.ParseInt(size, 16, 64)
		if !ok || err != nil || n == 0 {
			return out
		}
		out, body = append(out, rest[:n]...), rest[n+2:]
	}
}

func (s *s3) list(w http.ResponseWriter, prefix string) {
	type content struct {
		Key, LastModified, ETag string
		Size                    int
	}
	var out struct {
		XMLName  xml.Name  `xml:"ListBucketResult"`
		Contents []content `xml:"Contents"`
	}
	for name, o := range s.objects {
		if strings.HasPrefix(name, prefix) {
			out.Contents = append(out.Contents, content{name, o.at.UTC().Format("2006-01-02T15:04:05.000Z"), etag(o.data), len(o.data)})
		}
	}
	sort.Slice(out.Contents, func(i, j int) bool { return out.Contents[i].Key < out.Contents[j].Key })
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(out)
}

// openBucket opens the store of a bucket.
func openBucket(t *testing.T, s Settings) *Store {
	t.Helper()
	out, err := Open(s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestBucketRoundTrip(t *testing.T) {
	service, settings := newS3(t)
	s := openBucket(t, settings)
	claims := storeAll(t, s, "one", "two", "one")
	if len(service.objects) != 2 || claims[0].ClaimData[claimStore] != "s3:payloads/weft/default/" {
		t.Errorf("%d objects, claim %v", len(service.objects), claims[0])
	}
	for name := range service.objects {
		if !strings.HasPrefix(name, "weft/default/") {
			t.Errorf("object without the prefix: %s", name)
		}
	}
	other := openBucket(t, settings) // another worker
	back, err := fetch(other, claims...)
	if err != nil || string(back[0].GetData()) != "one" || string(back[1].GetData()) != "two" {
		t.Fatalf("%v, %v", back, err)
	}
	settings.Namespace = "prod"
	if _, err := fetch(openBucket(t, settings), claims[0]); contract.FailureOf(err).Class != contract.ClassUnavailable {
		t.Errorf("fetch in another namespace: error = %v", err)
	}
}

// TestBucketErrors checks that an unavailable bucket is distinguished from a payload that is lost.
func TestBucketErrors(t *testing.T) {
	service, settings := newS3(t)
	s := openBucket(t, settings)
	claims := storeAll(t, s, "damaged", "gone", "there")
	at := func(c converter.StorageDriverClaim) string {
		return s.driver.backend.(*bucket).object(c.ClaimData[claimKey])
	}
	service.objects[at(claims[0])] = object{[]byte("something else"), time.Now()}
	delete(service.objects, at(claims[1]))
	for i, want := range []string{"is corrupt in bucket payloads/weft/default/", "is no longer in bucket payloads/weft/default/"} {
		back, err := fetch(s, claims[i])
		if err != nil {
			t.Fatal(err)
		}
		if f := contract.FailureOf(lostError(back[0])); f == nil || f.Class != contract.ClassPayloadLost || !strings.Contains(f.Text, want) {
			t.Errorf("failure = %+v, want %s", f, want)
		}
	}
	for name, fail := range map[string]func(w http.ResponseWriter){
		"missing bucket": func(w http.ResponseWriter) { s3Error(w, 404, "NoSuchBucket") },
		"denied":         func(w http.ResponseWriter) { s3Error(w, 403, "AccessDenied") },
	} {
		service.fail = func(w http.ResponseWriter, _ *http.Request) bool { fail(w); return true }
		_, err := fetch(s, claims[2])
		f := contract.FailureOf(err)
		if f.Class != contract.ClassUnavailable || strings.Contains(f.Error(), "canary") {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestBucketSweep(t *testing.T) {
	service, settings := newS3(t)
	s := openBucket(t, settings)
	claims := storeAll(t, s, "old", "new", "stored again")
	at := func(i int) string { return s.driver.backend.(*bucket).object(claims[i].ClaimData[claimKey]) }
	for _, i := range []int{0, 2} {
		o := service.objects[at(i)]
		service.objects[at(i)] = object{o.data, time.Now().Add(-48 * time.Hour)}
	}
	storeAll(t, s, "stored again")
	for _, unrelated := range []string{"weft/default/notes.txt", "weft/other/" + strings.TrimPrefix(at(0), "weft/default/")} {
		service.objects[unrelated] = object{[]byte("x"), time.Now().Add(-48 * time.Hour)}
	}
	got, err := s.Sweep(context.Background(), 24*time.Hour)
	if err != nil || got.Removed != 1 || got.Kept != 2 || got.Freed == 0 || got.Held == 0 || len(service.objects) != 4 {
		t.Errorf("Sweep() = %+v, %v; %d objects left", got, err, len(service.objects))
	}
}

func TestUnusableBucket(t *testing.T) {
	_, settings := newS3(t)
	for name, tc := range map[string]struct {
		change func(*Settings)
		want   string
	}{
		"missing bucket":            {func(s *Settings) { s.Bucket = "other-payloads" }, `store.bucket "other-payloads" does not exist`},
		"unknown key":               {func(s *Settings) { s.AccessKey = "AKIAother" }, "cannot be used"},
		"endpoint without a scheme": {func(s *Settings) { s.Endpoint = "minio:9000" }, "store.endpoint is not the URL"},
		"endpoint with credentials": {func(s *Settings) { s.Endpoint = "http://u:canary@127.0.0.1:1" }, "store.endpoint is not the URL"},
		"invalid name":              {func(s *Settings) { s.Bucket = "A" }, "cannot be used"},
		"folder and bucket":         {func(s *Settings) { s.Dir = t.TempDir() }, "set only one of them"},
	} {
		s := settings
		tc.change(&s)
		if _, err := Open(s); err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: error = %v", name, err)
		}
	}
}
