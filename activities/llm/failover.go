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

// Refs returns the references in a list of models, such as "openai/a, anthropic/b", in order.
func Refs(list string) []string {
	var out []string
	for _, ref := range strings.Split(list, ",") {
		if ref = strings.TrimSpace(ref); ref != "" {
			out = append(out, ref)
		}
	}
	return out
}

// failoverClasses are the classes of failures after which the next model is called. An author's mistake is not one of
// them, because it must not be hidden.
var failoverClasses = []string{
	contract.ClassRateLimited, contract.ClassUnavailable, contract.ClassTimeout, contract.ClassDenied, contract.ClassQuotaExceeded,
	contract.ClassConnection, contract.ClassContextLength,
}

// Generate calls the model of a list or, of several, the first one that can answer, see [generate]. Each model except the
// last gets an equal share of the remaining time. A model is skipped for as long as its provider requested a delay. If
// no model can answer, Generate returns the failure that can be retried soonest, with the texts of all.
func (m *Models) Generate(ctx context.Context, list string, call *Call) (*Answer, error) {
	refs := Refs(list)
	if len(refs) == 0 {
		refs = []string{""}
	}
	answer, err := m.askAny(ctx, refs, call)
	if ctxErr, ok := errors.AsType[*contextError](err); ok {
		return nil, ctxErr.error
	}
	return answer, err
}

// askAny is like Ask, but returns a [contextError] if the context ends.
func (m *Models) askAny(ctx context.Context, refs []string, call *Call) (*Answer, error) {
	if len(refs) == 1 {
		return m.askOne(ctx, refs[0], call)
	}
	// Report invalid requests at once, even if only a later model would reject them.
	for _, ref := range refs {
		if err := m.validate(ref, call); err != nil {
			return nil, err
		}
	}
	var tried []attempt
	for i, ref := range refs {
		attemptCall := *call
		if call.Spent != nil {
			earlier := totalUsage(tried)
			attemptCall.Spent = func(u contract.Usage) {
				u.Add(earlier)
				call.Spent(u)
			}
		}
		if wait := m.remaining(ref); wait > 0 && i < len(refs)-1 {
			f := failf(contract.ClassRateLimited, "", "model %q: skipped, its provider requested a delay of another %s", ref, wait.Round(time.Second))
			f.After = wait
			tried = append(tried, attempt{ref, f})
			continue
		}
		answer, err := m.askWithin(ctx, ref, len(refs)-i, &attemptCall)
		if err == nil {
			answer.Fallbacks = fallbacks(append(tried, attempt{ref: ref}))
			answer.Usage.Add(totalUsage(tried))
			return answer, nil
		}
		if ctx.Err() != nil {
			return nil, withUsage(err, totalUsage(tried))
		}
		f := contract.FailureOf(err)
		if shouldAwaitTurn(ctx, f, len(refs)-i) {
			return nil, f
		}
		m.coolDown(ref, f)
		tried = append(tried, attempt{ref, f})
		if !slices.Contains(failoverClasses, f.Class) {
			return nil, combineFailures(tried, f)
		}
	}
	return nil, combineFailures(tried, slices.MinFunc(tried, compareRetries).failure)
}

// totalUsage returns the usage of failed attempts.
func totalUsage(tried []attempt) contract.Usage {
	var u contract.Usage
	for _, a := range tried {
		if a.failure.Usage != nil {
			u.Add(*a.failure.Usage)
		}
	}
	return u
}

// attempt is a model that was called or skipped, with its failure, if any.
type attempt struct {
	ref     string
	failure *contract.Failure
}

// coolDown records the delay that a model's provider requested.
func (m *Models) coolDown(ref string, f *contract.Failure) {
	if f.After > 0 && f.Limit == nil && !m.settings.Scripted && !m.isScript(ref) {
		m.cooldowns.Store(ref, time.Now().Add(f.After))
	}
}

// remaining returns the rest of the delay that a model's provider requested; it is not positive if there is none.
func (m *Models) remaining(ref string) time.Duration {
	until, _ := m.cooldowns.Load(ref)
	t, _ := until.(time.Time)
	return time.Until(t)
}

// validate checks a reference and the parameters for its model. It ignores a missing key.
func (m *Models) validate(ref string, call *Call) error {
	model, err := m.get(ref)
	if err != nil {
		if f := contract.FailureOf(err); f.Class == contract.ClassBadRequest {
			return f
		}
		return nil
	}
	if p, ok := model.(*provider); ok {
		return p.checkSupported(call)
	}
	return nil
}

// fallbacks returns the switches from each attempt to the next one.
func fallbacks(tried []attempt) []contract.Fallback {
	var out []contract.Fallback
	for i, a := range tried[:len(tried)-1] {
		out = append(out, contract.Fallback{Model: textutil.Truncate(a.ref, 200), Class: a.failure.Class, Text: textutil.Truncate(a.failure.Text, 500),
			To: textutil.Truncate(tried[i+1].ref, 200)})
	}
	return out
}

// askOne calls one model, reports the call to observers, and sets the cost of its usage.
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
	var ctxErr *contextError
	switch {
	case err == nil:
		m.price(ref, call, &answer.Usage)
	case errors.As(err, &ctxErr):
		m.price(ref, call, &ctxErr.usage)
	case errors.As(err, &f) && f.Usage != nil:
		m.price(ref, call, f.Usage)
	}
	return answer, err
}

// request returns the description of a model call for observers.
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

// system returns the provider's name in OpenTelemetry's conventions: its kind or, for compatible servers, its own name.
func (p *provider) system() string {
	if p.row.Name == "compatible" {
		return p.Provider
	}
	return cmp.Or(p.row.System, p.row.Name)
}

// askWithin calls one of the remaining models within its share of the time.
func (m *Models) askWithin(ctx context.Context, ref string, modelsLeft int, call *Call) (*Answer, error) {
	deadline, bounded := ctx.Deadline()
	if !bounded || modelsLeft < 2 {
		return m.askOne(ctx, ref, call)
	}
	share := time.Until(deadline) / time.Duration(modelsLeft)
	shareCtx, cancel := context.WithTimeout(ctx, share)
	defer cancel()
	answer, err := m.askOne(shareCtx, ref, call)
	if err != nil && shareCtx.Err() != nil && ctx.Err() == nil {
		f := failf(contract.ClassUnavailable, "", "model %q: no complete answer within %s, its share of the call's timeout", textutil.Truncate(ref, 200), share.Round(time.Millisecond))
		if ctxErr, ok := errors.AsType[*contextError](err); ok {
			f.Usage = &ctxErr.usage
		}
		return nil, f
	}
	return answer, err
}

// compareRetries orders retryable attempts by their delay, before all others.
func compareRetries(a, b attempt) int {
	aRetries, bRetries := isRetryable(a.failure), isRetryable(b.failure)
	switch {
	case aRetries && bRetries:
		return cmp.Compare(a.failure.After, b.failure.After)
	case aRetries:
		return -1
	case bRetries:
		return 1
	}
	return 0
}

// isRetryable reports whether a failed call is retried.
func isRetryable(f *contract.Failure) bool { return contract.Retryable(f.Class) && !f.Final }

func combineFailures(tried []attempt, which *contract.Failure) *contract.Failure {
	out := *which
	if u := totalUsage(tried); u.Made() > 0 {
		out.Usage = &u
	}
	for _, a := range tried {
		if a.failure != which {
			out.Text += "; and " + textutil.Truncate(a.failure.Text, 500)
		}
	}
	return &out
}
