package llm

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
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
	if len(refs) == 1 {
		return m.askOne(ctx, refs[0], call)
	}
	// A mistake that only a later model would refuse is reported at once.
	for _, ref := range refs {
		if err := m.validate(ref, call); err != nil {
			return nil, err
		}
	}
	var switched []contract.Fallback
	var failures []*contract.Failure
	for i, ref := range refs {
		if left := m.cooldowns.remaining(ref); left > 0 && i < len(refs)-1 {
			f := failf(contract.ClassRateLimited, "", "model %q: its provider asked to wait, for another %s", ref, left.Round(time.Second))
			f.After = left
			switched, failures = append(switched, switchOf(ref, f)), append(failures, f)
			continue
		}
		answer, err := m.askWithin(ctx, ref, len(refs)-i, call)
		if err == nil {
			answer.Fallbacks = linkSwitches(switched, ref)
			return answer, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		f := contract.FailureOf(err)
		if !m.scripted && !m.script(ref) {
			m.cooldowns.record(ref, f)
		}
		if !slices.Contains(failoverClasses, f.Class) {
			return nil, withOthers(append(failures, f), f)
		}
		switched, failures = append(switched, switchOf(ref, f)), append(failures, f)
	}
	return nil, withOthers(failures, soonestRetry(failures))
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

func switchOf(ref string, f *contract.Failure) contract.Fallback {
	return contract.Fallback{Model: textutil.Truncate(ref, 200), Class: f.Class, Text: textutil.Truncate(f.Text, 500)}
}

// linkSwitches sets which model each switch went to.
func linkSwitches(list []contract.Fallback, answered string) []contract.Fallback {
	for i := range list {
		list[i].To = textutil.Truncate(answered, 200)
		if i+1 < len(list) {
			list[i].To = list[i+1].Model
		}
	}
	return list
}

func (m *Models) askOne(ctx context.Context, ref string, call *Call) (*Answer, error) {
	if call.Observe == nil {
		return m.call(ctx, ref, call)
	}
	ctx, finish := call.Observe(ctx, m.request(ref, call))
	answer, err := m.call(ctx, ref, call)
	finish(answer, err)
	return answer, err
}

// request describes a call of a model to observers.
func (m *Models) request(ref string, call *Call) Request {
	name, model, ok := strings.Cut(ref, "/")
	if !ok {
		model = ref
	}
	a := Request{System: name, Model: textutil.Truncate(model, 200), Options: call.Options}
	if p := m.providers[name]; p != nil && !m.scripted {
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

// call makes one call of one model.
func (m *Models) call(ctx context.Context, ref string, call *Call) (*Answer, error) {
	model, err := m.get(ref)
	if err != nil {
		return nil, err
	}
	answer, err := generate(ctx, model, call)
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
		return nil, failf(contract.ClassUnavailable, "", "model %q: no complete answer within %s, its share of the call's timeout", textutil.Truncate(ref, 200), share.Round(time.Millisecond))
	}
	return answer, err
}

// soonestRetry is the retryable failure with the shortest wait, else the first failure.
func soonestRetry(list []*contract.Failure) *contract.Failure {
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

// withOthers is a failure with the texts of the others.
func withOthers(list []*contract.Failure, which *contract.Failure) *contract.Failure {
	out := *which
	for _, f := range list {
		if f != which {
			out.Text += "; and " + textutil.Truncate(f.Text, 500)
		}
	}
	return &out
}

// cooldownTable records which models asked to wait, until when.
type cooldownTable struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// record takes the wait that a failure asks for, because of a limit or an outage.
func (r *cooldownTable) record(ref string, f *contract.Failure) {
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

func (r *cooldownTable) remaining(ref string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.until[ref])
}
