// Package wire implements the protocols of language models: it encodes a [Request] as the body of an HTTP request and decodes
// a response, complete or streamed, to an [Answer]. It does no I/O, has no keys, and does not classify errors that a
// provider reports.
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

// The protocols that servers speak, see [Server].
const (
	// Chat is OpenAI's chat completions; the zero value.
	Chat = ""
	// Claude is Anthropic's messages.
	Claude = "claude"
	// Gemini is Google's generateContent.
	Gemini = "gemini"
	// OCI is the chat of Oracle's Generative AI service.
	OCI = "oci"
	// Cohere is Cohere's chat, version 2.
	Cohere = "cohere"
	// Converse is Amazon Bedrock's.
	Converse = "converse"
	// Responses are OpenAI's, see [Server.Responses].
	Responses = "responses"
)

// Values of [Server.Reasoning] that are no field.
const (
	// AsItCame is the field in which it came.
	AsItCame = "as it came"
	// InContent is a part of the content.
	InContent = "content"
)

var protocols = map[string]func(*Model, *Request) (*Outgoing, error){
	Chat: encodeChat, Claude: encodeClaude, Gemini: encodeGemini, OCI: encodeOCI, Cohere: encodeCohere, Converse: encodeConverse, Responses: encodeResponses,
}

// Server says how one kind of server differs from others of its protocol.
type Server struct {
	// Protocol is one of the constants; empty is OpenAI's chat completions.
	Protocol string
	// Responses are prefixes of the server's models that are asked by OpenAI's Responses instead of chat completions,
	// unless [Model.API] or the request says otherwise.
	Responses []string
	// Schema, JSON: the server takes response_format json_schema, json_object.
	Schema bool
	JSON   bool
	// PlainSchema: response_format has the schema itself beside json_schema.
	PlainSchema bool
	// StrictSchema: a schema must be of an object, and can be enforced strictly.
	StrictSchema bool
	// FormatWithTools: response_format can be sent with tools. Others refuse it or stop calling tools.
	FormatWithTools bool
	// ToolChoice means that tool_choice is obeyed. Elsewhere "none" sends no tools.
	ToolChoice bool
	// ChoiceWords: tool_choice is a word. A tool that must be called is the only one sent.
	ChoiceWords bool
	// UnaryTools: requests with tools are not streamed, because the server's streams lose calls.
	UnaryTools bool
	// StreamUsage means that a stream has usage only when asked for by stream_options.
	StreamUsage bool
	// Words are its names of parameters that have another one elsewhere; "a.b" is the field b of the object a.
	Words map[string]string
	// NoSampling are prefixes of models that refuse temperature and top_p.
	NoSampling []string
	// Reasoning is the field in which reasoning goes back to its provider, AsItCame or InContent; empty: it does not.
	Reasoning string
	// CacheMark is the prefix of models whose requests must ask for prompt caching; empty: none.
	CacheMark string
	// MarkSystem and MarkTurns are the prefixes of models whose system prompt, and whose turns, must be marked for that; empty: none.
	MarkSystem, MarkTurns string
	// CacheKey: requests say by prompt_cache_key which belong together. CacheHeader is a header that says it in chat completions.
	CacheKey    bool
	CacheHeader string
	// Unfinished: an answer that is whole JSON, or a stream that the server closed with [DONE], needs no finish reason.
	Unfinished bool
	// RawArguments: arguments of calls that are not a JSON object go back as they are. Others get them wrapped in
	// one.
	RawArguments bool
	// ResultImages: results of tools can have images. For others a user message after the results has them.
	ResultImages bool
	// ResultDocuments: they can have documents.
	ResultDocuments bool
	// Documents and Audio are parts of the names of models that take PDF documents, recordings; an empty part is in every
	// name.
	Documents, Audio []string
	// MediaForm is one of the constants; empty is OpenAI's form.
	MediaForm string
	// BridgeResults means that no user's message may follow on results: the assistant speaks first.
	BridgeResults bool
	// CallIDs says which ids of tool calls the server accepts.
	CallIDs IDRule
	// ToolName means that tool results carry the tool's name.
	ToolName bool
}

// Model is a model at a server.
type Model struct {
	Server
	// Provider is the server's name in references; a message's signed data goes back to the provider of that name alone.
	Provider string
	// Name is the model's.
	Name string
	// Base is the URL where the protocol's path, such as /chat/completions, is appended.
	Base string
	// Compartment is OCI's, which is charged.
	Compartment string
	// API is by which of OpenAI's protocols a server of chat completions is asked: APIChat, APIResponses, or empty.
	API string
	// Unary switches streaming off, NoCache the marks for the provider's cache of prompts; NoImages means that the model
	// gets a text instead of images, documents and recordings.
	Unary    bool
	NoCache  bool
	NoImages bool
	// TextCalls: calls of tools that the server left in an answer's text are read, see [callsInText].
	TextCalls bool
}

// Ref is how a flow names the model.
func (m *Model) Ref() string { return m.Provider + "/" + m.Name }

// Request is what a model is asked. Messages have their text in one piece.
type Request struct {
	System   string
	Messages []contract.Message
	// Options are the tools, the tool choice and the parameters. Negative temperature, top_p and seed are not set.
	Options llms.CallOptions
	// Schema is the JSON Schema of the answer, JSON that the answer must be JSON. Both are hints, sent where the provider
	// supports them: the caller checks the answer.
	Schema json.RawMessage
	JSON   bool
	// Parallel, if set, allows or forbids several tool calls in one answer. Effort is none, minimal, low, medium, high,
	// xhigh or max. Extra is an object of further request fields.
	Parallel *bool
	Effort   string
	Extra    json.RawMessage
	// API, if set, is used instead of the model's.
	API string
	// Conversation names what the request continues, for the provider's cache of prompts; empty: nothing.
	Conversation string
	// Once means that no further turn is likely, so that the prompt is not worth caching.
	Once bool
}

// Outgoing is an encoded request.
type Outgoing struct {
	URL    string
	Body   []byte
	Stream bool
	// Header has further headers; it may be nil.
	Header map[string]string
	// Answer reads the answer, unless Then is set: it makes the request to send next from the answer's body.
	Answer Reader
	Then   func(body []byte) (*Outgoing, error)
}

// Reader puts one answer together.
type Reader interface {
	// Read reads a whole answer, or an event of a stream. done: nothing follows.
	Read(raw []byte, streamed bool) (done bool, err error)
	// Complete reports whether the answer has its stop reason, whatever else follows.
	Complete() bool
	// Text is all text so far.
	Text() string
	// Spent is what the provider has said that the answer takes, so far.
	Spent() contract.Usage
	// Result checks that the answer is complete.
	Result() (*Answer, error)
}

// Answer is a model's whole answer.
type Answer struct {
	// Message is the assistant's.
	Message contract.Message
	// Stop is stop, length, tool_calls or content_filter; another word is the provider's own.
	Stop string
	// Model is provider/model as the provider names it, "script" for scripted answers.
	Model string
	// Refusal is why the model did not answer; empty if it did.
	Refusal string
	// Usage counts one call.
	Usage contract.Usage
	// Context is how many tokens the model takes, by its server; 0 if that does not say so.
	Context int
}

// Error is why a request cannot be sent, or an answer not be used.
type Error struct {
	// Class is that of the failure, see [contract.Failure], and Text what is wrong.
	Class, Text string
	// Reported, if set, is the error object that the provider sent in an answer, instead of Class and Text.
	Reported []byte
}

// Error gives the text, or the provider's error object.
func (e *Error) Error() string { return e.Text + string(e.Reported) }

func unsendable(format string, args ...any) error {
	return &Error{Class: contract.ClassBadRequest, Text: fmt.Sprintf(format, args...)}
}

// Invalidf is the [Error] of an answer that cannot be understood, or that was cut: another attempt may succeed.
func Invalidf(format string, args ...any) error {
	return &Error{Class: contract.ClassUnavailable, Text: fmt.Sprintf(format, args...)}
}

// Encode writes a request. A conversation or a schema that cannot be sent is a bad_request.
func (m *Model) Encode(q *Request) (*Outgoing, error) {
	if m.byResponses(q) {
		other := *m
		if m.Protocol == OCI {
			other.Base += ociOpenAI
		}
		other.Protocol, other.ResultImages, other.ResultDocuments, other.CallIDs = Responses, true, true, cmp.Or(m.CallIDs, IDsMax40)
		m = &other
	}
	placed := *q
	placed.Messages = m.placeMedia(q.Messages)
	return protocols[m.Protocol](m, &placed)
}

// object is a JSON object of a request. Keys are sorted, so that equal conversations are equal bytes.
type object = map[string]any

func excerpt(raw []byte) string { return textutil.Truncate(string(raw), 100) }
