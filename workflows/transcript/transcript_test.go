package transcript

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
)

// filled is a store with a thread t of messages of given sizes.
func filled(sizes ...int) *Transcript {
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
		// want are the first digits of the messages; gone is what an error names.
		want, gone string
	}{
		"all of a small thread":     {[]int{10, 10, 10}, contract.TranscriptQuery{Thread: "t"}, "012", ""},
		"from the middle":           {[]int{10, 10, 10}, contract.TranscriptQuery{Thread: "t", From: 1}, "12", ""},
		"up to the middle":          {[]int{10, 10, 10}, contract.TranscriptQuery{Thread: "t", Upto: 2}, "01", ""},
		"one":                       {[]int{10, 10, 10}, contract.TranscriptQuery{Thread: "t", From: 1, Upto: 2}, "1", ""},
		"none, at the end":          {[]int{10, 10, 10}, contract.TranscriptQuery{Thread: "t", From: 3}, "", ""},
		"a page is as much as fits": {[]int{page / 2, page / 2, 10}, contract.TranscriptQuery{Thread: "t"}, "01", ""},
		"and one byte too many is the next page's":  {[]int{page / 2, page/2 + 1, 10}, contract.TranscriptQuery{Thread: "t"}, "0", ""},
		"a message larger than a page comes alone":  {[]int{page + 5, 10}, contract.TranscriptQuery{Thread: "t"}, "0", ""},
		"also behind others":                        {[]int{10, page + 5, 10}, contract.TranscriptQuery{Thread: "t", From: 1}, "1", ""},
		"a thread that is not there":                {[]int{10}, contract.TranscriptQuery{Thread: "u"}, "", `this run has no thread "u"`},
		"messages beyond the end":                   {[]int{10}, contract.TranscriptQuery{Thread: "t", From: 2}, "", "this run has no messages 2 to 1"},
		"messages up to beyond the end":             {[]int{10}, contract.TranscriptQuery{Thread: "t", Upto: 2}, "", "this run has no messages 0 to 2"},
		"messages the wrong way round":              {[]int{10, 10, 10}, contract.TranscriptQuery{Thread: "t", From: 2, Upto: 1}, "", "this run has no messages 2 to 1"},
		"messages before the first":                 {[]int{10}, contract.TranscriptQuery{Thread: "t", From: -1}, "", "this run has no messages -1 to 1"},
		"of an empty thread there is an empty page": {nil, contract.TranscriptQuery{Thread: "t"}, "", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := filled(tc.sizes...).Page(tc.q)
			if tc.gone != "" {
				if err == nil || !strings.Contains(err.Error(), tc.gone) {
					t.Errorf("error is %v, want %q", err, tc.gone)
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
				t.Errorf("the page is %d bytes", n)
			}
		})
	}
}

func TestTranscriptListsThreads(t *testing.T) {
	s := filled(10, 10)
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

func TestPieces(t *testing.T) {
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
			t.Fatalf("a page of %d bytes is %d on its way", len(page.Data), n)
		}
		got, total = append(got, page.Data...), page.Total
	}
	if string(got) != string(big) || pages != 3 {
		t.Errorf("%d bytes in %d pages", len(got), pages)
	}
	page, err := s.ContentPage(contract.ContentQuery{SHA: ref.SHA, Offset: len(big)})
	if err != nil || len(page.Data) != 0 || page.Total != len(big) {
		t.Errorf("at the end: %+v, %v", page, err)
	}
	for _, q := range []contract.ContentQuery{{SHA: "x"}, {SHA: ref.SHA, Offset: -1}, {SHA: ref.SHA, Offset: len(big) + 1}} {
		if _, err := s.ContentPage(q); err == nil || !strings.Contains(err.Error(), "this run has no content") {
			t.Errorf("%+v: %v", q, err)
		}
	}
	got[0] = 'X'
	if s.Content[ref.SHA][0] != '"' {
		t.Error("what was handed out is what is stored")
	}
}

func TestCallsAreSentWhatIsNew(t *testing.T) {
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
		t.Errorf("right after a call: %+v", tail)
	}
	tool := json.RawMessage(`{"role":"tool"}`)
	s.Record(th, tool)
	s.Write(th, &first)
	head, tail = th.Pending()
	hash := contract.Chain(contract.Chain("", tail[1].SHA), contract.SHA(answer))
	if head.Len != 2 || head.Hash != hash || len(tail) != 2 {
		t.Fatalf("before the second call: %+v, %+v", head, tail)
	}
	// What an activity made is named by its hash, what the workflow wrote travels.
	if tail[0].Message != nil || tail[0].SHA != contract.SHA(tool) || contract.SHA(tail[1].Message) != tail[1].SHA {
		t.Errorf("tail is %+v", tail)
	}
}

// TestAnswersOfQueriesFit asks for what is longer than an answer may be.
func TestAnswersOfQueriesFit(t *testing.T) {
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
			t.Errorf("a page is %d bytes", n)
		}
		for _, l := range page.Long {
			long++
			entry := s.threads.named["t"].Entries[len(got)+l.Index]
			m, err := contract.DecodeMessage(page.Messages[l.Index])
			if err != nil || l.SHA != entry.Sha || l.Bytes != len(entry.Raw) || len(m.Parts) != 1 || m.Parts[0].Ref.SHA != l.SHA || m.Parts[0].Ref.Run != "run" {
				t.Errorf("%+v stands for %s: %v", l, page.Messages[l.Index], err)
			}
		}
		got, total = append(got, page.Messages...), page.Total
	}
	if len(got) != 4 || long != 1 {
		t.Errorf("%d messages, %d of them long", len(got), long)
	}
}

// TestPendingIsBounded has a call carry the workflow's own messages up to a page, and name the others.
func TestPendingIsBounded(t *testing.T) {
	s := New("wf", "run")
	th := s.Open("a#1")
	for _, n := range []int{contract.PageBytes / 2, contract.PageBytes, 10} {
		s.Write(th, &contract.Message{Role: contract.RoleTool, Text: strings.Repeat("x", n)})
	}
	_, tail := th.Pending()
	if len(tail) != 3 || tail[0].Message == nil || tail[1].Message != nil || tail[1].SHA == "" || tail[2].Message == nil {
		t.Errorf("the call carries %.200v", tail)
	}
}

// TestRecordsFit writes each message into history once, with its text, in records that fit.
func TestRecordsFit(t *testing.T) {
	const most = contract.MaxPayload
	tests := map[string]struct {
		thread, conversation []int
		// want is how many messages each record has, and how many it has of the conversation beside.
		want string
	}{
		"short":                   {[]int{10, 11}, nil, "[2+0]"},
		"nothing":                 {nil, nil, "[]"},
		"with the conversation":   {[]int{10}, []int{20}, "[1+1]"},
		"more than a page":        {[]int{contract.PageBytes + 100}, nil, "[1+0]"},
		"nearly a payload":        {[]int{most - contract.Envelope - 200}, nil, "[1+0]"},
		"two of a page":           {[]int{contract.PageBytes, contract.PageBytes + 1, 10}, nil, "[1+0 2+0]"},
		"many":                    {[]int{10, most / 2, most / 3, most/3 - 1, most/3 + 1, most / 4}, nil, "[3+0 3+0]"},
		"no room for both":        {[]int{most / 2}, []int{most/2 + 1000}, "[1+0 1+0]"},
		"texts that history has":  {[]int{most / 2, most / 2}, []int{most / 2}, "[2+1]"},
		"signs that grow in JSON": {[]int{-most / 7, 1 - most/7}, nil, "[1+0 1+0]"},
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
				beside := contract.ThreadRecord{}
				if one.Aside != nil {
					beside = *one.Aside
				}
				got = append(got, fmt.Sprintf("%d+%d", len(one.Messages), len(beside.Messages)))
				for _, part := range []contract.ThreadRecord{*one, beside} {
					if part.From != next[part.Thread] {
						t.Errorf("a record begins at %d, the one before ended at %d", part.From, next[part.Thread])
					}
					next[part.Thread] += len(part.Messages)
					for _, m := range part.Messages {
						if len(m.Message) > 0 {
							texts[m.SHA]++
						} else if texts[m.SHA] == 0 {
							t.Error("a message without its text")
						}
					}
				}
				if n, _ := contract.Size(one); n > most {
					t.Errorf("a record is %d bytes", n)
				}
			}
			if fmt.Sprint(got) != tc.want || next["a#1"] != len(tc.thread) || next[conversation.Name] != len(tc.conversation) {
				t.Errorf("records of %v, want %s", got, tc.want)
			}
			again, err := c.Records(of, th, conversation)
			if err != nil || len(again) > 0 {
				t.Errorf("again: %v, %v", again, err)
			}
		})
	}
}
