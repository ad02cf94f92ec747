package main

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// receiver takes spans as a collector does.
type receiver struct {
	url string

	mu    sync.Mutex
	spans []*trace.Span
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body := io.Reader(req.Body)
		if req.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(body)
			if err != nil {
				t.Error(err)
				return
			}
			body = z
		}
		raw, err := io.ReadAll(body)
		var in collector.ExportTraceServiceRequest
		if err != nil || req.URL.Path != "/v1/traces" || proto.Unmarshal(raw, &in) != nil {
			t.Errorf("%s is no export of spans: %v", req.URL, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, rs := range in.GetResourceSpans() {
			for _, ss := range rs.GetScopeSpans() {
				r.spans = append(r.spans, ss.GetSpans()...)
			}
		}
	}))
	t.Cleanup(srv.Close)
	r.url = srv.URL
	return r
}

// told is a span's attribute as text.
func told(v *common.AnyValue) string {
	switch {
	case v.GetArrayValue() != nil:
		var out []string
		for _, e := range v.GetArrayValue().GetValues() {
			out = append(out, told(e))
		}
		return strings.Join(out, ",")
	case v.GetStringValue() != "":
		return v.GetStringValue()
	}
	return fmt.Sprint(v.GetIntValue())
}

// tree renders spans as a tree, children in the order of their begin, with the attributes
// that the test's run determines.
func (r *receiver) tree() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.spans, func(a, b *trace.Span) int { return int(a.GetStartTimeUnixNano()) - int(b.GetStartTimeUnixNano()) })
	var b strings.Builder
	var walk func(parent, indent string)
	walk = func(parent, indent string) {
		for _, s := range r.spans {
			if hex.EncodeToString(s.GetParentSpanId()) != parent {
				continue
			}
			var attrs []string
			for _, a := range s.GetAttributes() {
				if a.GetKey() != "temporalRunID" {
					attrs = append(attrs, a.GetKey()+"="+told(a.GetValue()))
				}
			}
			slices.Sort(attrs)
			fmt.Fprintf(&b, "%s%s [%s]\n", indent, s.GetName(), strings.Join(attrs, " "))
			walk(hex.EncodeToString(s.GetSpanId()), indent+"  ")
		}
	}
	walk("", "")
	return b.String()
}

// check compares the spans with the run of two agents, of which the first had to be asked
// twice.
func (r *receiver) check(t *testing.T) {
	t.Helper()
	const chat = "gen_ai.operation.name=chat gen_ai.provider.name=script gen_ai.request.model=script "
	const answered = "gen_ai.response.finish_reasons=stop gen_ai.response.model=script gen_ai.usage.input_tokens=%d gen_ai.usage.output_tokens=%d weft.kind=agent]\n"
	const run = " temporalWorkflowID=pair-1"
	want := "invoke_workflow [gen_ai.operation.name=invoke_workflow" + run + "]\n" +
		"  Prepare [temporalActivityID=prepare temporalAttempt=1" + run + "]\n" +
		"  Model [error.type=rate_limited temporalActivityID=first#1/model/1 temporalAttempt=1" + run + " weft.node=first]\n" +
		"    chat script [error.type=rate_limited gen_ai.agent.name=first " + chat + "weft.kind=agent]\n" +
		"  Model [temporalActivityID=first#1/model/1 temporalAttempt=2" + run + " weft.node=first]\n" +
		"    chat script [gen_ai.agent.name=first " + chat + fmt.Sprintf(answered, 120, 15) +
		"  Model [temporalActivityID=second#2/model/1 temporalAttempt=1" + run + " weft.node=second]\n" +
		"    chat script [gen_ai.agent.name=second " + chat + fmt.Sprintf(answered, 200, 30)
	if diff := cmp.Diff(want, r.tree()); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	for _, s := range r.spans {
		if !slices.Equal(s.GetTraceId(), r.spans[0].GetTraceId()) || s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() {
			t.Errorf("span %s is of another trace, or ends before it begins", s.GetName())
		}
	}
}
