package llm

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"weft/activities/contract"
	"weft/activities/llm/wire"
)

// record is one recorded answer of a real service, with what another reader makes of it.
type record struct {
	ID      string            `json:"id"`
	Kind    string            `json:"kind"`
	Model   string            `json:"model"`
	Stream  bool              `json:"stream"`
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
	Base64  []byte            `json:"body_base64"`
	Expect  *struct {
		Text      string `json:"text"`
		Reasoning string `json:"reasoning"`
		Refusal   string `json:"refusal"`
		Calls     []struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"calls"`
		Stop  *string `json:"stop"`
		Usage struct {
			Input      int `json:"input_tokens"`
			Output     int `json:"output_tokens"`
			Cached     int `json:"cached_tokens"`
			CacheWrite int `json:"cache_write_tokens"`
			Reasoning  int `json:"reasoning_tokens"`
		} `json:"usage"`
	} `json:"expect"`
}

// recorded reads the records of a protocol, in a folder beside the project, or skips the test.
func recorded(t *testing.T, protocol string) []record {
	t.Helper()
	name := filepath.Join("shared", "corpus", "answers", "answers-"+protocol+".jsonl.gz")
	f, err := os.Open(filepath.Join("..", "..", "..", name))
	if err != nil {
		t.Skipf("../%s is not there", name)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var out []record
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	if lines.Err() != nil || len(out) == 0 {
		t.Fatalf("%d records, %v", len(out), lines.Err())
	}
	return out
}

// bytes is the body as it was served.
func (r *record) bytes() []byte {
	var text string
	switch {
	case r.Base64 != nil:
		return r.Base64
	case json.Unmarshal(r.Body, &text) == nil:
		return []byte(text)
	}
	return r.Body
}

// TestRecordedAnswers reads answers of real services, each as it was recorded, and whole ones in reply to a request for a stream, too.
func TestRecordedAnswers(t *testing.T) {
	for _, protocol := range []struct{ name, kind, api string }{{"responses", "compatible", wire.APIResponses}, {"converse", "bedrock", ""}, {"cohere", "cohere", ""}} {
		t.Run(protocol.name, func(t *testing.T) {
			for _, r := range recorded(t, protocol.name) {
				for _, stream := range []bool{true, false} {
					if r.Stream && !stream {
						continue
					}
					s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
						for name, value := range r.Headers {
							w.Header().Set(name, value)
						}
						w.WriteHeader(r.Status)
						_, _ = w.Write(r.bytes())
					})
					m := modelOf(t, protocol.kind, s.URL, func(p *ProviderSettings) { p.API, p.Unary = protocol.api, !stream })
					in := hello()
					a, err := m.answer(t.Context(), &Call{Request: wire.Request{System: in.System, Messages: in.Messages, Options: Options()}})
					if diff := r.compare(a, err); diff != nil {
						t.Errorf("%s, asked for a stream: %v: %v", r.ID, stream, diff)
					}
					s.Close()
				}
			}
		})
	}
}

// compare says how an answer differs from what is expected.
func (r *record) compare(a *wire.Answer, err error) error {
	if r.Expect == nil {
		var f *contract.Failure
		if !errors.As(err, &f) || f.Class == contract.ClassUnavailable && r.Status < 500 {
			return errors.Join(errors.New("an error is expected that is the request's"), err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	e, u := r.Expect, a.Usage
	stop := a.Stop
	if stop == "stop" && len(a.Message.Calls) > 0 {
		stop = "tool_calls"
	}
	got, want := []any{a.Message.Text, a.Message.Reasoning, a.Refusal, u.Input, u.Output, u.Cached, u.CacheWrite, u.Reasoning},
		[]any{e.Text, e.Reasoning, e.Refusal, e.Usage.Input, e.Usage.Output, e.Usage.Cached, e.Usage.CacheWrite, e.Usage.Reasoning}
	if e.Stop != nil {
		got, want = append(got, stop), append(want, *e.Stop)
	}
	for _, c := range a.Message.Calls {
		got = append(got, c.Name, value([]byte(c.Arguments)))
	}
	for _, c := range e.Calls {
		want = append(want, c.Name, value(c.Arguments))
	}
	if !reflect.DeepEqual(got, want) {
		return errors.New(string(mustJSON(got)) + "\nwant " + string(mustJSON(want)))
	}
	return nil
}

func mustJSON(v any) []byte { b, _ := json.Marshal(v); return b }

// value decodes JSON with its numbers as they are written.
func value(raw []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return string(raw)
	}
	return v
}
