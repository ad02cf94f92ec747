package transcript

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
)

// newTranscript returns a transcript whose thread t has messages of the specified sizes.
func newTranscript(sizes ...int) *Transcript {
	s := New("wf", "run")
	t := s.Open("t")
	for i, n := range sizes {
		raw := json.RawMessage(fmt.Sprintf(`"%d%s"`, i, strings.Repeat("x", n-3)))
		s.Record(t, raw)
	}
	return s
}

func TestTranscriptPages(t *testing.T) {
	const page = contract.PageBytes
	tests := map[string]struct {
		sizes []int
		q     contract.TranscriptQuery
		// want is the first digits of the messages; err is a part of the error.
		want, err string
	}{
		"complete thread":                          {[]int{10, 10, 10}, contract.TranscriptQuery{Thread: "t"}, "012", ""},
		"from the middle":                          {[]int{10, 10, 10}, contract.TranscriptQuery{Thread: "t", From: 1}, "12", ""},
		"up to the middle":                         {[]int{10, 10, 10}, contract.TranscriptQuery{Thread: "t", Upto: 2}, "01", ""},
		"one message":                              {[]int{10, 10, 10}, contract.TranscriptQuery{Thread: "t", From: 1, Upto: 2}, "1", ""},
		"end of the thread":                        {[]int{10, 10, 10}, contract.TranscriptQuery{Thread: "t", From: 3}, "", ""},
		"page filled exactly":                      {[]int{page / 2, page / 2, 10}, contract.TranscriptQuery{Thread: "t"}, "01", ""},
		"page exceeded by one byte":                {[]int{page / 2, page/2 + 1, 10}, contract.TranscriptQuery{Thread: "t"}, "0", ""},
		"message larger than a page":               {[]int{page + 5, 10}, contract.TranscriptQuery{Thread: "t"}, "0", ""},
		"message larger than a page, after others": {[]int{10, page + 5, 10}, contract.TranscriptQuery{Thread: "t", From: 1}, "1", ""},
		"unknown thread":                           {[]int{10}, contract.TranscriptQuery{Thread: "u"}, "", `this run has no thread "u"`},
		"range after the end":                      {[]int{10}, contract.TranscriptQuery{Thread: "t", From: 2}, "", "this run has no messages 2 to 1"},
		"range that exceeds the end":               {[]int{10}, contract.TranscriptQuery{Thread: "t", Upto: 2}, "", "this run has no messages 0 to 2"},
		"reversed range":                           {[]int{10, 10, 10}, contract.TranscriptQuery{Thread: "t", From: 2, Upto: 1}, "", "this run has no messages 2 to 1"},
		"negative start":                           {[]int{10}, contract.TranscriptQuery{Thread: "t", From: -1}, "", "this run has no messages -1 to 1"},
		"empty thread":                             {nil, contract.TranscriptQuery{Thread: "t"}, "", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := newTranscript(tc.sizes...).Page(tc.q)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error is %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var digits strings.Builder
			for _, m := range got.Messages {
				digits.WriteByte(m[1])
			}
			if digits.String() != tc.want || got.Total != len(tc.sizes) || got.Messages == nil {
				t.Errorf("messages %q of %d, want %q", digits.String(), got.Total, tc.want)
			}
			if n, _ := contract.Size(got); n > contract.MaxPayload && len(got.Messages) > 1 {
				t.Errorf("page has %d bytes", n)
			}
		})
	}
}

func TestTranscriptListsThreads(t *testing.T) {
	s := newTranscript(10, 10)
	s.Open("later")
	s.Open("a")
	page, err := s.Page(contract.TranscriptQuery{})
	if err != nil {
		t.Fatal(err)
	}
	want := []contract.ThreadInfo{{Thread: "t", Len: 2}, {Thread: "later"}, {Thread: "a"}}
	if diff := cmp.Diff(want, page.Threads); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestContentPages(t *testing.T) {
	s := New("wf", "run")
	big := json.RawMessage(`"` + strings.Repeat("é", contract.PageBytes) + `"`) // two pages and two bytes
	ref := s.Keep(big)
	if ref.Workflow != "wf" || ref.Run != "run" || !s.Has(ref.SHA) {
		t.Errorf("reference is %+v", ref)
	}
	var got []byte
	pages := 0
	for total := 1; len(got) < total; pages++ {
		page, err := s.ContentPage(contract.ContentQuery{SHA: ref.SHA, Offset: len(got)})
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := contract.Size(page); n > contract.MaxPayload || len(page.Data) == 0 {
			t.Fatalf("page of %d bytes is encoded as %d", len(page.Data), n)
		}
		got, total = append(got, page.Data...), page.Total
	}
	if string(got) != string(big) || pages != 3 {
		t.Errorf("%d bytes in %d pages", len(got), pages)
	}
	page, err := s.ContentPage(contract.ContentQuery{SHA: ref.SHA, Offset: len(big)})
	if err != nil || len(page.Data) != 0 || page.Total != len(big) {
		t.Errorf("page at the end: %+v, %v", page, err)
	}
	for _, q := range []contract.ContentQuery{{SHA: "x"}, {SHA: ref.SHA, Offset: -1}, {SHA: ref.SHA, Offset: len(big) + 1}} {
		if _, err := s.ContentPage(q); err == nil || !strings.Contains(err.Error(), "this run has no content") {
			t.Errorf("%+v: %v", q, err)
		}
	}
	got[0] = 'X'
	if s.Content[ref.SHA][0] != '"' {
		t.Error("page shares memory with the stored content")
	}
}

func TestPending(t *testing.T) {
	s := New("wf", "run")
	th := s.Open("t")
	first := contract.Message{Role: contract.RoleUser, Text: "first"}
	s.Write(th, &first)
	head, tail := th.Pending()
	if head.Len != 0 || head.Hash != "" || head.Thread != "t" || len(tail) != 1 || len(tail[0].Message) == 0 {
		t.Fatalf("before the first call: %+v, %+v", head, tail)
	}
	answer := json.RawMessage(`{"role":"assistant"}`)
	s.Record(th, answer)
	th.Mark()
	if _, tail := th.Pending(); len(tail) != 0 {
		t.Errorf("after a call: %+v", tail)
	}
	tool := json.RawMessage(`{"role":"tool"}`)
	s.Record(th, tool)
	s.Write(th, &first)
	head, tail = th.Pending()
	hash := contract.Chain(contract.Chain("", tail[1].SHA), contract.SHA(answer))
	if head.Len != 2 || head.Hash != hash || len(tail) != 2 {
		t.Fatalf("before the second call: %+v, %+v", head, tail)
	}
	// Messages of activities are sent as hashes, those of the workflow completely.
	if tail[0].Message != nil || tail[0].SHA != contract.SHA(tool) || contract.SHA(tail[1].Message) != tail[1].SHA {
		t.Errorf("tail is %+v", tail)
	}
}

// TestLongMessagesInPages checks that messages that exceed a payload are replaced by references.
func TestLongMessagesInPages(t *testing.T) {
	s := New("wf", "run")
	th := s.Open("t")
	for _, n := range []int{10, contract.MaxPayload - contract.Envelope - 100, contract.MaxPayload + 1, 10} {
		s.Write(th, &contract.Message{Role: contract.RoleUser, Text: strings.Repeat("x", n)})
	}
	var got []json.RawMessage
	long := 0
	for total := 1; len(got) < total; {
		page, err := s.Page(contract.TranscriptQuery{Thread: "t", From: len(got)})
		if err != nil || len(page.Messages) == 0 {
			t.Fatal(err)
		}
		if n, _ := contract.Size(page); n > contract.MaxPayload {
			t.Errorf("page has %d bytes", n)
		}
		for _, l := range page.Long {
			long++
			entry := s.threads.named["t"].Entries[len(got)+l.Index]
			m, err := contract.DecodeMessage(page.Messages[l.Index])
			if err != nil || l.SHA != entry.Sha || l.Bytes != len(entry.Raw) || len(m.Parts) != 1 || m.Parts[0].Ref.SHA != l.SHA || m.Parts[0].Ref.Run != "run" {
				t.Errorf("long message %+v, shown as %s: %v", l, page.Messages[l.Index], err)
			}
		}
		got, total = append(got, page.Messages...), page.Total
	}
	if len(got) != 4 || long != 1 {
		t.Errorf("%d messages, %d of them long", len(got), long)
	}
}

// TestPendingLimit checks that a call includes messages of the workflow up to the size of a page, and the hashes of the others.
func TestPendingLimit(t *testing.T) {
	s := New("wf", "run")
	th := s.Open("a#1")
	for _, n := range []int{contract.PageBytes / 2, contract.PageBytes, 10} {
		s.Write(th, &contract.Message{Role: contract.RoleTool, Text: strings.Repeat("x", n)})
	}
	_, tail := th.Pending()
	if len(tail) != 3 || tail[0].Message == nil || tail[1].Message != nil || tail[1].SHA == "" || tail[2].Message == nil {
		t.Errorf("pending messages are %.200v", tail)
	}
}

// TestRecords checks that each message is recorded once, with its text, in records that do not exceed a payload.
func TestRecords(t *testing.T) {
	const most = contract.MaxPayload
	tests := map[string]struct {
		thread, conversation []int
		// want lists, for each record, its number of messages and that of the conversation.
		want string
	}{
		"short":                       {[]int{10, 11}, nil, "[2+0]"},
		"no messages":                 {nil, nil, "[]"},
		"with the conversation":       {[]int{10}, []int{20}, "[1+1]"},
		"larger than a page":          {[]int{contract.PageBytes + 100}, nil, "[1+0]"},
		"almost a payload":            {[]int{most - contract.Envelope - 200}, nil, "[1+0]"},
		"two with the size of a page": {[]int{contract.PageBytes, contract.PageBytes + 1, 10}, nil, "[1+0 2+0]"},
		"many":                        {[]int{10, most / 2, most / 3, most/3 - 1, most/3 + 1, most / 4}, nil, "[3+0 3+0]"},
		"thread and conversation exceed a record": {[]int{most / 2}, []int{most/2 + 1000}, "[1+0 1+0]"},
		"duplicate texts":                         {[]int{most / 2, most / 2}, []int{most / 2}, "[2+1]"},
		"characters escaped in JSON":              {[]int{-most / 7, 1 - most/7}, nil, "[1+0 1+0]"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s, of := New("wf", "run"), contract.ThreadRecord{Execution: "a#1"}
			c := NewConversation(s)
			th, conversation := s.Open("a#1"), c.Open()
			write := func(to *Thread, sizes []int) {
				for _, n := range sizes {
					text := strings.Repeat("x", max(n, 0)) + strings.Repeat("<", max(-n, 0))
					s.Write(to, &contract.Message{Role: contract.RoleTool, Text: text})
				}
			}
			write(th, tc.thread)
			write(conversation, tc.conversation)
			out, err := c.Records(of, th, conversation)
			if err != nil {
				t.Error(err)
			}
			got, texts, next := []string{}, map[string]int{}, map[string]int{}
			for _, one := range out {
				aside := contract.ThreadRecord{}
				if one.Aside != nil {
					aside = *one.Aside
				}
				got = append(got, fmt.Sprintf("%d+%d", len(one.Messages), len(aside.Messages)))
				for _, part := range []contract.ThreadRecord{*one, aside} {
					if part.From != next[part.Thread] {
						t.Errorf("record starts at %d, the previous one ended at %d", part.From, next[part.Thread])
					}
					next[part.Thread] += len(part.Messages)
					for _, m := range part.Messages {
						if len(m.Message) > 0 {
							texts[m.SHA]++
						} else if texts[m.SHA] == 0 {
							t.Error("message without its text")
						}
					}
				}
				if n, _ := contract.Size(one); n > most {
					t.Errorf("record has %d bytes", n)
				}
			}
			if fmt.Sprint(got) != tc.want || next["a#1"] != len(tc.thread) || next[conversation.Name] != len(tc.conversation) {
				t.Errorf("records are %v, want %s", got, tc.want)
			}
			again, err := c.Records(of, th, conversation)
			if err != nil || len(again) > 0 {
				t.Errorf("second call of Records: %v, %v", again, err)
			}
		})
	}
}
