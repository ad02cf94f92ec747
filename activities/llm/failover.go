package llm

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
	"weft/activities/textutil"
)

// Refs are the references in a list of models, in order: "openai/a, anthropic/b".
func Refs(list string) []string {
	var out []string
	for _, ref := range strings.Split(list, ",") {
		if ref = strings.TrimSpace(ref); ref != "" {
			out = append(out, ref)
		}
	}
	return out
}

// switching are the classes of failures after which another model may well answer. What the
// author has written wrong would be wrong for all, and must not be hidden.
var switching = []string{
	contract.ClassRateLimited, contract.ClassUnavailable, contract.ClassTimeout, contract.ClassDenied, contract.ClassQuota,
	contract.ClassConnection, contract.ClassContextLength,
}

// Ask makes one call of the model that list names, or, where it names several, of the first
// one that can answer: see [Generate]. Each but the last gets an equal part of the time that
// is left, so that a silent one does not use it all up. A model that asked for a pause is
// passed over while it lasts.
//
// Where none can answer the failure is the one that passes soonest, and tells of all.
func (m *Models) Ask(ctx context.Context, list string, in []llms.MessageContent, tools []llms.Tool, opts ...llms.CallOption) (*Answer, error) {
	refs := Refs(list)
	if len(refs) == 0 {
		refs = []string{""}
	}
	if len(refs) == 1 {
		return m.askOne(ctx, refs[0], in, tools, opts...)
	}
	// A mistake that only a later model would refuse must not wait for the day it is needed.
	for _, ref := range refs {
		if err := m.vet(ctx, ref, opts); err != nil {
			return nil, err
		}
	}
	var switched []contract.Switch
	var failures []*contract.Failure
	for i, ref := range refs {
		if left := m.resting.left(ref); left > 0 && i < len(refs)-1 {
			f := failf(contract.ClassRateLimited, "", "model %q: its provider asked to wait, for another %s", ref, left.Round(time.Second))
			f.After = left
			switched, failures = append(switched, switchOf(ref, f)), append(failures, f)
			continue
		}
		answer, err := m.askWithin(ctx, ref, len(refs)-i, in, tools, opts...)
		if err == nil {
			answer.Switched = chained(switched, ref)
			return answer, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		f := contract.FailureOf(err)
		if !m.scripted && !m.script(ref) { // what a script says is of its run alone
			m.resting.note(ref, f)
		}
		if !slices.Contains(switching, f.Class) {
			return nil, allOf(append(failures, f), f)
		}
		switched, failures = append(switched, switchOf(ref, f)), append(failures, f)
	}
	return nil, allOf(failures, soonest(failures))
}

// vet finds what is wrong with asking a model, whatever its server says: a reference that is
// none, a parameter that it does not take. A provider that lacks its key is no mistake here.
func (m *Models) vet(ctx context.Context, ref string, opts []llms.CallOption) error {
	model, err := m.Get(ref)
	if err != nil {
		if f := contract.FailureOf(err); f.Class == contract.ClassBadRequest {
			return f
		}
		return nil
	}
	if r, ok := model.(*remote); ok {
		return r.supported(CallFrom(ctx), optionsOf(opts))
	}
	return nil
}

func switchOf(ref string, f *contract.Failure) contract.Switch {
	return contract.Switch{Model: textutil.Truncate(ref, 200), Class: f.Class, Text: textutil.Truncate(f.Text, 500)}
}

// chained says of each switch which model was asked next; the last one went to the one that answered.
func chained(list []contract.Switch, answered string) []contract.Switch {
	for i := range list {
		list[i].To = textutil.Truncate(answered, 200)
		if i+1 < len(list) {
			list[i].To = list[i+1].Model
		}
	}
	return list
}

func (m *Models) askOne(ctx context.Context, ref string, in []llms.MessageContent, tools []llms.Tool, opts ...llms.CallOption) (*Answer, error) {
	watch := CallFrom(ctx).Asking
	if watch == nil {
		return m.call(ctx, ref, in, tools, opts...)
	}
	ctx, ended := watch(ctx, m.asking(ref, len(tools) > 0, opts))
	answer, err := m.call(ctx, ref, in, tools, opts...)
	ended(answer, err)
	return answer, err
}

// asking tells of a call of a model.
func (m *Models) asking(ref string, tools bool, opts []llms.CallOption) Asking {
	name, model, ok := strings.Cut(ref, "/")
	if !ok {
		model = ref
	}
	a := Asking{System: name, Model: textutil.Truncate(model, 200), Options: *optionsOf(opts)}
	if p := m.providers[name]; p != nil && !m.scripted {
		a.System = p.system()
		a.Stream = !p.row.Script && !p.unary && !(p.row.UnaryTools && tools)
	}
	return a
}

// system is who runs a provider's models: by its kind, or by its own name where the kind is any
// server of the protocol.
func (p *provider) system() string {
	if p.row.Name == "compatible" {
		return p.name
	}
	return cmp.Or(p.row.System, p.row.Name)
}

// call makes one call of one model.
func (m *Models) call(ctx context.Context, ref string, in []llms.MessageContent, tools []llms.Tool, opts ...llms.CallOption) (*Answer, error) {
	model, err := m.Get(ref)
	if err != nil {
		return nil, err
	}
	answer, err := Generate(ctx, model, in, tools, opts...)
	if err == nil {
		m.price(ref, &answer.Usage)
		return answer, nil
	}
	var f *contract.Failure
	if errors.As(err, &f) && f.Usage != nil {
		m.price(ref, f.Usage)
	}
	return nil, err
}

// askWithin asks one of several models that are left.
func (m *Models) askWithin(ctx context.Context, ref string, left int, in []llms.MessageContent, tools []llms.Tool, opts ...llms.CallOption) (*Answer, error) {
	deadline, bounded := ctx.Deadline()
	if !bounded || left < 2 {
		return m.askOne(ctx, ref, in, tools, opts...)
	}
	share := time.Until(deadline) / time.Duration(left)
	part, cancel := context.WithTimeout(ctx, share)
	defer cancel()
	answer, err := m.askOne(part, ref, in, tools, opts...)
	if err != nil && part.Err() != nil && ctx.Err() == nil {
		return nil, failf(contract.ClassUnavailable, "", "model %q: no complete answer within %s, its share of the call's timeout", textutil.Truncate(ref, 200), share.Round(time.Millisecond))
	}
	return answer, err
}

// soonest is the failure that a retry mends first: of the retryable ones the one with the
// shortest wait, else the first.
func soonest(list []*contract.Failure) *contract.Failure {
	best := list[0]
	for _, f := range list[1:] {
		if !contract.Retryable(f.Class) {
			continue
		}
		if !contract.Retryable(best.Class) || f.After < best.After {
			best = f
		}
	}
	return best
}

// allOf is a failure that tells of those before it.
func allOf(list []*contract.Failure, which *contract.Failure) *contract.Failure {
	out := *which
	for _, f := range list {
		if f != which {
			out.Text += "; and " + textutil.Truncate(f.Text, 500)
		}
	}
	return &out
}

// rests remembers which models asked for a pause.
type rests struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// note takes the pause that a failure asks for, whether for a limit or for being down.
func (r *rests) note(ref string, f *contract.Failure) {
	if f.After <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until == nil {
		r.until = map[string]time.Time{}
	}
	r.until[ref] = time.Now().Add(f.After)
}

func (r *rests) left(ref string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.until[ref])
}
