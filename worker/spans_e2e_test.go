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

// receiver is a trace collector.
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
			t.Errorf("%s is not an export of spans: %v", req.URL, err)
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

// attributeText formats the value of a span's attribute.
func attributeText(v *common.AnyValue) string {
	switch {
	case v.GetArrayValue() != nil:
		var out []string
		for _, e := range v.GetArrayValue().GetValues() {
			out = append(out, attributeText(e))
		}
		return strings.Join(out, ",")
	case v.GetStringValue() != "":
		return v.GetStringValue()
	}
	return fmt.Sprint(v.GetIntValue())
}

// traceOf returns the spans of a workflow's trace.
func (r *receiver) traceOf(workflow string) []*trace.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	var id []byte
	for _, s := range r.spans {
		for _, a := range s.GetAttributes() {
			if a.GetKey() == "temporalWorkflowID" && attributeText(a.GetValue()) == workflow {
				id = s.GetTraceId()
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(r.spans), func(s *trace.Span) bool { return !slices.Equal(s.GetTraceId(), id) })
}

// tree formats spans as a tree, children in the order of their start times, with the attributes
// that are the same in every test run.
func tree(spans []*trace.Span) string {
	slices.SortFunc(spans, func(a, b *trace.Span) int { return int(a.GetStartTimeUnixNano()) - int(b.GetStartTimeUnixNano()) })
	var b strings.Builder
	var walk func(parent, indent string)
	walk = func(parent, indent string) {
		for _, s := range spans {
			if hex.EncodeToString(s.GetParentSpanId()) != parent {
				continue
			}
			var attrs []string
			for _, a := range s.GetAttributes() {
				if a.GetKey() != "temporalRunID" {
					attrs = append(attrs, a.GetKey()+"="+attributeText(a.GetValue()))
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

// check compares the spans with those expected of a run with two agents, where the first model call
// was retried.
func (r *receiver) check(t *testing.T) {
	t.Helper()
	spans := r.traceOf("pair-1")
	const chat = "gen_ai.operation.name=chat gen_ai.provider.name=script gen_ai.request.model=script "
	const answered = "gen_ai.response.finish_reasons=stop gen_ai.response.model=script gen_ai.usage.input_tokens=%d gen_ai.usage.output_tokens=%d weft.kind=agent]\n"
	const run = " temporalWorkflowID=pair-1"
	node := func(id, kind string, step int) string {
		return fmt.Sprintf("  node %s [weft.execution=%s#%d weft.node.kind=%s weft.node=%s]\n", id, id, step, kind, id)
	}
	want := "invoke_workflow Pair [gen_ai.operation.name=invoke_workflow gen_ai.workflow.name=Pair" + run + "]\n" +
		node("first", "agent", 1) +
		"    CallModel [error.type=rate_limited temporalActivityID=first#1/model/1 temporalAttempt=1" + run + " weft.node=first]\n" +
		"      chat script [error.type=rate_limited gen_ai.agent.name=first gen_ai.conversation.id=pair-1/first#1 " + chat + "weft.kind=agent]\n" +
		"    CallModel [temporalActivityID=first#1/model/1 temporalAttempt=2" + run + " weft.node=first]\n" +
		"      chat script [gen_ai.agent.name=first gen_ai.conversation.id=pair-1/first#1 " + chat + fmt.Sprintf(answered, 120, 15) +
		// It is executed in the workflow task in which the first node begins, at the task's time.
		"  CompileFlow [temporalActivityID=prepare temporalAttempt=1" + run + "]\n" +
		node("second", "agent", 2) +
		"    CallModel [temporalActivityID=second#2/model/1 temporalAttempt=1" + run + " weft.node=second]\n" +
		"      chat script [gen_ai.agent.name=second gen_ai.conversation.id=pair-1/second#2 " + chat + fmt.Sprintf(answered, 200, 30)
	if diff := cmp.Diff(want, tree(spans)); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	seen := map[string]bool{}
	for _, s := range spans {
		id := string(s.GetSpanId())
		if seen[id] || s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() {
			t.Errorf("span %s appears twice, or ends before it begins", s.GetName())
		}
		seen[id] = true
	}
}

// checkTool checks that the span of a tool call is a child of the attempt's, which is a child of the node's.
func (r *receiver) checkTool(t *testing.T) {
	t.Helper()
	const want = "    CallTool [temporalActivityID=only#1/tool/1.1 temporalAttempt=1 temporalWorkflowID=look weft.node=only]\n      execute_tool look [gen_ai.operation.name=execute_tool gen_ai.tool.call.id="
	got := tree(r.traceOf("look"))
	if strings.Count(got, want) != 1 || strings.Count(got, "execute_tool look [") != 1 || strings.Count(got, "gen_ai.tool.name=look gen_ai.tool.type=function]") != 1 || !strings.Contains(got, "  node only [") {
		t.Errorf("the spans are\n%s", got)
	}
}
