package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"go.temporal.io/sdk/activity"

	"weft/activities/contract"
)

// transcript gives the messages that a model call is about: its base, then its tail. What
// this worker does not know it asks the run for, once for all who need it.
func (a *Activities) transcript(ctx context.Context, in *contract.ModelInput, homes []contract.Run) ([]contract.Message, error) {
	t := assembly{Activities: a, in: in, raws: map[string][]byte{}}
	for _, e := range in.Tail {
		if len(e.Message) == 0 {
			continue
		}
		if contract.SHA(e.Message) != e.SHA {
			return nil, damaged("a message of the call's input")
		}
		t.keep(e.SHA, e.Message)
	}
	known := t.known()
	measureLookup(ctx, "transcript", known)
	if !known {
		if err := t.fetch(ctx); err != nil {
			return nil, err
		}
	}
	out := make([]contract.Message, 0, len(t.shas))
	for _, sha := range t.shas {
		m, err := a.message(ctx, sha, t.raws[sha], homes)
		if err != nil {
			return nil, err
		}
		out = append(out, *m)
	}
	a.relink(in)
	return out, nil
}

// assembly is a transcript being put together. It holds its messages itself, so that a
// small cache makes it slow, not wrong.
type assembly struct {
	*Activities
	in *contract.ModelInput
	// shas are the messages' hashes, "" where unknown; raws their bytes.
	shas []string
	raws map[string][]byte
}

func (t *assembly) keep(sha string, raw []byte) {
	t.raws[sha] = raw
	t.cache.keep(sha, raw)
}

// known follows the base's hash back as far as this worker knows the thread, and says
// whether it knows all messages.
func (t *assembly) known() bool {
	t.shas = make([]string, t.in.Base.Len, t.in.Base.Len+len(t.in.Tail))
	hash := t.in.Base.Hash
	for i := t.in.Base.Len - 1; i >= 0; i-- {
		prev, sha, ok := t.cache.before(hash)
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

// has reports whether a message is here, and takes it from the cache if need be.
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

// fetch asks the run for the messages that this worker lacks and checks them against the
// call's hashes.
func (t *assembly) fetch(ctx context.Context) error {
	free, err := t.locks.take(ctx, t.in.Base.Workflow+"\x00"+t.in.Base.Run)
	if err != nil {
		return err
	}
	defer free()
	if t.known() {
		return nil // somebody else has fetched meanwhile
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
			return damaged(fmt.Sprintf("message %d of thread %q", from+i+1, t.in.Base.Thread))
		}
		t.shas[from+i] = sha
		t.keep(sha, raw)
	}
	hash := ""
	for _, sha := range t.shas[:t.in.Base.Len] {
		hash = t.cache.link(hash, sha)
	}
	if hash != t.in.Base.Hash {
		return damaged(fmt.Sprintf("thread %q of run %s", t.in.Base.Thread, t.in.Base.Run))
	}
	return nil
}

// pages asks the run for messages from to upto of the thread.
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
			return nil, damaged(fmt.Sprintf("thread %q of run %s", head.Thread, head.Run))
		}
		for _, l := range page.Long {
			if l.Index < 0 || l.Index >= len(page.Messages) {
				return nil, damaged(fmt.Sprintf("thread %q of run %s", head.Thread, head.Run))
			}
			raw, err := t.pull(ctx, contract.ContentRef{Workflow: head.Workflow, Run: head.Run, SHA: l.SHA})
			if err != nil {
				return nil, err
			}
			page.Messages[l.Index] = raw
		}
		out = append(out, page.Messages...)
	}
	return out, nil
}

// relink lets this worker walk back from the call's end, where the next call begins.
func (a *Activities) relink(in *contract.ModelInput) string {
	hash := in.Base.Hash
	for _, e := range in.Tail {
		hash = a.cache.link(hash, e.SHA)
	}
	return hash
}

// message decodes stored bytes and puts in the texts that its parts refer to.
func (a *Activities) message(ctx context.Context, sha string, raw []byte, homes []contract.Run) (*contract.Message, error) {
	stored, err := decoded[contract.Message](a.cache, sha, raw)
	if err != nil || len(stored.Parts) == 0 {
		return stored, err
	}
	own := *stored
	m := &own
	for _, p := range stored.Parts {
		if p.Ref == nil {
			m.Text += p.Text
			continue
		}
		other, err := a.referred(ctx, *p.Ref, homes)
		if err != nil {
			return nil, err
		}
		m.Text += other.Text
		m.Images = append(slices.Clip(m.Images), other.Images...)
	}
	m.Parts = nil
	return m, nil
}

// text is the text of the message that a reference names.
func (a *Activities) text(ctx context.Context, ref contract.ContentRef, homes []contract.Run) (string, error) {
	m, err := a.referred(ctx, ref, homes)
	if err != nil {
		return "", err
	}
	return m.Text, nil
}

// referred is the message that a reference names. One that names no run is looked for at each of
// homes.
func (a *Activities) referred(ctx context.Context, ref contract.ContentRef, homes []contract.Run) (*contract.Message, error) {
	if ref.Run != "" {
		homes = []contract.Run{{Workflow: ref.Workflow, Run: ref.Run}}
	}
	var raw []byte
	err := damaged("a reference without a run")
	for _, home := range homes {
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

// homesOf are the runs that may hold what a message refers to: the flow's, then the call's
// own.
func homesOf(home, own contract.Run) []contract.Run {
	if home == own || home.Run == "" {
		return []contract.Run{own}
	}
	return []contract.Run{home, own}
}

// content gives the bytes that a reference names: from the cache, or from the run; without a
// run, from the call's own.
func (a *Activities) content(ctx context.Context, ref contract.ContentRef) ([]byte, error) {
	raw, ok := a.cache.content(ref.SHA)
	measureLookup(ctx, "content", ok)
	if ok {
		return raw, nil
	}
	if ref.Run == "" && activity.IsActivity(ctx) {
		own := activity.GetInfo(ctx).WorkflowExecution
		ref.Workflow, ref.Run = own.ID, own.RunID
	}
	free, err := a.locks.take(ctx, ref.Workflow+"\x00"+ref.Run)
	if err != nil {
		return nil, err
	}
	defer free()
	if raw, ok := a.cache.content(ref.SHA); ok {
		return raw, nil
	}
	return a.pull(ctx, ref)
}

// pull asks a run for stored bytes, whoever else may be asking.
func (a *Activities) pull(ctx context.Context, ref contract.ContentRef) ([]byte, error) {
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
		return nil, damaged(fmt.Sprintf("content %s of run %s", ref.SHA, ref.Run))
	}
	a.cache.keep(ref.SHA, raw)
	return raw, nil
}

// damaged is the failure of bytes that do not have the hash by which they are named.
func damaged(what string) error {
	return &contract.Failure{Class: contract.ClassTranscriptLost, Text: what + " is not what its hash names",
		Remedy: "start the run again with workers of one build"}
}
