package llm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
)

// compatible is a model behind OpenAI's chat completions protocol, as the row of its
// provider says that it is spoken there.
type compatible struct {
	*provider
	model string
}

var _ llms.Model = (*compatible)(nil)

// ref is how a flow names the model.
func (c *compatible) ref() string { return c.name + "/" + c.model }

// Call answers one prompt; see [llms.GenerateFromSinglePrompt].
func (c *compatible) Call(ctx context.Context, prompt string, opts ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, c, prompt, opts...)
}

// exchange is one request and its answer.
type exchange struct {
	ctx     context.Context
	call    *Call
	opts    *llms.CallOptions
	watch   *watch
	header  http.Header
	stopped bool
}

// GenerateContent makes one request. Options that no provider here takes are refused
// with bad_request; temperature, top_p and seed are unset unless an option sets them, and
// 0 is a value of theirs. Its errors are [contract.Failure]s, or the context's own.
func (c *compatible) GenerateContent(ctx context.Context, in []llms.MessageContent, opts ...llms.CallOption) (*llms.ContentResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	o := llms.CallOptions{Temperature: -1, TopP: -1, Seed: -1}
	for _, opt := range opts {
		opt(&o)
	}
	if names := unsupported(&o); len(names) > 0 {
		return nil, c.unsendable("the options %s are not supported", strings.Join(names, ", "))
	}
	x := &exchange{ctx: ctx, call: CallFrom(ctx), opts: &o}
	raw, stream, err := c.encode(x.call, in, &o)
	if err != nil {
		return nil, err
	}
	x.watch = newWatch(ctx, c.first, c.idle)
	defer x.watch.close()
	out, err := c.exchange(x, raw, stream)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, c.broken(ctx, err)
	}
	return out, nil
}

// unsupported names the options that would otherwise be dropped in silence.
func unsupported(o *llms.CallOptions) []string {
	var out []string
	for _, opt := range []struct {
		name string
		set  bool
	}{
		{"top_k", o.TopK != 0}, {"n", o.N > 1}, {"candidate_count", o.CandidateCount > 1}, {"min_length", o.MinLength != 0},
		{"max_length", o.MaxLength != 0}, {"repetition_penalty", o.RepetitionPenalty != 0}, {"frequency_penalty", o.FrequencyPenalty != 0},
		{"presence_penalty", o.PresencePenalty != 0}, {"functions", len(o.Functions) > 0}, {"function_call", o.FunctionCallBehavior != ""},
		{"response_mime_type", o.ResponseMIMEType != "" && o.ResponseMIMEType != "text/plain"},
	} {
		if opt.set {
			out = append(out, opt.name)
		}
	}
	return out
}

func (c *compatible) exchange(x *exchange, raw []byte, stream bool) (*llms.ContentResponse, error) {
	req, err := c.request(x, raw, stream)
	if err != nil {
		return nil, err
	}
	resp, err := c.client.Do(req) //nolint:bodyclose // the watch closes it, whatever happens
	if err != nil {
		return nil, x.watch.fault(err)
	}
	x.header = resp.Header
	x.watch.attach(resp.Body, c.maxBody)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		// An error whose text is lost on the way is still the error of its status.
		text, _ := io.ReadAll(io.LimitReader(x.watch, 64<<10))
		return nil, c.reported(newReport(resp.StatusCode, resp.Header, text, time.Now()))
	}
	a, err := c.read(x)
	if err != nil {
		return nil, err
	}
	return a.response(c)
}

func (c *compatible) request(x *exchange, raw []byte, stream bool) (*http.Request, error) {
	req, err := http.NewRequestWithContext(x.watch.ctx, http.MethodPost, c.base+"/chat/completions", bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	for k, v := range c.headers {
		req.Header[k] = v
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "weft")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if stream {
		req.Header.Set("Accept", "text/event-stream, application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	if key := x.call.IdempotencyKey; key != "" {
		if len(key) > 200 || strings.IndexFunc(key, notInHeader) >= 0 {
			key = digest(key)
		}
		// In lower case on purpose: under its canonical name Go's transport takes the
		// request for repeatable and sends it again when a connection breaks.
		req.Header["idempotency-key"] = []string{key}
	}
	return req, nil
}

// read reads an answer, whichever of the two forms the server chose: some answer a
// request for a stream with plain JSON, and some say the wrong content type.
func (c *compatible) read(x *exchange) (*assembly, error) {
	r := bufio.NewReaderSize(x.watch, 32<<10)
	first, err := skipSpace(r)
	switch {
	case errors.Is(err, io.EOF):
		return nil, badf("the answer is empty")
	case err != nil:
		return nil, x.watch.fault(err)
	case first == '{' || first == '[':
		return c.readWhole(x, r)
	case first == '<':
		start, _ := r.Peek(min(r.Buffered(), 200))
		return nil, badf("the answer is a page, not JSON; check providers.%s.base_url (%s): %s", c.name, c.base, start)
	}
	return c.readStream(x, r)
}

// skipSpace drops the blanks by which servers keep a waiting connection alive, and peeks
// at what follows.
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

func (c *compatible) readWhole(x *exchange, r io.Reader) (*assembly, error) {
	raw, err := io.ReadAll(r)
	if err != nil {
		return nil, x.watch.fault(err)
	}
	var ch chunk
	if err := json.Unmarshal(raw, &ch); err != nil {
		if !json.Valid(raw) {
			return nil, badf("the answer is no JSON (%v): %s", err, cut(string(raw), 100))
		}
		return nil, c.reported(newReport(http.StatusOK, x.header, raw, time.Now()))
	}
	if f := c.problemIn(x, &ch, raw); f != nil {
		return nil, f
	}
	if len(ch.Choices) == 0 {
		return nil, badf("the answer has no choices: %s", cut(string(raw), 100))
	}
	a := &assembly{}
	text, err := a.add(&ch, false)
	if err != nil {
		return nil, err
	}
	return a, x.emit(a, text)
}

// problemIn finds an error object in an answer that has status 200, or in an event of it.
func (c *compatible) problemIn(x *exchange, ch *chunk, raw []byte) error {
	found := json.RawMessage(nil)
	switch {
	case isSet(ch.Error):
		found = ch.Error
	case ch.Object == "error":
		found = raw
	default:
		for i := range ch.Choices {
			if isSet(ch.Choices[i].Error) {
				found = ch.Choices[i].Error
			}
		}
	}
	if found == nil {
		return nil
	}
	x.stopped = true
	return c.reported(newReport(http.StatusOK, x.header, found, time.Now()))
}

// emit hands new text to whoever watches.
func (x *exchange) emit(a *assembly, text string) error {
	if text == "" {
		return nil
	}
	if x.call.Partial != nil {
		x.call.Partial(a.text.String())
	}
	if x.opts.StreamingFunc != nil {
		if err := x.opts.StreamingFunc(x.ctx, []byte(text)); err != nil {
			x.stopped = true
			return &contract.Failure{Class: contract.ClassUnavailable, Text: fmt.Sprintf("the receiver of the stream stopped it: %v", err)}
		}
	}
	return nil
}
