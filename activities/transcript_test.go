package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
)

// fakeRun is a [Source] with one run: threads, and content by hash, returned in pages. It
// records its queries.
type fakeRun struct {
	threads map[string][]json.RawMessage
	content map[string][]byte
	// perPage is the maximum number of messages, pageBytes of bytes, per answer.
	perPage, pageBytes int
	// mutate changes an answer before it is returned.
	mutate func(*contract.TranscriptPage)
	fail   error
	delay  time.Duration

	mu      sync.Mutex
	queries []string
}

func newFakeRun() *fakeRun {
	return &fakeRun{threads: map[string][]json.RawMessage{}, content: map[string][]byte{}, perPage: 100, pageBytes: contract.PageBytes}
}

func (r *fakeRun) note(format string, args ...any) {
	time.Sleep(r.delay)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queries = append(r.queries, fmt.Sprintf(format, args...))
}

func (r *fakeRun) Transcript(_ context.Context, workflow, run string, q contract.TranscriptQuery) (*contract.TranscriptPage, error) {
	r.note("%s/%s %s %d-%d", workflow, run, q.Thread, q.From, q.Upto)
	if r.fail != nil {
		return nil, r.fail
	}
	thread := r.threads[q.Thread]
	page := &contract.TranscriptPage{Messages: slices.Clone(thread[q.From:min(q.Upto, q.From+r.perPage)]), Total: len(thread)}
	if r.mutate != nil {
		r.mutate(page)
	}
	return page, nil
}

func (r *fakeRun) Content(_ context.Context, workflow, run string, q contract.ContentQuery) (*contract.ContentPage, error) {
	r.note("%s/%s content@%d", workflow, run, q.Offset)
	raw, ok := r.content[q.SHA]
	if r.fail != nil || !ok {
		return nil, cmpOr(r.fail, &contract.Failure{Class: contract.ClassTranscriptLost, Text: "gone"})
	}
	return &contract.ContentPage{Data: raw[q.Offset:min(len(raw), q.Offset+r.pageBytes)], Total: len(raw)}, nil
}

func cmpOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// keep stores a message that parts can refer to.
func (r *fakeRun) keep(t *testing.T, m contract.Message) contract.ContentRef {
	t.Helper()
	raw := encode(t, m)
	r.content[contract.SHA(raw)] = raw
	return contract.ContentRef{Workflow: "wf", Run: "run", SHA: contract.SHA(raw)}
}

func encode(t *testing.T, m contract.Message) json.RawMessage {
	t.Helper()
	raw, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// say appends n messages, alternately of user and assistant, to a thread.
func (r *fakeRun) say(t *testing.T, thread string, n int) []string {
	t.Helper()
	var texts []string
	for i := range n {
		role := []string{contract.RoleUser, contract.RoleAssistant}[i%2]
		text := fmt.Sprintf("%s %d", thread, i+1)
		r.threads[thread] = append(r.threads[thread], encode(t, contract.Message{Role: role, Text: text}))
		texts = append(texts, text)
	}
	return texts
}

// call returns the input of a model call with a thread: base messages that an earlier call
// had, then the others. The input itself contains the last own of those.
func (r *fakeRun) call(thread string, base, own int) *contract.ModelInput {
	in := &contract.ModelInput{Base: contract.Head{Workflow: "wf", Run: "run", Thread: thread, Len: base}}
	all := r.threads[thread]
	for i, raw := range all {
		sha := contract.SHA(raw)
		if i < base {
			in.Base.Hash = contract.Chain(in.Base.Hash, sha)
			continue
		}
		e := contract.TailEntry{SHA: sha}
		if i >= len(all)-own {
			e.Message = raw
		}
		in.Tail = append(in.Tail, e)
	}
	return in
}

func texts(list []contract.Message) []string {
	var out []string
	for _, m := range list {
		out = append(out, m.Text)
	}
	return out
}

func TestTranscriptFetchesOnlyMissing(t *testing.T) {
	tests := map[string]struct {
		perPage int
		// warm fills the worker's cache before the call.
		warm      func(a *Activities, r *fakeRun)
		base, own int
		queries   []string
	}{
		"the input has all messages":    {perPage: 9, base: 0, own: 7, queries: nil},
		"cold worker, one query":        {perPage: 9, base: 6, own: 1, queries: []string{"wf/run t 0-6"}},
		"cold worker, several pages":    {perPage: 2, base: 6, own: 1, queries: []string{"wf/run t 0-6", "wf/run t 2-6", "wf/run t 4-6"}},
		"an answer from another worker": {perPage: 9, base: 4, own: 1, queries: []string{"wf/run t 0-6"}},
		"warm worker, no query": {perPage: 9, base: 6, own: 1,
			warm: func(a *Activities, r *fakeRun) { know(a, r.threads["t"], 6) }},
		"the beginning is cached": {perPage: 9, base: 5, own: 1,
			warm:    func(a *Activities, r *fakeRun) { know(a, r.threads["t"], 5) },
			queries: []string{"wf/run t 5-6"}},
		"the end is cached": {perPage: 9, base: 6, own: 1,
			warm: func(a *Activities, r *fakeRun) {
				hash := ""
				for i, raw := range r.threads["t"][:6] {
					if i >= 4 {
						a.cache.keep(contract.SHA(raw), raw)
						a.cache.link(hash, contract.SHA(raw))
					}
					hash = contract.Chain(hash, contract.SHA(raw))
				}
			},
			queries: []string{"wf/run t 0-4"}},
		"one message was evicted": {perPage: 9, base: 6, own: 1,
			warm: func(a *Activities, r *fakeRun) {
				know(a, r.threads["t"], 6)
				key := "c" + contract.SHA(r.threads["t"][2])
				a.cache.order.Remove(a.cache.items[key])
				delete(a.cache.items, key)
			},
			queries: []string{"wf/run t 2-3"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := newFakeRun()
			r.perPage = tc.perPage
			want := r.say(t, "t", 7)
			a := New(Deps{Source: r})
			if tc.warm != nil {
				tc.warm(a, r)
			}
			in := r.call("t", tc.base, tc.own)
			got, err := a.transcript(t.Context(), in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, texts(got)); diff != "" {
				t.Errorf("texts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.queries, r.queries); diff != "" {
				t.Errorf("queries (-want +got):\n%s", diff)
			}
			r.queries = nil
			if _, err := a.transcript(t.Context(), r.call("t", 7, 0), nil); err != nil || r.queries != nil {
				t.Errorf("the next call sends queries %v: %v", r.queries, err)
			}
		})
	}
}

// know adds the first n messages of a thread to the worker's cache.
func know(a *Activities, thread []json.RawMessage, n int) {
	hash := ""
	for _, raw := range thread[:n] {
		a.cache.keep(contract.SHA(raw), raw)
		hash = a.cache.link(hash, contract.SHA(raw))
	}
}

// TestLongMessages checks that a message too long for one answer is fetched in pieces.
func TestLongMessages(t *testing.T) {
	r := newFakeRun()
	want := r.say(t, "t", 5)
	r.mutate = func(p *contract.TranscriptPage) {
		sha := contract.SHA(p.Messages[2])
		r.content[sha] = p.Messages[2]
		p.Long = []contract.LongMessage{{Index: 2, SHA: sha, Bytes: len(p.Messages[2])}}
		p.Messages[2] = json.RawMessage(`{"role":"user","parts":[{"ref":{"sha256":"` + sha + `"}}]}`)
	}
	got, err := New(Deps{Source: r}).transcript(t.Context(), r.call("t", 4, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, texts(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestSmallCacheIsSlowNotWrong(t *testing.T) {
	r := newFakeRun()
	r.perPage = 3
	want := r.say(t, "t", 20)
	a := New(Deps{Source: r, CacheBytes: 1})
	for range 2 {
		got, err := a.transcript(t.Context(), r.call("t", 18, 1), nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, texts(got)); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	}
}

func TestConcurrentCallsOfOneRunFetchOnce(t *testing.T) {
	r := newFakeRun()
	r.delay = 5 * time.Millisecond
	want := r.say(t, "t", 9)
	ref := r.keep(t, contract.Message{Role: contract.RoleUser, Text: "input"})
	a := New(Deps{Source: r})
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			got, err := a.transcript(t.Context(), r.call("t", 8, 1), nil)
			if err != nil || !slices.Equal(texts(got), want) {
				t.Errorf("%v, %v", texts(got), err)
			}
			if text, err := a.text(t.Context(), ref, nil); err != nil || text != "input" {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
	all.Wait()
	slices.Sort(r.queries)
	if diff := cmp.Diff([]string{"wf/run content@0", "wf/run t 0-8"}, r.queries); diff != "" {
		t.Errorf("queries (-want +got):\n%s", diff)
	}
}

func TestDamagedTranscripts(t *testing.T) {
	tests := map[string]struct {
		mutate func(p *contract.TranscriptPage)
		set    func(in *contract.ModelInput)
		names  string
	}{
		"another message in the base": {
			mutate: func(p *contract.TranscriptPage) {
				p.Messages[1] = json.RawMessage(`{"role":"user","text":"forged"}`)
			},
			names: `thread "t" of run run`},
		"another message in the tail": {
			mutate: func(p *contract.TranscriptPage) {
				p.Messages[5] = json.RawMessage(`{"role":"user","text":"forged"}`)
			},
			names: `message 6 of thread "t"`},
		"a long message that is not on the page": {
			mutate: func(p *contract.TranscriptPage) { p.Long = []contract.LongMessage{{Index: len(p.Messages)}} },
			names:  `thread "t" of run run`},
		"an empty page":                 {mutate: func(p *contract.TranscriptPage) { p.Messages = nil }, names: `thread "t" of run run`},
		"a page with too many messages": {mutate: func(p *contract.TranscriptPage) { p.Messages = append(p.Messages, p.Messages...) }, names: `thread "t" of run run`},
		"another hash of the base":      {set: func(in *contract.ModelInput) { in.Base.Hash = contract.SHA(nil) }, names: `thread "t" of run run`},
		"a message of the input with another hash": {
			set:   func(in *contract.ModelInput) { in.Tail[len(in.Tail)-1].Message = json.RawMessage(`{"role":"user"}`) },
			names: "a message of the call's input"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := newFakeRun()
			r.say(t, "t", 7)
			r.mutate = tc.mutate
			in := r.call("t", 5, 1)
			if tc.set != nil {
				tc.set(in)
			}
			_, err := New(Deps{Source: r}).transcript(t.Context(), in, nil)
			lostTranscript(t, err, tc.names)
		})
	}
}

// lostTranscript checks that err reports content that does not match its hash.
func lostTranscript(t *testing.T, err error, names string) {
	t.Helper()
	f := contract.FailureOf(err)
	if f == nil || f.Class != contract.ClassTranscriptLost || contract.Retryable(f.Class) {
		t.Fatalf("failure is %+v", f)
	}
	if !strings.Contains(f.Text, names) || f.Remedy == "" {
		t.Errorf("text is %q, remedy %q; want %q", f.Text, f.Remedy, names)
	}
}

func TestSourceErrorIsReturned(t *testing.T) {
	r := newFakeRun()
	r.say(t, "t", 3)
	r.fail = errors.New("no route to host")
	a := New(Deps{Source: r})
	if _, err := a.transcript(t.Context(), r.call("t", 2, 1), nil); !errors.Is(err, r.fail) {
		t.Errorf("transcript: %v", err)
	}
	if _, err := a.content(t.Context(), contract.ContentRef{SHA: "x"}); !errors.Is(err, r.fail) {
		t.Errorf("content: %v", err)
	}
	r.fail = nil
	if _, err := a.transcript(t.Context(), r.call("t", 2, 1), nil); err != nil {
		t.Errorf("once the run answers queries: %v", err)
	}
}

func TestWaitForAnotherFetchIsCancelled(t *testing.T) {
	r := newFakeRun()
	r.say(t, "t", 3)
	a := New(Deps{Source: r})
	free, err := a.locks.acquire(t.Context(), "wf\x00run")
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if _, err := a.transcript(ctx, r.call("t", 2, 1), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("transcript: %v", err)
	}
	if _, err := a.content(ctx, contract.ContentRef{Workflow: "wf", Run: "run", SHA: "x"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("content: %v", err)
	}
}

func TestContentIsFetchedInPages(t *testing.T) {
	r := newFakeRun()
	big := []byte(strings.Repeat("0123456789", contract.PageBytes/4)) // 2.5 pages
	sha := contract.SHA(big)
	r.content[sha] = big
	a := New(Deps{Source: r})
	ref := contract.ContentRef{Workflow: "wf", Run: "run", SHA: sha}
	for range 2 {
		got, err := a.content(t.Context(), ref)
		if err != nil || string(got) != string(big) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	want := []string{"wf/run content@0", fmt.Sprintf("wf/run content@%d", contract.PageBytes), fmt.Sprintf("wf/run content@%d", 2*contract.PageBytes)}
	if diff := cmp.Diff(want, r.queries); diff != "" {
		t.Errorf("queries (-want +got):\n%s", diff)
	}
}

func TestDamagedContent(t *testing.T) {
	r := newFakeRun()
	r.content["abc"] = []byte("other")
	a := New(Deps{Source: r})
	_, err := a.content(t.Context(), contract.ContentRef{Workflow: "wf", Run: "run", SHA: "abc"})
	lostTranscript(t, err, "content abc of run run")
	if _, ok := a.cache.content("abc"); ok {
		t.Error("damaged content was cached")
	}
	r.content[contract.SHA(nil)] = nil // empty content ends the loop too
	if raw, err := a.content(t.Context(), contract.ContentRef{SHA: contract.SHA(nil)}); err != nil || len(raw) != 0 {
		t.Errorf("empty content: %q, %v", raw, err)
	}
}

func TestPartsAreJoined(t *testing.T) {
	r := newFakeRun()
	input := r.keep(t, contract.Message{Role: contract.RoleUser, Text: "the input"})
	output := r.keep(t, contract.Message{Role: contract.RoleAssistant, Text: "said <before>"})
	r.threads["t"] = []json.RawMessage{encode(t, contract.Message{Role: contract.RoleUser, Parts: []contract.Part{
		{Ref: &input}, {Text: "\n<o>\n"}, {Ref: &output}, {Text: "\n</o>"},
	}})}
	a := New(Deps{Source: r})
	for range 2 { // the second time from the cache, which must not have been changed
		got, err := a.transcript(t.Context(), r.call("t", 0, 1), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := []contract.Message{{Role: contract.RoleUser, Text: "the input\n<o>\nsaid <before>\n</o>"}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	}
	if len(r.queries) != 2 {
		t.Errorf("queries = %v", r.queries)
	}
	gone := contract.ContentRef{SHA: "gone"}
	r.threads["u"] = []json.RawMessage{encode(t, contract.Message{Role: contract.RoleUser, Parts: []contract.Part{{Ref: &gone}}})}
	if _, err := a.transcript(t.Context(), r.call("u", 0, 1), nil); contract.FailureOf(err).Class != contract.ClassTranscriptLost {
		t.Errorf("a missing part: %v", err)
	}
}

func TestArgumentsOfACall(t *testing.T) {
	r := newFakeRun()
	ref := r.keep(t, contract.Message{Role: contract.RoleAssistant, Calls: []contract.ToolCall{
		{ID: "1", Name: "a", Arguments: `{"n":1}`}, {ID: "2", Name: "b", Arguments: `{"n":2}`},
	}})
	a := New(Deps{Source: r})
	if raw, err := a.argumentsOf(t.Context(), ref, "2"); err != nil || string(raw) != `{"n":2}` {
		t.Errorf("%s, %v", raw, err)
	}
	_, err := a.argumentsOf(t.Context(), ref, "3")
	lostTranscript(t, err, `the message with call "3"`)
}

// TestFetchResult checks that an offloaded result is fetched in pages and not cached.
func TestFetchResult(t *testing.T) {
	r := newFakeRun()
	r.pageBytes = 10
	raw := []byte(`{"status":"completed","result_text":"long"}`)
	ref := contract.ContentRef{Workflow: "wf", Run: "run", SHA: contract.SHA(raw)}
	r.content[ref.SHA] = raw
	a := New(Deps{Source: r})
	got, err := a.fetchResult(t.Context(), &contract.HeldResult{ContentRef: ref, Bytes: len(raw)}, nil)
	if err != nil || string(got) != string(raw) {
		t.Errorf("fetched %s, %v", got, err)
	}
	if _, ok := a.cache.content(ref.SHA); ok {
		t.Error("the result is in the cache")
	}
	got, err = a.fetchResult(t.Context(), &contract.HeldResult{ContentRef: ref, Bytes: contract.MaxPayload + 1, Offset: 10}, nil)
	var part contract.ContentPage
	if err != nil || json.Unmarshal(got, &part) != nil || string(part.Data) != string(raw[10:20]) || part.Total != len(raw) {
		t.Errorf("a part is %s, %v", got, err)
	}
}
