package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Roles of a message.
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool"
)

// Message is one message of a transcript.
//
// Its JSON is content-addressed: hashes are computed from the bytes of its only encoding by json.Marshal, never from a
// second one. So fields are only ever added at the end, with omitempty.
type Message struct {
	Role string `json:"role"`
	Text string `json:"text,omitempty"`
	// Parts, if set, replace Text: joined without a separator.
	Parts []Part `json:"parts,omitempty"`
	// Calls are the tool calls of an assistant's message, in order.
	Calls []ToolCall `json:"calls,omitempty"`
	// CallID is the call that a tool's message answers; Name is the tool's name. A user's message with a name reports
	// that tool's result.
	CallID string `json:"call_id,omitempty"`
	Name   string `json:"name,omitempty"`
	// Error marks a tool's message that reports an error.
	Error bool `json:"error,omitempty"`
	// Reasoning and Provider are returned to a provider that requires its own reasoning. Provider is opaque and specific
	// to the provider that wrote it.
	Reasoning string          `json:"reasoning,omitempty"`
	Provider  json.RawMessage `json:"provider,omitempty"`
	// From and To are the agents that wrote and receive the message, if agents address each other.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Media are the files that a model gets with the text, which contains a [Media.Note] for each: images, documents,
	// recordings.
	Media []Media `json:"images,omitempty"`
	// Links are the URIs of resources on the tool's server that the message links to and that the model may read.
	Links []string `json:"links,omitempty"`
	// Aside marks the result of a node's own call, cut to [ShownText]: it is shown to users in the conversation, but not
	// sent to models.
	Aside bool `json:"aside,omitempty"`
}

// ConversationThread is the name of the thread with a flow's conversation.
const ConversationThread = "conversation"

// ShownText is the limit in bytes for a message that is shown in a list.
const ShownText = 1000

// Shown truncates a text to [ShownText].
func Shown(text string) string { return strings.ToValidUTF8(text[:min(len(text), ShownText)], "") }

// LastMessages returns the last messages of a conversation, shortened for a [Status].
func LastMessages(encoded []json.RawMessage) []Message {
	var out []Message
	for _, raw := range encoded[max(0, len(encoded)-20):] {
		m, err := DecodeMessage(raw)
		if err != nil {
			continue // not shown
		}
		short := Message{Role: m.Role, Text: Shown(m.AllText()), Name: m.Name, Error: m.Error}
		for _, c := range m.Calls {
			short.Calls = append(short.Calls, ToolCall{ID: c.ID, Name: c.Name})
		}
		out = append(out, short)
	}
	return out
}

// Part is a part of a message's text: Text, or the text of the message that Ref refers to. Node, if set, is the node
// whose output that is.
type Part struct {
	Text string      `json:"text,omitempty"`
	Ref  *ContentRef `json:"ref,omitempty"`
	Node string      `json:"node,omitempty"`
}

// Shown returns the part as a model sees it, given its text. An output is enclosed in an element with the node's name.
func (p *Part) Shown(text string) string {
	if p.Node == "" {
		return text
	}
	return "\n\n<output node=" + strconv.Quote(p.Node) + ">\n" + text + "\n</output>"
}

// ToolCall is a tool call that a model requests.
type ToolCall struct {
	// ID is unique within its message.
	ID   string `json:"id"`
	Name string `json:"name"`
	// Arguments are as the model wrote them; they may be invalid JSON.
	Arguments string `json:"arguments"`
}

// AllText returns the message's text followed by the texts of its parts.
func (m *Message) AllText() string {
	text := m.Text
	for _, p := range m.Parts {
		text += p.Shown(p.Text)
	}
	return text
}

// WrittenSince returns what users wrote since the agent's last message, and that message. If there is no such message or
// text, the text is the last one that a user wrote.
func WrittenSince(messages []Message, own func(*Message) bool) (text string, last *Message) {
	var texts []string
	for i := len(messages) - 1; i >= 0; i-- {
		m := &messages[i]
		if m.Role == RoleAssistant && last == nil && own(m) {
			if last = m; len(texts) > 0 {
				return strings.Join(texts, "\n\n"), last
			}
		}
		if m.Role == RoleUser {
			texts = append([]string{m.AllText()}, texts...)
		}
	}
	if len(texts) > 0 {
		text = texts[len(texts)-1]
	}
	return text, last
}

// Encode returns a message's stored bytes.
func (m *Message) Encode() (json.RawMessage, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	return b, nil
}

// DecodeMessage decodes a message's stored bytes.
func DecodeMessage(raw json.RawMessage) (*Message, error) {
	var m Message
	if err := Decode(raw, &m); err != nil {
		return nil, fmt.Errorf("decode message: %w", err)
	}
	return &m, nil
}

// ContentRef refers to stored bytes by their hash and the run that stores them: a message, a call profile, a catalogue, a
// script. In messages, and wherever the run may change, the run is omitted: the bytes are then at [Profile.Home], or in
// the same run.
type ContentRef struct {
	Workflow string `json:"workflow_id,omitempty"`
	Run      string `json:"run_id,omitempty"`
	SHA      string `json:"sha256"`
}

// Head refers to the first Len messages of a thread. Hash is computed by [Chain]; it is empty if Len is 0.
type Head struct {
	// Workflow and Run are omitted if the thread is in the calling run.
	Workflow string `json:"workflow_id,omitempty"`
	Run      string `json:"run_id,omitempty"`
	Thread   string `json:"thread"`
	Len      int    `json:"len"`
	Hash     string `json:"hash,omitempty"`
}

// SHA returns the SHA-256 of stored bytes, in hexadecimal.
func SHA(b []byte) string {
	sum := sha256.Sum256(b)
	var text [2 * sha256.Size]byte
	hex.Encode(text[:], sum[:])
	return string(text[:])
}

// HashOf returns a hash that distinguishes a request from others in the same place.
func HashOf(parts ...string) string {
	all := make([]byte, 0, 128)
	for _, p := range parts {
		all = append(strconv.AppendInt(all, int64(len(p)), 10), ' ')
		all = append(all, p...)
	}
	return SHA(all)[:16]
}

// Chain returns the hash of a thread: head is the hash of the thread without its last message, sha that of the message.
func Chain(head, sha string) string {
	var both [4 * sha256.Size]byte
	return SHA(append(append(both[:0], head...), sha...))
}

// TranscriptQuery asks for the messages of a thread in [From, Upto), starting at 0; an Upto of 0 means all.
type TranscriptQuery struct {
	Thread string `json:"thread"`
	From   int    `json:"from,omitempty"`
	Upto   int    `json:"upto,omitempty"`
}

// TranscriptPage is one page of messages. The next page starts at From plus the number of messages, while that is less
// than Total.
type TranscriptPage struct {
	Messages []json.RawMessage `json:"messages"`
	Total    int               `json:"total"`
	// Long lists messages that do not fit in a page: Messages has them without their text, which is a part that refers to
	// the message itself.
	Long []LongMessage `json:"long,omitempty"`
	// Threads lists all threads of the run if the query names none.
	Threads []ThreadInfo `json:"threads,omitempty"`
}

// LongMessage is a message to be read in pages with the query content.
type LongMessage struct {
	// Index is its position among the page's messages.
	Index int    `json:"index"`
	SHA   string `json:"sha256"`
	// Bytes is the size of the message.
	Bytes int `json:"bytes"`
}

// ThreadInfo describes one thread of a run.
type ThreadInfo struct {
	Thread string `json:"thread"`
	Len    int    `json:"len"`
}

// ContentQuery asks for stored bytes, starting at Offset.
type ContentQuery struct {
	SHA    string `json:"sha256"`
	Offset int    `json:"offset,omitempty"`
}

// ContentPage is a page of stored bytes; Total is their complete size.
type ContentPage struct {
	Data  []byte `json:"data"`
	Total int    `json:"total"`
}

// PageBytes is the largest size of a page, in bytes.
const PageBytes = 1 << 20
