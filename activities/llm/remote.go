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

// exchange is the state of one call of a remote model, which may need several requests.
type exchange struct {
	*provider
	ctx   context.Context
	call  *Call
	watch *watch
	// streamed is the length of the text last passed to [Call].Partial, in bytes.
	streamed int
	// partial is set if part of an answer was received.
	partial bool
	// reportedUsage is the usage last passed to [Call].Spent.
	reportedUsage contract.Usage
	// prefix is the text of a paused answer that is being continued.
	prefix string
	// modelLoading is set if the server rejected the request because it is loading the model, loadingReported if Loading was called.
	modelLoading, loadingReported bool
	// admitted is set once the shared limits have let a request of the call pass.
	admitted bool
}

// answer makes one call. Unsupported parameters fail with bad_request. Its error is a [contract.Failure], or the
// context's error.
func (p *provider) answer(ctx context.Context, call *Call) (*wire.Answer, error) {
	x := &exchange{provider: p, ctx: ctx, call: call}
	if err := p.checkSupported(call); err != nil {
		return nil, err
	}
	out, err := p.Encode(&call.Request)
	if err == nil && out.Then != nil {
		out, err = x.sendPrerequisite(out)
	}
	if err != nil {
		return nil, p.toFailure(ctx, err)
	}
	state := p.state(ctx)
	if state.loading {
		x.reportLoading()
	}
	defer x.reportLoaded()
	a, err := x.complete(out)
	if err == nil {
		if state.loading {
			state = p.state(ctx)
		}
		a.Context = state.context
	}
	return a, err
}

// complete sends a request, continues a paused answer, and retries once without what the server rejected.
func (x *exchange) complete(out *wire.Outgoing) (*wire.Answer, error) {
	a, err := x.ask(out)
	if err == nil && a.Stop == wire.Paused {
		return x.resume(a)
	}
	if reduced := x.dropRejected(err); reduced != nil {
		x.call = reduced
		retry, encodeErr := x.Encode(&x.call.Request)
		if encodeErr != nil || retry.Then != nil || bytes.Equal(retry.Body, out.Body) {
			return nil, err
		}
		return x.ask(retry)
	}
	return a, err
}

// maxPauses limits how often a provider may pause one answer.
const maxPauses = 10

// resume continues a paused answer until it is complete. The last message of each request is the answer so far.
func (x *exchange) resume(a *wire.Answer) (*wire.Answer, error) {
	original := x.call
	for range maxPauses {
		continued := *original
		continued.Messages = append(slices.Clip(original.Messages), a.Message)
		x.call, x.prefix, x.streamed = &continued, a.Message.Text, 0
		out, err := x.Encode(&continued.Request)
		if err != nil {
			return nil, x.toFailure(x.ctx, err)
		}
		next, err := x.ask(out)
		if err == nil {
			a, err = wire.Join(a, next)
		}
		switch {
		case err != nil:
			return nil, withUsage(err, a.Usage)
		case a.Stop != wire.Paused:
			return a, nil
		}
	}
	f := failf(contract.ClassUnavailable, "ask for less in one turn, or remove the provider's own tools", "model %q: the provider paused its answer %d times", x.Ref(), maxPauses+1)
	f.Final = true
	return nil, contract.Spent(f, a.Usage)
}

// ask sends one request, once the limits allow it.
func (x *exchange) ask(out *wire.Outgoing) (*wire.Answer, error) {
	done, err := x.limits.acquire(x, x.countedSize(out.Body))
	if err != nil {
		return nil, x.toFailure(x.ctx, err)
	}
	var a *wire.Answer
	err = x.retryWhileLoading(func() error {
		return x.roundTrip(out, func() (err error) {
			if err = x.read(out.Answer); err == nil {
				a, err = out.Answer.Result()
			}
			return err
		})
	})
	done(a, err)
	if err != nil && x.partial {
		err = x.interruptedFailure(err, out.Answer.Spent())
	}
	return a, err
}

// contextError is the context's error of a call, with the usage until then.
type contextError struct {
	error
	usage contract.Usage
}

func (e *contextError) Unwrap() error { return e.error }

// withUsage adds the usage before an error to it.
func withUsage(err error, u contract.Usage) error {
	var e *contextError
	switch {
	case errors.As(err, &e):
		u.Add(e.usage)
		return &contextError{e.error, u}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &contextError{err, u}
	}
	return contract.Spent(err, u)
}

// interruptedFailure returns the error of a call whose answer was cut off, with its usage: the provider may charge for
// the part that was received.
func (x *exchange) interruptedFailure(err error, spent contract.Usage) error {
	spent.Cut = 1
	f := &contract.Failure{}
	if !errors.As(err, &f) {
		return &contextError{err, spent}
	}
	out := contract.Spent(f, spent)
	if contract.Retryable(f.Class) && x.call.Cut >= x.cutRetries {
		out.Final = true
		out.Text += fmt.Sprintf(" (the answers of %d attempts were cut off)", x.call.Cut+1)
		out.Remedy = fmt.Sprintf("ask for a shorter answer, or raise providers.%s.cut_retries", x.Provider)
	}
	return out
}

// sendPrerequisite sends a request that the call's request depends on, and returns the latter.
func (x *exchange) sendPrerequisite(out *wire.Outgoing) (*wire.Outgoing, error) {
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

// roundTrip sends a request and reads the response, with timeouts between its bytes.
func (x *exchange) roundTrip(out *wire.Outgoing, read func() error) error {
	x.watch = newWatch(x.ctx, x.firstByte, x.idle)
	defer x.watch.close()
	err := x.send(out)
	if err == nil {
		err = read()
	}
	var reported *wire.Error
	var failure *contract.Failure
	switch {
	case err == nil && x.ctx.Err() == nil:
		return nil
	case errors.As(err, &reported) && reported.Reported != nil: // an error object in a 200 response or in one of its events
		err = x.handleReport(newReport(http.StatusOK, x.watch.header, reported.Reported, time.Now()))
	case !errors.As(err, &failure):
		err = x.watch.cause(err)
	}
	return x.toFailure(x.ctx, err)
}

// send sends a request and attaches the watch to the response. An error status is returned as a failure.
func (x *exchange) send(out *wire.Outgoing) error {
	req, err := x.request(out)
	if err != nil {
		return err
	}
	resp, err := x.client.Do(req) //nolint:bodyclose // the watch closes it, whatever happens
	if err != nil {
		return err
	}
	x.watch.header, x.watch.body, x.watch.remaining = resp.Header, resp.Body, x.maxBody
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		// If the text cannot be read, the status still determines the failure.
		text, _ := io.ReadAll(io.LimitReader(x.watch, 64<<10))
		return x.handleReport(newReport(resp.StatusCode, resp.Header, text, time.Now()))
	}
	return nil
}

// handleReport returns the failure for an error reported by the provider. An answer that it withholds may be charged.
func (x *exchange) handleReport(r *report) error {
	x.modelLoading, x.partial = r.modelLoading(), x.partial || r.answerWithheld()
	return x.failureFrom(r)
}

// keyHeaders are the name of the header for the key and the prefix of its value, by protocol.
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
		req.Header.Set("Opc-Compartment-Id", x.Compartment) // only the native chat has it in the body
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
		// Lower case on purpose: Go's transport retries requests that have the canonical name.
		req.Header["idempotency-key"] = []string{key}
	}
	if x.signer != nil {
		return req, x.signer.sign(x.provider, req)
	}
	if x.signsAWS() {
		return req, x.signAWS(req, out.Body)
	}
	if x.key != "" {
		header := keyHeaders[x.Protocol]
		req.Header.Set(header[0], header[1]+x.key)
	}
	return req, nil
}

// read reads a response, streamed or not, judging by its first byte: some servers answer a request for a stream
// with plain JSON, and some send the wrong content type.
func (x *exchange) read(to wire.Reader) error {
	r := bufio.NewReaderSize(x.watch, 32<<10)
	first, err := skipSpace(r)
	x.reportLoaded()
	switch {
	case errors.Is(err, io.EOF):
		return wire.Invalidf("the response is empty")
	case err != nil:
		return err
	case first == '{' || first == '[':
		return x.readJSON(to, r)
	case first == '<':
		start, _ := r.Peek(min(r.Buffered(), 200))
		return wire.Invalidf("the response is an HTML page, not JSON; check providers.%s.base_url (%s): %s", x.Provider, x.Base, start)
	}
	if first == 0 { // the length of a frame
		return x.readStream(to, awsEvents(r))
	}
	return x.readStream(to, events(r))
}

// skipSpace skips the white space that servers send as keep-alives, and peeks at the next byte.
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

func (x *exchange) readJSON(to wire.Reader, r io.Reader) error {
	raw, err := io.ReadAll(r)
	x.partial = bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{"))
	if err != nil {
		return err
	}
	if !json.Valid(raw) {
		if tooDeep(raw) {
			return errTooDeep
		}
		return wire.Invalidf("the response is not JSON: %s", raw[:min(len(raw), 100)])
	}
	if _, err = to.Read(raw, false); err != nil {
		var reported *wire.Error
		x.partial = !errors.As(err, &reported) || reported.Reported == nil
		return err
	}
	x.reportText(to)
	return nil
}

// trailingTimeout limits the wait for the usage after the end of an answer.
const trailingTimeout = 3 * time.Second

// readStream reads a streamed answer. Once it is complete, later errors are ignored unless the provider reports them.
func (x *exchange) readStream(to wire.Reader, events iter.Seq2[[]byte, error]) error {
	for data, err := range events {
		done := false
		if err == nil {
			done, err = x.readEvent(to, data)
		}
		var reported *wire.Error
		if err != nil && to.Complete() && !(errors.As(err, &reported) && reported.Reported != nil) {
			return x.ctx.Err()
		}
		if err != nil {
			return err
		}
		if to.Complete() {
			x.watch.idle = min(x.watch.idle, trailingTimeout)
		}
		x.reportText(to)
		if done {
			return nil
		}
	}
	return nil
}

// readEvent reads an event of a stream. It reports whether it was the last one.
func (x *exchange) readEvent(to wire.Reader, data []byte) (done bool, err error) {
	switch {
	case isDone(data):
		if ender, ok := to.(interface{ End() }); ok {
			ender.End()
		}
		return true, nil
	case len(bytes.TrimSpace(data)) == 0:
		return false, nil
	}
	if done, err = to.Read(data, true); err != nil && tooDeep(data) {
		err = errTooDeep
	}
	x.partial = x.partial || err == nil
	x.reportUsage(to.Spent())
	return done, err
}

// errTooDeep is the error for an answer that is nested too deeply to be parsed. A retry would not help.
var errTooDeep = &wire.Error{Class: contract.ClassTooLarge, Text: "the answer is nested too deeply for the JSON parser"}

// tooDeep reports whether JSON is invalid only because of its depth.
func tooDeep(raw []byte) bool {
	var syntaxErr *json.SyntaxError
	return errors.As(json.Unmarshal(raw, new(json.RawMessage)), &syntaxErr) && strings.Contains(syntaxErr.Error(), "max depth")
}

// reportUsage reports the usage so far of the answer being received to the caller.
func (x *exchange) reportUsage(spent contract.Usage) {
	if spent.Cut = 1; x.partial && x.call.Spent != nil && !reflect.DeepEqual(x.reportedUsage, spent) {
		x.reportedUsage = spent
		x.call.Spent(spent)
	}
}

// reportText passes the text to [Call].Partial if it has grown.
func (x *exchange) reportText(to wire.Reader) {
	text := x.prefix + to.Text()
	if len(text) > x.streamed && x.call.Partial != nil {
		x.call.Partial(text)
	}
	x.streamed = len(text)
}
