package llm

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
)

// remote is a model behind HTTP: what all protocols share. See [protocol] for the rest.
type remote struct {
	*provider
	model string
}

var _ llms.Model = (*remote)(nil)

// protocol is one family's way to write a request and to read an answer.
type protocol interface {
	// encode gives a request. What cannot be sent is a bad_request.
	encode(call *Call, in []llms.MessageContent, o *llms.CallOptions) (*outgoing, error)
	// authorize puts the key into a request.
	authorize(req *http.Request, body []byte) error
	// reader reads the answer of one exchange.
	reader(x *exchange) reader
}

// outgoing is an encoded request.
type outgoing struct {
	// path is appended to the base URL.
	path string
	// base, if set, stands for the provider's base URL.
	base   string
	body   []byte
	stream bool
}

// reader puts one answer together.
type reader interface {
	// read reads a whole answer, or an event of a stream, and returns the added text. done: nothing follows.
	read(raw []byte, streamed bool) (text string, done bool, err error)
	// complete reports whether the answer has its stop reason, whatever else follows.
	complete() bool
	// soFar is all text so far.
	soFar() string
	// response checks the answer and turns it into langchaingo's.
	response() (*llms.ContentResponse, error)
}

// ref is how a flow names the model.
func (c *remote) ref() string { return c.name + "/" + c.model }

// Call answers one prompt; see [llms.GenerateFromSinglePrompt].
func (c *remote) Call(ctx context.Context, prompt string, opts ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, c, prompt, opts...)
}

// exchange is one request and its answer.
type exchange struct {
	*remote
	ctx     context.Context
	call    *Call
	in      []llms.MessageContent
	opts    *llms.CallOptions
	watch   *watch
	header  http.Header
	stopped bool
}

// GenerateContent makes one request. Unsupported options fail with bad_request. Temperature, top_p and seed
// are sent only if set, also if 0. Its errors are [contract.Failure]s, or the context's own.
func (c *remote) GenerateContent(ctx context.Context, in []llms.MessageContent, opts ...llms.CallOption) (*llms.ContentResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	o := optionsOf(opts)
	x := &exchange{remote: c, ctx: ctx, call: CallFrom(ctx), opts: o}
	if err := c.supported(x.call, o); err != nil {
		return nil, err
	}
	if err := c.checkMessages(in); err != nil {
		return nil, err
	}
	in = c.placeImages(in)
	x.in = in
	p := c.newProtocol()
	if agent, ok := p.(*ociAgent); ok {
		if err := agent.start(ctx, x, in); err != nil {
			return nil, c.toFailure(ctx, err)
		}
	}
	out, err := p.encode(x.call, in, o)
	if err != nil {
		return nil, err
	}
	resp, err := x.ask(p, out)
	if x.refusesSchema(err) {
		x.call = x.call.withoutFormat()
		plain, wrong := p.encode(x.call, in, o)
		if wrong != nil || bytes.Equal(plain.body, out.body) {
			return nil, err
		}
		return x.ask(p, plain)
	}
	return resp, err
}

// ask makes one request when its turn has come.
func (x *exchange) ask(p protocol, out *outgoing) (*llms.ContentResponse, error) {
	done, err := x.limits.acquire(x, x.size(out.body))
	if err != nil {
		return nil, x.toFailure(x.ctx, err)
	}
	x.watch = newWatch(x.ctx, x.first, x.idle)
	defer x.watch.close()
	resp, err := x.run(p, out)
	done(resp)
	if err == nil {
		err = x.ctx.Err()
	}
	if err != nil {
		return nil, x.toFailure(x.ctx, err)
	}
	return resp, nil
}

// optionsOf applies options to values that say unset.
func optionsOf(opts []llms.CallOption) *llms.CallOptions {
	o := &llms.CallOptions{Temperature: -1, TopP: -1, Seed: -1}
	for _, opt := range opts {
		opt(o)
	}
	return o
}

func (x *exchange) run(p protocol, out *outgoing) (*llms.ContentResponse, error) {
	req, err := x.request(p, out)
	if err != nil {
		return nil, x.watch.cause(err) // signing in can take the time of the first byte
	}
	resp, err := x.client.Do(req) //nolint:bodyclose // the watch closes it, whatever happens
	if err != nil {
		return nil, x.watch.cause(err)
	}
	x.header = resp.Header
	x.watch.attach(resp.Body, x.maxBody)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		// An error whose text is lost on the way is still the error of its status.
		text, _ := io.ReadAll(io.LimitReader(x.watch, 64<<10))
		return nil, x.reported(newReport(resp.StatusCode, resp.Header, text, time.Now()))
	}
	r := p.reader(x)
	if err := x.read(r); err != nil {
		return nil, err
	}
	return r.response()
}

func (x *exchange) request(p protocol, out *outgoing) (*http.Request, error) {
	req, err := http.NewRequestWithContext(x.watch.ctx, http.MethodPost, cmp.Or(out.base, x.base)+out.path, bytes.NewReader(out.body))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, x.headers)
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "weft")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if out.stream {
		req.Header.Set("Accept", "text/event-stream, application/json")
	}
	if key := x.call.IdempotencyKey; key != "" {
		if len(key) > 200 || strings.IndexFunc(key, notInHeader) >= 0 {
			key = digest(key)
		}
		// Lower case on purpose: Go's transport repeats a request that has the canonical name.
		req.Header["idempotency-key"] = []string{key}
	}
	return req, p.authorize(req, out.body)
}

// read reads an answer, whichever of the two forms the server chose: some answer a
// request for a stream with plain JSON, and some say the wrong content type.
func (x *exchange) read(to reader) error {
	r := bufio.NewReaderSize(x.watch, 32<<10)
	first, err := skipSpace(r)
	switch {
	case errors.Is(err, io.EOF):
		return invalidf("the answer is empty")
	case err != nil:
		return x.watch.cause(err)
	case first == '{' || first == '[':
		return x.readWhole(to, r)
	case first == '<':
		start, _ := r.Peek(min(r.Buffered(), 200))
		return invalidf("the answer is a page, not JSON; check providers.%s.base_url (%s): %s", x.name, x.base, start)
	}
	return x.readStream(to, r)
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

func (x *exchange) readWhole(to reader, r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return x.watch.cause(err)
	}
	if !json.Valid(raw) {
		return invalidf("the answer is not JSON: %s", excerpt(raw))
	}
	text, _, err := to.read(raw, false)
	if err != nil {
		return err
	}
	return x.emit(to, text)
}

// providerError is an error object in an answer that has status 200, or in an event of it.
func (x *exchange) providerError(raw []byte) error {
	x.stopped = true
	return x.reported(newReport(http.StatusOK, x.header, raw, time.Now()))
}

// emit hands new text to whoever watches.
func (x *exchange) emit(to reader, text string) error {
	if text == "" {
		return nil
	}
	if x.call.Partial != nil {
		x.call.Partial(to.soFar())
	}
	if x.opts.StreamingFunc != nil {
		if err := x.opts.StreamingFunc(x.ctx, []byte(text)); err != nil {
			x.stopped = true
			return failf(contract.ClassUnavailable, "", "the receiver of the stream stopped it: %v", err)
		}
	}
	return nil
}
