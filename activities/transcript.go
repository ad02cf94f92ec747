package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"weft/activities/contract"
)

// transcript gives the messages that a model call is about: its base, then its tail. What
// this worker does not know it asks the run for, once for all who need it.
func (a *Activities) transcript(ctx context.Context, in *contract.ModelInput) ([]contract.Message, error) {
	for _, e := range in.Tail {
		if len(e.Message) == 0 {
			continue
		}
		if contract.SHA(e.Message) != e.SHA {
			return nil, damaged("a message of the call's input")
		}
		a.cache.keep(e.SHA, e.Message)
	}
	shas, unknown := a.walk(in.Base)
	for _, e := range in.Tail {
		shas = append(shas, e.SHA)
	}
	if unknown > 0 || slices.ContainsFunc(shas, a.missing) {
		if err := a.fetch(ctx, in, &shas); err != nil {
			return nil, err
		}
	}
	out := make([]contract.Message, 0, len(shas))
	for _, sha := range shas {
		raw, ok := a.cache.content(sha)
		if !ok {
			return nil, &contract.Failure{Class: contract.ClassUnavailable, Text: "the transcript cache is smaller than the transcript",
				Remedy: "give the worker a larger cache"}
		}
		m, err := a.message(ctx, raw)
		if err != nil {
			return nil, err
		}
		out = append(out, *m)
	}
	a.relink(in)
	return out, nil
}

// walk follows a head's hash back as far as this worker knows the thread. It returns the
// hashes of the known messages, and how many before them are unknown.
func (a *Activities) walk(head contract.Head) (shas []string, unknown int) {
	hash := head.Hash
	for unknown = head.Len; unknown > 0; unknown-- {
		prev, sha, ok := a.cache.before(hash)
		if !ok {
			break
		}
		shas = append(shas, sha)
		hash = prev
	}
	slices.Reverse(shas)
	return shas, unknown
}

func (a *Activities) missing(sha string) bool {
	_, ok := a.cache.content(sha)
	return !ok
}

// fetch asks the run for the messages that this worker lacks, checks them against the
// call's hashes, and completes the list of hashes.
func (a *Activities) fetch(ctx context.Context, in *contract.ModelInput, shas *[]string) error {
	free, err := a.locks.take(ctx, in.Base.Workflow+"\x00"+in.Base.Run)
	if err != nil {
		return err
	}
	defer free()
	// Somebody else may have fetched meanwhile.
	known, unknown := a.walk(in.Base)
	for _, e := range in.Tail {
		known = append(known, e.SHA)
	}
	total := unknown + len(known)
	from, upto := 0, unknown
	if unknown == 0 {
		from = slices.IndexFunc(known, a.missing)
		if from < 0 {
			*shas = known
			return nil
		}
	}
	for i, sha := range known {
		if a.missing(sha) {
			upto = unknown + i + 1
		}
	}
	raws, err := a.pages(ctx, in.Base, from, upto)
	if err != nil {
		return err
	}
	all := make([]string, unknown, total)
	all = append(all, known...)
	for i, raw := range raws {
		sha := contract.SHA(raw)
		if want := all[from+i]; want != "" && want != sha {
			return damaged(fmt.Sprintf("message %d of thread %q", from+i+1, in.Base.Thread))
		}
		all[from+i] = sha
		a.cache.keep(sha, raw)
	}
	if hash := a.chain(all[:in.Base.Len]); hash != in.Base.Hash {
		return damaged(fmt.Sprintf("thread %q of run %s", in.Base.Thread, in.Base.Run))
	}
	*shas = all
	return nil
}

// pages asks a run for messages from to upto of a thread.
func (a *Activities) pages(ctx context.Context, head contract.Head, from, upto int) ([]json.RawMessage, error) {
	var out []json.RawMessage
	for from+len(out) < upto {
		page, err := a.deps.Source.Transcript(ctx, head.Workflow, head.Run,
			contract.TranscriptQuery{Thread: head.Thread, From: from + len(out), Upto: upto})
		if err != nil {
			return nil, err
		}
		if len(page.Messages) == 0 {
			return nil, damaged(fmt.Sprintf("thread %q of run %s", head.Thread, head.Run))
		}
		out = append(out, page.Messages...)
	}
	return out, nil
}

// chain links messages from a thread's begin on and returns the last hash.
func (a *Activities) chain(shas []string) string {
	hash := ""
	for _, sha := range shas {
		hash = a.cache.link(hash, sha)
	}
	return hash
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
func (a *Activities) message(ctx context.Context, raw []byte) (*contract.Message, error) {
	m, err := contract.DecodeMessage(raw)
	if err != nil {
		return nil, err
	}
	if len(m.Parts) == 0 {
		return m, nil
	}
	for _, p := range m.Parts {
		if p.Ref == nil {
			m.Text += p.Text
			continue
		}
		text, err := a.text(ctx, *p.Ref)
		if err != nil {
			return nil, err
		}
		m.Text += text
	}
	m.Parts = nil
	return m, nil
}

// text is the text of the message that a reference names.
func (a *Activities) text(ctx context.Context, ref contract.ContentRef) (string, error) {
	raw, err := a.content(ctx, ref)
	if err != nil {
		return "", err
	}
	m, err := contract.DecodeMessage(raw)
	if err != nil {
		return "", err
	}
	return m.Text, nil
}

// content gives the bytes that a reference names: from the cache, or from the run.
func (a *Activities) content(ctx context.Context, ref contract.ContentRef) ([]byte, error) {
	if raw, ok := a.cache.content(ref.SHA); ok {
		return raw, nil
	}
	free, err := a.locks.take(ctx, ref.Workflow+"\x00"+ref.Run)
	if err != nil {
		return nil, err
	}
	defer free()
	if raw, ok := a.cache.content(ref.SHA); ok {
		return raw, nil
	}
	var raw []byte
	for {
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
