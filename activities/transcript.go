package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"go.temporal.io/sdk/activity"

	"weft/activities/contract"
)

// transcript returns the messages of a model call: its base, then its tail. It queries the run for missing
// messages, once for all calls that need them.
func (a *Activities) transcript(ctx context.Context, in *contract.ModelInput, runs []contract.Run) ([]contract.Message, error) {
	t := assembly{Activities: a, in: in, raws: map[string][]byte{}}
	for _, e := range in.Tail {
		if len(e.Message) == 0 {
			continue
		}
		if contract.SHA(e.Message) != e.SHA {
			return nil, hashMismatch("a message of the call's input")
		}
		t.keep(e.SHA, e.Message)
	}
	complete := t.lookUp()
	measureLookup(ctx, "transcript", complete)
	if !complete {
		if err := t.fetch(ctx); err != nil {
			return nil, err
		}
	}
	out := make([]contract.Message, 0, len(t.shas))
	for _, sha := range t.shas {
		m, err := a.message(ctx, sha, t.raws[sha], runs)
		if err != nil {
			return nil, err
		}
		out = append(out, *m)
	}
	a.linkTail(in)
	return out, nil
}

// assembly is a transcript that is being assembled. It holds the messages itself, so that it does not depend on the
// size of the cache.
type assembly struct {
	*Activities
	in *contract.ModelInput
	// shas are the hashes of the messages, "" if unknown; raws are their bytes by hash.
	shas []string
	raws map[string][]byte
}

func (t *assembly) keep(sha string, raw []byte) {
	t.raws[sha] = raw
	t.cache.keep(sha, raw)
}

// lookUp follows the base's hash back through the cache and reports whether it found all messages.
func (t *assembly) lookUp() bool {
	t.shas = make([]string, t.in.Base.Len, t.in.Base.Len+len(t.in.Tail))
	hash := t.in.Base.Hash
	for i := t.in.Base.Len - 1; i >= 0; i-- {
		prev, sha, ok := t.cache.predecessor(hash)
		if !ok {
			break
		}
		t.shas[i], hash = sha, prev
	}
	for _, e := range t.in.Tail {
		t.shas = append(t.shas, e.SHA)
	}
	all := true
	for _, sha := range t.shas {
		all = t.has(sha) && all
	}
	return all
}

// has reports whether a message is in the assembly or in the cache.
func (t *assembly) has(sha string) bool {
	if t.raws[sha] == nil {
		raw, ok := t.cache.content(sha)
		if !ok {
			return false
		}
		t.raws[sha] = raw
	}
	return true
}

// fetch queries the run for missing messages and verifies their hashes.
func (t *assembly) fetch(ctx context.Context) error {
	free, err := t.locks.acquire(ctx, t.in.Base.Workflow+"\x00"+t.in.Base.Run)
	if err != nil {
		return err
	}
	defer free()
	if t.lookUp() {
		return nil // another call has fetched them meanwhile
	}
	from := slices.IndexFunc(t.shas, func(sha string) bool { return !t.has(sha) })
	upto := len(t.shas)
	for t.has(t.shas[upto-1]) {
		upto--
	}
	raws, err := t.pages(ctx, from, upto)
	if err != nil {
		return err
	}
	for i, raw := range raws {
		sha := contract.SHA(raw)
		if want := t.shas[from+i]; want != "" && want != sha {
			return hashMismatch(fmt.Sprintf("message %d of thread %q", from+i+1, t.in.Base.Thread))
		}
		t.shas[from+i] = sha
		t.keep(sha, raw)
	}
	hash := ""
	for _, sha := range t.shas[:t.in.Base.Len] {
		hash = t.cache.link(hash, sha)
	}
	if hash != t.in.Base.Hash {
		return hashMismatch(fmt.Sprintf("thread %q of run %s", t.in.Base.Thread, t.in.Base.Run))
	}
	return nil
}

// pages queries the run for the messages [from, upto) of the thread.
func (t *assembly) pages(ctx context.Context, from, upto int) ([]json.RawMessage, error) {
	var out []json.RawMessage
	head := &t.in.Base
	for from+len(out) < upto {
		measureQuery(ctx, contract.QueryTranscript)
		page, err := t.deps.Source.Transcript(ctx, head.Workflow, head.Run,
			contract.TranscriptQuery{Thread: head.Thread, From: from + len(out), Upto: upto})
		if err != nil {
			return nil, err
		}
		if n := len(page.Messages); n == 0 || from+len(out)+n > upto {
			return nil, hashMismatch(fmt.Sprintf("thread %q of run %s", head.Thread, head.Run))
		}
		for _, l := range page.Long {
			if l.Index < 0 || l.Index >= len(page.Messages) {
				return nil, hashMismatch(fmt.Sprintf("thread %q of run %s", head.Thread, head.Run))
			}
			raw, err := t.fetchContent(ctx, contract.ContentRef{Workflow: head.Workflow, Run: head.Run, SHA: l.SHA})
			if err != nil {
				return nil, err
			}
			page.Messages[l.Index] = raw
		}
		out = append(out, page.Messages...)
	}
	return out, nil
}

// linkTail links the tail in the cache, for the next call.
func (a *Activities) linkTail(in *contract.ModelInput) string {
	hash := in.Base.Hash
	for _, e := range in.Tail {
		hash = a.cache.link(hash, e.SHA)
	}
	return hash
}

// message decodes a stored message and resolves the references of its parts.
func (a *Activities) message(ctx context.Context, sha string, raw []byte, runs []contract.Run) (*contract.Message, error) {
	stored, err := decoded[contract.Message](a.cache, sha, raw)
	if err != nil || len(stored.Parts) == 0 {
		return stored, err
	}
	own := *stored
	m := &own
	for _, p := range stored.Parts {
		if p.Ref == nil {
			m.Text += p.Shown(p.Text)
			continue
		}
		other, err := a.referenced(ctx, *p.Ref, runs)
		if err != nil {
			return nil, err
		}
		m.Text += p.Shown(other.Text)
		m.Media = append(slices.Clip(m.Media), other.Media...)
	}
	m.Parts = nil
	return m, nil
}

// text returns the text of the message that a reference names.
func (a *Activities) text(ctx context.Context, ref contract.ContentRef, runs []contract.Run) (string, error) {
	m, err := a.referenced(ctx, ref, runs)
	if err != nil {
		return "", err
	}
	return m.Text, nil
}

// referenced returns the message that a reference names. If the reference names no run, each of runs is queried in turn.
func (a *Activities) referenced(ctx context.Context, ref contract.ContentRef, runs []contract.Run) (*contract.Message, error) {
	if ref.Run != "" {
		runs = []contract.Run{{Workflow: ref.Workflow, Run: ref.Run}}
	}
	var raw []byte
	err := hashMismatch("a reference without a run")
	for _, home := range runs {
		raw, err = a.content(ctx, contract.ContentRef{Workflow: home.Workflow, Run: home.Run, SHA: ref.SHA})
		if err == nil || contract.FailureOf(err).Class != contract.ClassTranscriptLost {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return decoded[contract.Message](a.cache, ref.SHA, raw)
}

// runsOf returns the runs that may have referenced messages: the flow's, then the call's own.
func runsOf(home, own contract.Run) []contract.Run {
	if home == own || home.Run == "" {
		return []contract.Run{own}
	}
	return []contract.Run{home, own}
}

// content returns the bytes of a reference: from the cache, or from its run, by default the call's own.
func (a *Activities) content(ctx context.Context, ref contract.ContentRef) ([]byte, error) {
	raw, ok := a.cache.content(ref.SHA)
	measureLookup(ctx, "content", ok)
	if ok {
		return raw, nil
	}
	if ref.Run == "" && activity.IsActivity(ctx) {
		own := ownRun(ctx)
		ref.Workflow, ref.Run = own.Workflow, own.Run
	}
	free, err := a.locks.acquire(ctx, ref.Workflow+"\x00"+ref.Run)
	if err != nil {
		return nil, err
	}
	defer free()
	if raw, ok := a.cache.content(ref.SHA); ok {
		return raw, nil
	}
	return a.fetchContent(ctx, ref)
}

// fetchContent queries a run for stored bytes, and caches them.
func (a *Activities) fetchContent(ctx context.Context, ref contract.ContentRef) ([]byte, error) {
	raw, err := a.queryContent(ctx, ref)
	if err == nil {
		a.cache.keep(ref.SHA, raw)
	}
	return raw, err
}

func (a *Activities) queryContent(ctx context.Context, ref contract.ContentRef) ([]byte, error) {
	var raw []byte
	for {
		measureQuery(ctx, contract.QueryContent)
		page, err := a.deps.Source.Content(ctx, ref.Workflow, ref.Run, contract.ContentQuery{SHA: ref.SHA, Offset: len(raw)})
		if err != nil {
			return nil, err
		}
		raw = append(raw, page.Data...)
		if len(raw) >= page.Total || len(page.Data) == 0 {
			break
		}
	}
	if contract.SHA(raw) != ref.SHA {
		return nil, hashMismatch(fmt.Sprintf("content %s of run %s", ref.SHA, ref.Run))
	}
	return raw, nil
}

// fetchResult returns the encoded result that a closed run holds, or a page of a large one. It is not cached, as it is
// fetched once.
func (a *Activities) fetchResult(ctx context.Context, in *contract.HeldResult, _ *heartbeats) (json.RawMessage, error) {
	if in.Bytes <= contract.MaxPayload {
		return a.queryContent(ctx, in.ContentRef)
	}
	measureQuery(ctx, contract.QueryContent)
	page, err := a.deps.Source.Content(ctx, in.Workflow, in.Run, contract.ContentQuery{SHA: in.SHA, Offset: in.Offset})
	if err != nil {
		return nil, err
	}
	return json.Marshal(page)
}

func ownRun(ctx context.Context) contract.Run {
	own := activity.GetInfo(ctx).WorkflowExecution
	return contract.Run{Workflow: own.ID, Run: own.RunID}
}

func hashMismatch(what string) error {
	return &contract.Failure{Class: contract.ClassTranscriptLost, Text: what + " does not match its hash",
		Remedy: "start the run again with workers of one build"}
}
