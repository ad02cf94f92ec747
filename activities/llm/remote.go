package llm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"weft/activities/contract"
	"weft/activities/llm/wire"
)

type exchange struct {
	*provider
	ctx   context.Context
	call  *Call
	watch *watch
	// shown is how much of the text [Call].Partial has got, in bytes.
	shown int
	// partial reports whether a part of an answer could be read.
	partial bool
	// counted is the usage that [Call].Spent got last.
	counted contract.Usage
	// before is the text of the answer before the provider paused it.
	before string
	// unloaded: the request was refused because the model is being loaded. loading: the caller knows that the call waits for that.
	unloaded, loading bool
	// hasBegun reports whether the call has made a request.
	hasBegun bool
}

// answer makes one request. Unsupported parameters fail with bad_request. Its errors are [contract.Failure]s, or the
// context's own.
func (p *provider) answer(ctx context.Context, call *Call) (*wire.Answer, error) {
	x := &exchange{provider: p, ctx: ctx, call: call}
	if err := p.supported(call); err != nil {
		return nil, err
	}
	out, err := p.Encode(&call.Request)
	if err == nil && out.Then != nil {
		out, err = x.precede(out)
	}
	if err != nil {
		return nil, p.toFailure(ctx, err)
	}
	state := p.state(ctx)
	if state.loading {
		x.reportLoading()
	}
	defer x.loaded()
	a, err := x.complete(out)
	if err == nil {
		if state.loading {
			state = p.state(ctx)
		}
		a.Context = state.context
	}
	return a, err
}

// complete makes a request, and those that its answer calls for.
func (x *exchange) complete(out *wire.Outgoing) (*wire.Answer, error) {
	a, err := x.ask(out)
	if err == nil && a.Stop == wire.Paused {
		return x.resume(a)
	}
	if less := x.without(err); less != nil {
		x.call = less
		plain, wrong := x.Encode(&x.call.Request)
		if wrong != nil || plain.Then != nil || bytes.Equal(plain.Body, out.Body) {
			return nil, err
		}
		return x.ask(plain)
	}
	return a, err
}

// maxPauses bounds how often a provider may pause one answer.
const maxPauses = 10

// resume makes requests until an answer is whole that the provider has paused; each has the answer so far as its last message.
func (x *exchange) resume(a *wire.Answer) (*wire.Answer, error) {
	asked := x.call
	for range maxPauses {
		more := *asked
		more.Messages = append(slices.Clip(asked.Messages), a.Message)
		x.call, x.before, x.shown = &more, a.Message.Text, 0
		out, err := x.Encode(&more.Request)
		if err != nil {
			return nil, x.toFailure(x.ctx, err)
		}
		next, err := x.ask(out)
		if err == nil {
			a, err = wire.Joined(a, next)
		}
		switch {
		case err != nil:
			return nil, spentOn(err, a.Usage)
		case a.Stop != wire.Paused:
			return a, nil
		}
	}
	f := failf(contract.ClassUnavailable, "ask for less in one turn, or leave the provider's own tools out", "model %q: the provider paused its answer %d times", x.Ref(), maxPauses+1)
	f.Final = true
	return nil, contract.Spent(f, a.Usage)
}

// ask makes one request when its turn has come.
func (x *exchange) ask(out *wire.Outgoing) (*wire.Answer, error) {
	done, err := x.limits.acquire(x, x.size(out.Body))
	if err != nil {
		return nil, x.toFailure(x.ctx, err)
	}
	var a *wire.Answer
	err = x.awaitLoading(func() error {
		return x.roundTrip(out, func() (err error) {
			if err = x.read(out.Answer); err == nil {
				a, err = out.Answer.Result()
			}
			return err
		})
	})
	done(a, err)
	if err != nil && x.partial {
		err = x.cut(err, out.Answer.Spent())
	}
	return a, err
}

// ended is the end of the time of a call, with what its answer has taken until then.
type ended struct {
	error
	usage contract.Usage
}

func (e *ended) Unwrap() error { return e.error }

// spentOn is an error with what was taken before it.
func spentOn(err error, u contract.Usage) error {
	var e *ended
	switch {
	case errors.As(err, &e):
		u.Add(e.usage)
		return &ended{e.error, u}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &ended{err, u}
	}
	return contract.Spent(err, u)
}

// cut is the failure of a call whose answer ended after a part of it: the provider may charge for that part.
func (x *exchange) cut(err error, spent contract.Usage) error {
	spent.Cut = 1
	f := &contract.Failure{}
	if !errors.As(err, &f) {
		return &ended{err, spent}
	}
	out := contract.Spent(f, spent)
	if contract.Retryable(f.Class) && x.call.Cut >= x.cutRetries {
		out.Final = true
		out.Text += fmt.Sprintf(" (the answers of %d attempts were cut)", x.call.Cut+1)
		out.Remedy = fmt.Sprintf("ask for a shorter answer, or raise providers.%s.cut_retries", x.Provider)
	}
	return out
}

// precede makes the request that has to precede the call's own.
func (x *exchange) precede(out *wire.Outgoing) (*wire.Outgoing, error) {
	var body []byte
	err := x.roundTrip(out, func() (err error) {
		body, err = io.ReadAll(x.watch)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out.Then(body)
}

// roundTrip sends a request and reads the answer, while a watch waits for its bytes.
func (x *exchange) roundTrip(out *wire.Outgoing, read func() error) error {
	x.watch = newWatch(x.ctx, x.first, x.idle)
	defer x.watch.close()
	err := x.send(out)
	if err == nil {
		err = read()
	}
	var own *wire.Error
	var failure *contract.Failure
	switch {
	case err == nil && x.ctx.Err() == nil:
		return nil
	case errors.As(err, &own) && own.Reported != nil: // an error object in an answer that has status 200, or in an event of it
		err = x.refusal(newReport(http.StatusOK, x.watch.header, own.Reported, time.Now()))
	case !errors.As(err, &failure):
		err = x.watch.cause(err)
	}
	return x.toFailure(x.ctx, err)
}

// send sends a request and attaches the watch to the answer, unless its status is an error's.
func (x *exchange) send(out *wire.Outgoing) error {
	req, err := x.request(out)
	if err != nil {
		return err
	}
	resp, err := x.client.Do(req) //nolint:bodyclose // the watch closes it, whatever happens
	if err != nil {
		return err
	}
	x.watch.header, x.watch.body, x.watch.left = resp.Header, resp.Body, x.maxBody
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		// An error whose text is lost on the way is still the error of its status.
		text, _ := io.ReadAll(io.LimitReader(x.watch, 64<<10))
		return x.refusal(newReport(resp.StatusCode, resp.Header, text, time.Now()))
	}
	return nil
}

// refusal is the failure of what the provider reports. An answer that it withholds has been made, and may be charged.
func (x *exchange) refusal(r *report) error {
	x.unloaded, x.partial = r.loads(), x.partial || r.withholds()
	return x.reported(r)
}

// keyHeaders are the headers of keys, and what stands before the key.
var keyHeaders = map[string][2]string{
	wire.Chat: {"Authorization", "Bearer "}, wire.Claude: {"X-Api-Key"}, wire.Gemini: {"X-Goog-Api-Key"},
	wire.Converse: {"Authorization", "Bearer "}, wire.Cohere: {"Authorization", "Bearer "},
}

const claudeVersion = "2023-06-01"

func (x *exchange) request(out *wire.Outgoing) (*http.Request, error) {
	req, err := http.NewRequestWithContext(x.watch.ctx, http.MethodPost, out.URL, bytes.NewReader(out.Body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "weft")
	switch x.Protocol {
	case wire.Claude:
		req.Header.Set("Anthropic-Version", claudeVersion)
	case wire.OCI:
		req.Header.Set("Opc-Compartment-Id", x.Compartment) // only its native chat has it in the body
	}
	for name, value := range out.Header {
		req.Header.Set(name, value)
	}
	maps.Copy(req.Header, x.headers)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if out.Stream {
		req.Header.Set("Accept", "text/event-stream, application/json")
	}
	if key := x.call.IdempotencyKey; key != "" && out.Then == nil {
		if len(key) > 200 || strings.IndexFunc(key, notInHeader) >= 0 {
			key = contract.SHA([]byte(key))
		}
		// Lower case on purpose: Go's transport repeats a request that has the canonical name.
		req.Header["idempotency-key"] = []string{key}
	}
	if x.signer != nil {
		return req, x.signer.sign(x.provider, req)
	}
	if x.signsAWS() {
		return req, x.signAWS(req, out.Body)
	}
	if x.key != "" {
		form := keyHeaders[x.Protocol]
		req.Header.Set(form[0], form[1]+x.key)
	}
	return req, nil
}

// read reads an answer, whichever of the two forms the server chose: some answer a
// request for a stream with plain JSON, and some say the wrong content type.
func (x *exchange) read(to wire.Reader) error {
	r := bufio.NewReaderSize(x.watch, 32<<10)
	first, err := skipSpace(r)
	x.loaded()
	switch {
	case errors.Is(err, io.EOF):
		return wire.Invalidf("the answer is empty")
	case err != nil:
		return err
	case first == '{' || first == '[':
		return x.readWhole(to, r)
	case first == '<':
		start, _ := r.Peek(min(r.Buffered(), 200))
		return wire.Invalidf("the answer is a page, not JSON; check providers.%s.base_url (%s): %s", x.Provider, x.Base, start)
	}
	if first == 0 { // the length of a frame
		return x.readStream(to, frames(r))
	}
	return x.readStream(to, events(r))
}

// skipSpace drops the white space that servers send as keep-alives, and peeks at what follows.
func skipSpace(r *bufio.Reader) (byte, error) {
	for {
		b, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		if !unicode.IsSpace(rune(b)) {
			return b, r.UnreadByte()
		}
	}
}

func (x *exchange) readWhole(to wire.Reader, r io.Reader) error {
	raw, err := io.ReadAll(r)
	x.partial = bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{"))
	if err != nil {
		return err
	}
	if !json.Valid(raw) {
		if tooDeep(raw) {
			return errTooDeep
		}
		return wire.Invalidf("the answer is not JSON: %s", raw[:min(len(raw), 100)])
	}
	if _, err = to.Read(raw, false); err != nil {
		var own *wire.Error
		x.partial = !errors.As(err, &own) || own.Reported == nil
		return err
	}
	x.show(to)
	return nil
}

// afterFinish is how long a stream is read on for its usage once the answer is whole.
const afterFinish = 3 * time.Second

// readStream reads a streamed answer. Once it is complete, errors of the rest of the stream are ignored unless the
// provider reports them.
func (x *exchange) readStream(to wire.Reader, events iter.Seq2[[]byte, error]) error {
	for data, err := range events {
		done := false
		if err == nil {
			done, err = x.readEvent(to, data)
		}
		var own *wire.Error
		if err != nil && to.Complete() && !(errors.As(err, &own) && own.Reported != nil) {
			return x.ctx.Err()
		}
		if err != nil {
			return err
		}
		if to.Complete() {
			x.watch.idle = min(x.watch.idle, afterFinish)
		}
		x.show(to)
		if done {
			return nil
		}
	}
	return nil
}

// readEvent reads an event of a stream. done: nothing follows.
func (x *exchange) readEvent(to wire.Reader, data []byte) (done bool, err error) {
	switch {
	case isDone(data):
		if closed, ok := to.(interface{ End() }); ok {
			closed.End()
		}
		return true, nil
	case len(bytes.TrimSpace(data)) == 0:
		return false, nil
	}
	if done, err = to.Read(data, true); err != nil && tooDeep(data) {
		err = errTooDeep
	}
	x.partial = x.partial || err == nil
	x.count(to.Spent())
	return done, err
}

// errTooDeep is an answer that nests deeper than JSON is read. Another one would be no less deep.
var errTooDeep = &wire.Error{Class: contract.ClassTooLarge, Text: "the answer nests deeper than JSON is read"}

// tooDeep reports whether it is for its depth that JSON cannot be read.
func tooDeep(raw []byte) bool {
	var wrong *json.SyntaxError
	return errors.As(json.Unmarshal(raw, new(json.RawMessage)), &wrong) && strings.Contains(wrong.Error(), "max depth")
}

// count tells the caller what the answer under way has taken so far.
func (x *exchange) count(spent contract.Usage) {
	if spent.Cut = 1; x.partial && x.call.Spent != nil && !reflect.DeepEqual(x.counted, spent) {
		x.counted = spent
		x.call.Spent(spent)
	}
}

// show hands the text to whoever watches, if it has grown.
func (x *exchange) show(to wire.Reader) {
	text := x.before + to.Text()
	if len(text) > x.shown && x.call.Partial != nil {
		x.call.Partial(text)
	}
	x.shown = len(text)
}
