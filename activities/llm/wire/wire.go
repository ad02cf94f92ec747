// Package wire implements the protocols of language models: it encodes a [Request] as the body of an HTTP request and decodes
// a response, complete or streamed, to an [Answer]. It does no I/O, does not handle keys, and does not classify errors that
// a provider reports.
//
// Start at [Model.Encode], then read chat.go; the other protocols have the same structure.
package wire

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
	"weft/activities/textutil"
)

// The values of [Server.Protocol].
const (
	// Chat is OpenAI's chat completions, the default.
	Chat = ""
	// Claude is Anthropic's Messages API.
	Claude = "claude"
	// Gemini is Google's generateContent.
	Gemini = "gemini"
	// OCI is the chat of Oracle's Generative AI service.
	OCI = "oci"
	// Cohere is Cohere's chat, version 2.
	Cohere = "cohere"
	// Converse is Amazon Bedrock's Converse API.
	Converse = "converse"
	// Responses is OpenAI's Responses API, see [Server.Responses].
	Responses = "responses"
)

// Values of [Server.Reasoning] other than the name of a field.
const (
	// SameField sends reasoning back in the field in which it was received.
	SameField = "same field"
	// InContent sends reasoning back as a part of the content.
	InContent = "content"
)

var protocols = map[string]func(*Model, *Request) (*Outgoing, error){
	Chat: encodeChat, Claude: encodeClaude, Gemini: encodeGemini, OCI: encodeOCI, Cohere: encodeCohere, Converse: encodeConverse, Responses: encodeResponses,
}

// Server describes how a kind of server differs from others with the same protocol.
type Server struct {
	// Protocol is [Chat] or another of its constants.
	Protocol string
	// Responses are prefixes of models that are called through OpenAI's Responses API instead of chat completions, unless
	// [Model.API] or the request selects an API.
	Responses []string
	// Schema, JSON: response_format supports json_schema, json_object.
	Schema bool
	JSON   bool
	// PlainSchema: response_format has the schema also in its own field, schema.
	PlainSchema bool
	// StrictSchema: a schema must describe an object, and can be enforced strictly.
	StrictSchema bool
	// FormatWithTools: response_format can be sent with tools. Other servers reject it or stop calling tools.
	FormatWithTools bool
	// ToolChoice: tool_choice is respected. For other servers, tools are omitted if the choice is "none".
	ToolChoice bool
	// ToolChoiceModeOnly: tool_choice cannot name a tool. A tool that must be called is the only one sent.
	ToolChoiceModeOnly bool
	// UnaryTools: requests with tools are not streamed, because the server's streams lose calls.
	UnaryTools bool
	// StreamUsage: a stream has usage only if stream_options requests it.
	StreamUsage bool
	// ParamNames maps parameters to their names at the server, if different; "a.b" is the field b of the object a.
	ParamNames map[string]string
	// NoSampling are prefixes of models that reject temperature and top_p.
	NoSampling []string
	// Reasoning is the field in which reasoning is sent back to its provider, [SameField] or [InContent]; empty: it is not.
	Reasoning string
	// CacheRequest is the prefix of models for which requests must enable prompt caching; empty: none.
	CacheRequest string
	// CacheSystem and CacheTurns are the prefixes of models for which the system prompt, or the turns, need cache markers;
	// empty: none.
	CacheSystem, CacheTurns string
	// CacheKey: requests of one conversation have the same prompt_cache_key; CacheHeader, if set, replaces it in chat completions.
	CacheKey    bool
	CacheHeader string
	// OptionalFinish: a complete JSON response, or a stream that ends with [DONE], needs no finish reason.
	OptionalFinish bool
	// RawArguments: arguments of calls that are not a JSON object are sent back unchanged. For other servers they are wrapped
	// in one.
	RawArguments bool
	// ResultImages: tool results can have images. For other servers, images are in a user message after the results.
	ResultImages bool
	// ResultDocuments: tool results can have documents.
	ResultDocuments bool
	// Documents and Audio are substrings of the names of models that accept PDF documents or recordings; "" matches any model.
	Documents, Audio []string
	// MediaForm is [MediaMistral] or [MediaDataURL]; empty is OpenAI's form.
	MediaForm string
	// BridgeResults: a user message may not follow tool results directly; an assistant message is inserted.
	BridgeResults bool
	// CallIDs is the rule for ids of tool calls.
	CallIDs IDRule
	// ToolName: tool results have the tool's name.
	ToolName bool
}

// Model is a model on a server.
type Model struct {
	Server
	// Provider is the server's name in references. A message's provider data is sent back only to the provider of that name.
	Provider string
	// Name is the model's name on the server.
	Name string
	// Base is the URL to which the protocol's path, such as /chat/completions, is appended.
	Base string
	// Compartment is the OCI compartment that is charged.
	Compartment string
	// API selects [APIChat] or [APIResponses]; empty means the server's default for the model.
	API string
	// Unary disables streaming, NoCache the cache markers. NoImages replaces images, documents and recordings by a note.
	Unary    bool
	NoCache  bool
	NoImages bool
	// TextCalls enables parsing of tool calls that the server left in an answer's text, see [callsInText].
	TextCalls bool
}

// Ref returns the reference to the model, provider/model.
func (m *Model) Ref() string { return m.Provider + "/" + m.Name }

// Request is a request to a model. Its messages have no parts, only text.
type Request struct {
	System   string
	Messages []contract.Message
	// Options are the tools, the tool choice and the parameters. Temperature, top_p and seed are unset if negative.
	Options llms.CallOptions
	// Schema is the JSON Schema of the answer; JSON requests an answer in JSON. Both are sent only if the provider supports
	// them: the caller must validate the answer.
	Schema json.RawMessage
	JSON   bool
	// Parallel, if set, allows or forbids several tool calls in one answer. Effort is the reasoning effort: none, minimal, low,
	// medium, high, xhigh or max. Extra is an object of further request fields.
	Parallel *bool
	Effort   string
	Extra    json.RawMessage
	// API, if set, overrides [Model.API].
	API string
	// Conversation identifies the conversation for the provider's prompt cache; it may be empty.
	Conversation string
	// Once means that no further turn is likely, so that caching the prompt does not pay off.
	Once bool
}

// Outgoing is an encoded request.
type Outgoing struct {
	URL    string
	Body   []byte
	Stream bool
	// Header holds additional headers; it may be nil.
	Header map[string]string
	// Answer reads the response. If Then is set, Answer is not used: Then creates the next request from the response's body.
	Answer Reader
	Then   func(body []byte) (*Outgoing, error)
}

// Reader assembles an answer from a response.
type Reader interface {
	// Read reads a complete response or, if streamed, an event of a stream. done reports whether it was the last event.
	Read(raw []byte, streamed bool) (done bool, err error)
	// Complete reports whether the answer has its stop reason; usage may still follow.
	Complete() bool
	// Text returns all text so far.
	Text() string
	// Spent returns the usage that the provider has reported so far.
	Spent() contract.Usage
	// Result returns the answer, or an error if it is incomplete.
	Result() (*Answer, error)
}

// Answer is a model's complete answer.
type Answer struct {
	// Message is the assistant's message.
	Message contract.Message
	// Stop is stop, length, tool_calls or content_filter, [Paused], or a reason of the provider's own.
	Stop string
	// Model is provider/model, with the model's name as reported by the provider; "script" for scripted answers.
	Model string
	// Refusal is the reason why the model refused; empty if it did not.
	Refusal string
	// Usage counts one call.
	Usage contract.Usage
	// Context is the model's context size in tokens, as reported by its server; 0 if unknown.
	Context int
}

// Error is the error for a request that cannot be sent, or a response that cannot be used.
type Error struct {
	// Class is the class of the failure, see [contract.Failure], and Text the message.
	Class, Text string
	// Reported, if set, is the error object that the provider sent; Class and Text are then empty.
	Reported []byte
}

// Error returns the text, or the provider's error object.
func (e *Error) Error() string { return e.Text + string(e.Reported) }

func unsendable(format string, args ...any) error {
	return &Error{Class: contract.ClassBadRequest, Text: fmt.Sprintf(format, args...)}
}

// Invalidf returns the [Error] for an answer that is invalid or cut off: another attempt may succeed.
func Invalidf(format string, args ...any) error {
	return &Error{Class: contract.ClassUnavailable, Text: fmt.Sprintf(format, args...)}
}

// Encode encodes a request. It fails with class bad_request if the conversation or schema cannot be sent.
func (m *Model) Encode(q *Request) (*Outgoing, error) {
	if m.usesResponses(q) {
		responses := *m
		if m.Protocol == OCI {
			responses.Base += ociOpenAI
		}
		responses.Protocol, responses.ResultImages, responses.ResultDocuments, responses.CallIDs = Responses, true, true, cmp.Or(m.CallIDs, IDsMax40)
		m = &responses
	}
	placed := *q
	placed.Messages = m.placeMedia(q.Messages)
	return protocols[m.Protocol](m, &placed)
}

// object is a JSON object of a request. Its keys are encoded in sorted order, so that equal requests have equal bytes.
type object = map[string]any

func excerpt(raw []byte) string { return textutil.Truncate(string(raw), 100) }
