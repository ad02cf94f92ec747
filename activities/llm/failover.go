package llm

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

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

// failoverClasses are the classes of failures after which another model may answer. A mistake of the author
// must not be hidden.
var failoverClasses = []string{
	contract.ClassRateLimited, contract.ClassUnavailable, contract.ClassTimeout, contract.ClassDenied, contract.ClassQuotaExceeded,
	contract.ClassConnection, contract.ClassContextLength,
}

// Ask calls the model that list names or, of several, the first one that can answer: see [generate]. Each but
// the last gets an equal share of the time left. A model that asked to wait is skipped until then. If none can
// answer, the failure is the one to retry soonest, with the texts of all.
func (m *Models) Ask(ctx context.Context, list string, call *Call) (*Answer, error) {
	refs := Refs(list)
	if len(refs) == 0 {
		refs = []string{""}
	}
	answer, err := m.askAny(ctx, refs, call)
	if late, ok := errors.AsType[*ended](err); ok {
		return nil, late.error
	}
	return answer, err
}

// askAny is Ask, whose error where the time of the call ends is [ended].
func (m *Models) askAny(ctx context.Context, refs []string, call *Call) (*Answer, error) {
	if len(refs) == 1 {
		return m.askOne(ctx, refs[0], call)
	}
	// A mistake that only a later model would refuse is reported at once.
	for _, ref := range refs {
		if err := m.validate(ref, call); err != nil {
			return nil, err
		}
	}
	var tried []attempt
	for i, ref := range refs {
		ask := *call
		if call.Spent != nil {
			before := spentBy(tried)
			ask.Spent = func(u contract.Usage) {
				u.Add(before)
				call.Spent(u)
			}
		}
		if left := m.remaining(ref); left > 0 && i < len(refs)-1 {
			f := failf(contract.ClassRateLimited, "", "model %q: its provider asked to wait, for another %s", ref, left.Round(time.Second))
			f.After = left
			tried = append(tried, attempt{ref, f})
			continue
		}
		answer, err := m.askWithin(ctx, ref, len(refs)-i, &ask)
		if err == nil {
			answer.Fallbacks = fallbacks(append(tried, attempt{ref: ref}))
			answer.Usage.Add(spentBy(tried))
			return answer, nil
		}
		if ctx.Err() != nil {
			return nil, spentOn(err, spentBy(tried))
		}
		f := contract.FailureOf(err)
		if waitsForTurn(ctx, f, len(refs)-i) {
			return nil, f
		}
		m.coolDown(ref, f)
		tried = append(tried, attempt{ref, f})
		if !slices.Contains(failoverClasses, f.Class) {
			return nil, withOthers(tried, f)
		}
	}
	return nil, withOthers(tried, slices.MinFunc(tried, soonerRetry).failure)
}

// spentBy is what models took that did not answer.
func spentBy(tried []attempt) contract.Usage {
	var u contract.Usage
	for _, a := range tried {
		if a.failure.Usage != nil {
			u.Add(*a.failure.Usage)
		}
	}
	return u
}

// attempt is a model that was asked, or skipped, and how it failed.
type attempt struct {
	ref     string
	failure *contract.Failure
}

// coolDown leaves a model alone for as long as its provider asked to wait.
func (m *Models) coolDown(ref string, f *contract.Failure) {
	if f.After > 0 && f.Limit == nil && !m.settings.Scripted && !m.script(ref) {
		m.cooldowns.Store(ref, time.Now().Add(f.After))
	}
}

// remaining is how long a model asked to be left alone.
func (m *Models) remaining(ref string) time.Duration {
	until, _ := m.cooldowns.Load(ref)
	t, _ := until.(time.Time)
	return time.Until(t)
}

// validate checks a reference and the parameters for its model. A provider without its key is valid here.
func (m *Models) validate(ref string, call *Call) error {
	model, err := m.get(ref)
	if err != nil {
		if f := contract.FailureOf(err); f.Class == contract.ClassBadRequest {
			return f
		}
		return nil
	}
	if p, ok := model.(*provider); ok {
		return p.supported(call)
	}
	return nil
}

// fallbacks are the switches from each attempt to the next one.
func fallbacks(tried []attempt) []contract.Fallback {
	var out []contract.Fallback
	for i, a := range tried[:len(tried)-1] {
		out = append(out, contract.Fallback{Model: textutil.Truncate(a.ref, 200), Class: a.failure.Class, Text: textutil.Truncate(a.failure.Text, 500),
			To: textutil.Truncate(tried[i+1].ref, 200)})
	}
	return out
}

func (m *Models) askOne(ctx context.Context, ref string, call *Call) (answer *Answer, err error) {
	if call.Observe != nil {
		observed, finish := call.Observe(ctx, m.request(ref, call))
		ctx = observed
		defer func() { finish(answer, err) }()
	}
	model, err := m.get(ref)
	if err != nil {
		return nil, err
	}
	if notify := call.Spent; notify != nil {
		priced := *call
		priced.Spent = func(u contract.Usage) {
			m.price(ref, call, &u)
			notify(u)
		}
		call = &priced
	}
	answer, err = generate(ctx, model, call)
	var f *contract.Failure
	var late *ended
	switch {
	case err == nil:
		m.price(ref, call, &answer.Usage)
	case errors.As(err, &late):
		m.price(ref, call, &late.usage)
	case errors.As(err, &f) && f.Usage != nil:
		m.price(ref, call, f.Usage)
	}
	return answer, err
}

// request describes a call of a model to observers.
func (m *Models) request(ref string, call *Call) Request {
	name, model, ok := strings.Cut(ref, "/")
	if !ok {
		model = ref
	}
	a := Request{System: name, Model: textutil.Truncate(model, 200)}
	if p := m.providers[name]; p != nil && !m.settings.Scripted {
		a.System = p.system()
		a.Stream = !p.row.Script && !p.Unary && !(p.UnaryTools && len(call.Options.Tools) > 0)
	}
	return a
}

// system is who runs a provider's models: its kind, or its own name for any compatible server.
func (p *provider) system() string {
	if p.row.Name == "compatible" {
		return p.Provider
	}
	return cmp.Or(p.row.System, p.row.Name)
}

// askWithin asks one of several models that are left.
func (m *Models) askWithin(ctx context.Context, ref string, left int, call *Call) (*Answer, error) {
	deadline, bounded := ctx.Deadline()
	if !bounded || left < 2 {
		return m.askOne(ctx, ref, call)
	}
	share := time.Until(deadline) / time.Duration(left)
	part, cancel := context.WithTimeout(ctx, share)
	defer cancel()
	answer, err := m.askOne(part, ref, call)
	if err != nil && part.Err() != nil && ctx.Err() == nil {
		f := failf(contract.ClassUnavailable, "", "model %q: no complete answer within %s, its share of the call's timeout", textutil.Truncate(ref, 200), share.Round(time.Millisecond))
		if late, ok := errors.AsType[*ended](err); ok {
			f.Usage = &late.usage
		}
		return nil, f
	}
	return answer, err
}

// soonerRetry orders attempts whose failure can be retried by their wait, before all others.
func soonerRetry(a, b attempt) int {
	again, other := repeated(a.failure), repeated(b.failure)
	switch {
	case again && other:
		return cmp.Compare(a.failure.After, b.failure.After)
	case again:
		return -1
	case other:
		return 1
	}
	return 0
}

// repeated reports whether another attempt is made after a failure.
func repeated(f *contract.Failure) bool { return contract.Retryable(f.Class) && !f.Final }

func withOthers(tried []attempt, which *contract.Failure) *contract.Failure {
	out := *which
	if u := spentBy(tried); u.Made() > 0 {
		out.Usage = &u
	}
	for _, a := range tried {
		if a.failure != which {
			out.Text += "; and " + textutil.Truncate(a.failure.Text, 500)
		}
	}
	return &out
}
