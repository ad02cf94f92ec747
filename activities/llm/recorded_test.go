package llm

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/activities/llm/wire"
)

// record is a recorded answer of a real service, with the result of another parser.
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
		Stop       *string         `json:"stop"`
		Error      json.RawMessage `json:"error"`
		Unreadable bool            `json:"unreadable"`
		Usage      struct {
			Input      int `json:"input_tokens"`
			Output     int `json:"output_tokens"`
			Cached     int `json:"cached_tokens"`
			CacheWrite int `json:"cache_write_tokens"`
			Reasoning  int `json:"reasoning_tokens"`
		} `json:"usage"`
	} `json:"expect"`
}

// corpus returns the path of a file of recorded answers outside the repository.
func corpus(name string) string {
	return filepath.Join("..", "..", "..", "shared", "corpus", "answers", name)
}

// readRecords reads a file of records. It skips the test if a file outside the repository is missing.
func readRecords(t *testing.T, name string) []record {
	t.Helper()
	f, err := os.Open(name)
	if err != nil && strings.HasSuffix(name, ".gz") {
		t.Skipf("no recorded answers: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var z io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if z, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
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

// bytes returns the body as it was received.
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

// protocols lists the protocols of the records and how they are called. An empty kind means that of the record.
var protocols = []struct{ name, kind, api string }{
	{"chat", "", wire.APIChat}, {"claude", "anthropic", ""}, {"gemini", "google", ""},
	{"responses", "compatible", wire.APIResponses}, {"converse", "bedrock", ""}, {"cohere", "cohere", ""},
}

// TestRecordedAnswers checks that recorded and handwritten answers are parsed as by another parser, except as listed in README.md.
// Unary answers are also tried in response to a request for a stream.
func TestRecordedAnswers(t *testing.T) {
	rows := exceptions(t)
	unused := maps.Clone(rows)
	for _, protocol := range protocols {
		for _, name := range []string{filepath.Join("testdata", "answers", protocol.name+".jsonl"), corpus("answers-" + protocol.name + ".jsonl.gz")} {
			t.Run(protocol.name+"/"+filepath.Base(name), func(t *testing.T) {
				for _, r := range readRecords(t, name) {
					for _, stream := range []bool{true, false} {
						if r.Stream && !stream {
							continue
						}
						a, err := r.replay(t, cmp.Or(protocol.kind, r.Kind), protocol.api, stream)
						for _, diff := range r.compare(a, err) {
							delete(unused, diff)
							if !rows[diff] {
								t.Errorf("%s, stream %v: %s: other parser %s, got %s (%v)", r.ID, stream, diff.what, diff.there, diff.here, err)
							}
						}
					}
				}
			})
		}
	}
	for row := range unused {
		t.Errorf("unused exception in README.md: %+v", row)
	}
}

// replay calls a fake server that responds with the record.
func (r *record) replay(t *testing.T, kind, api string, stream bool) (*Answer, error) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range r.Headers {
			w.Header().Set(name, value)
		}
		w.WriteHeader(cmp.Or(r.Status, http.StatusOK))
		_, _ = w.Write(r.bytes())
	})
	defer s.Close()
	m := openModel(t, kind, s.URL, func(p *ProviderSettings) { p.API, p.Unary = api, !stream })
	in := hello()
	a, err := m.answer(t.Context(), &Call{Request: wire.Request{System: in.System, Messages: in.Messages, Options: Options()}})
	if err != nil {
		return nil, err
	}
	return &Answer{Answer: *a}, nil
}

// exception is an allowed difference: the other parser's result for a part of an answer, and ours.
type exception struct{ what, there, here string }

// exceptions reads the table of exceptions in README.md. Its last column is the reason.
func exceptions(t *testing.T) map[exception]bool {
	t.Helper()
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(raw), "<!-- exceptions -->\n")
	table, _, found := strings.Cut(table, "<!-- /exceptions -->")
	out := map[exception]bool{}
	for _, line := range strings.Split(strings.TrimSpace(table), "\n")[2:] {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 4 || cells[3] == "" {
			t.Fatalf("exception without a reason: %s", line)
		}
		out[exception{cells[0], strings.Trim(cells[1], "`"), strings.Trim(cells[2], "`")}] = true
	}
	if !found || len(out) == 0 {
		t.Fatal("README.md has no table of exceptions")
	}
	return out
}

// compare returns the differences between an answer and the expected one.
func (r *record) compare(a *Answer, err error) []exception {
	var f *contract.Failure
	e := r.Expect
	failed := errors.As(err, &f)
	switch {
	case e == nil: // the status code is an error
		status := cmp.Or(r.Status, http.StatusOK)
		if !failed {
			return []exception{{"an error", strconv.Itoa(status), "an answer"}}
		}
		if f.Class == contract.ClassUnavailable && status < 500 {
			return []exception{{"an error", strconv.Itoa(status), f.Class}}
		}
		return nil
	case e.Unreadable || isError(e.Error) && e.Stop == nil:
		if !failed {
			return []exception{{"an error", "an error", "an answer"}}
		}
		return nil
	case failed:
		return []exception{{"an answer", value(mustJSON(e.Stop)).(string), f.Class}}
	case err != nil:
		return []exception{{"an answer", "an answer", err.Error()}}
	}
	var out []exception
	differ := func(what string, there, here any) {
		if !reflect.DeepEqual(there, here) {
			out = append(out, exception{what, fmt.Sprint(there), fmt.Sprint(here)})
		}
	}
	var calls, want []any
	for _, c := range a.Message.Calls {
		calls = append(calls, c.Name, value([]byte(c.Arguments)))
	}
	for _, c := range e.Calls {
		want = append(want, c.Name, value(c.Arguments))
	}
	differ("the text", e.Text, a.Message.Text)
	differ("the reasoning", e.Reasoning, a.Message.Reasoning)
	if a.Refusal == "" || e.Refusal != "" || a.Stop != "content_filter" {
		differ("the refusal", e.Refusal, a.Refusal)
	}
	differ("the calls", want, calls)
	differ("the usage", contract.Usage{Calls: 1, Input: e.Usage.Input, Output: e.Usage.Output, Cached: e.Usage.Cached, CacheWrite: e.Usage.CacheWrite, Reasoning: e.Usage.Reasoning}, a.Usage)
	if e.Stop != nil {
		stop := a.Stop
		if stop == "stop" && len(calls) > 0 {
			stop = "tool_calls"
		}
		differ("the stop reason", *e.Stop, stop)
	}
	return out
}

// isError reports whether a record's answer contains an error.
func isError(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

func mustJSON(v any) []byte { b, _ := json.Marshal(v); return b }

// value decodes JSON and preserves the digits of numbers.
func value(raw []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return string(raw)
	}
	return v
}
