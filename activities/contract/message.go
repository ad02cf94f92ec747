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
// Its JSON is content-addressed: hashes are taken over the bytes that json.Marshal
// makes of it once, and never over a second encoding. So fields are only ever added,
// with omitempty, behind the others.
type Message struct {
	Role string `json:"role"`
	Text string `json:"text,omitempty"`
	// Parts, if set, are the text instead: joined without separator.
	Parts []Part `json:"parts,omitempty"`
	// Calls are the tool calls of an assistant's message, in order.
	Calls []ToolCall `json:"calls,omitempty"`
	// CallID is the call that a tool's message answers; Name is that tool's name. A user's message with a name tells of that
	// tool's result.
	CallID string `json:"call_id,omitempty"`
	Name   string `json:"name,omitempty"`
	// Error marks a tool's message that reports an error.
	Error bool `json:"error,omitempty"`
	// Reasoning and Provider go back to a provider that asks for its own reasoning:
	// Provider is opaque and belongs to the provider that wrote it.
	Reasoning string          `json:"reasoning,omitempty"`
	Provider  json.RawMessage `json:"provider,omitempty"`
	// From and To are the agents that wrote it and that it is for, where agents talk with each
	// other.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Media are the files that a model gets behind the text, which has a [Media.Note] for each: images, documents, recordings.
	Media []Media `json:"images,omitempty"`
	// Links are the resources of a tool's server that its message links to and that the model may read, by URI.
	Links []string `json:"links,omitempty"`
	// Aside marks the result of a node's own call, cut to [ShownText]: people see it in the conversation, no model is sent it.
	Aside bool `json:"aside,omitempty"`
}

// ConversationThread is the name of the thread of a flow's conversation.
const ConversationThread = "conversation"

// ShownText is how many bytes of a message are shown where many are.
const ShownText = 1000

// Shown is a text as far as it is shown.
func Shown(text string) string { return strings.ToValidUTF8(text[:min(len(text), ShownText)], "") }

// LastMessages shortens the last messages of a conversation for a [Status].
func LastMessages(encoded []json.RawMessage) []Message {
	var out []Message
	for _, raw := range encoded[max(0, len(encoded)-20):] {
		m, err := DecodeMessage(raw)
		if err != nil {
			continue // it is not shown
		}
		short := Message{Role: m.Role, Text: Shown(m.AllText()), Name: m.Name, Error: m.Error}
		for _, c := range m.Calls {
			short.Calls = append(short.Calls, ToolCall{ID: c.ID, Name: c.Name})
		}
		out = append(out, short)
	}
	return out
}

// Part is a piece of a message's text: Text, or the text of the message that Ref names. Node, if set, is the node whose output
// that is.
type Part struct {
	Text string      `json:"text,omitempty"`
	Ref  *ContentRef `json:"ref,omitempty"`
	Node string      `json:"node,omitempty"`
}

// Shown is the part as a model sees it, where text is its text. An output stands in an element that names its node.
func (p *Part) Shown(text string) string {
	if p.Node == "" {
		return text
	}
	return "\n\n<output node=" + strconv.Quote(p.Node) + ">\n" + text + "\n</output>"
}

// ToolCall is a tool call that a model requests.
type ToolCall struct {
	// ID is unique in its message.
	ID   string `json:"id"`
	Name string `json:"name"`
	// Arguments are as the model wrote them; they may be no JSON at all.
	Arguments string `json:"arguments"`
}

// AllText is the message's text and the texts of its parts, one after the other.
func (m *Message) AllText() string {
	text := m.Text
	for _, p := range m.Parts {
		text += p.Shown(p.Text)
	}
	return text
}

// WrittenSince is what users wrote since the last of an agent's own messages, and that message. Without both it is the last text.
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

// Encode gives a message's stored bytes.
func (m *Message) Encode() (json.RawMessage, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	return b, nil
}

// DecodeMessage reads stored bytes.
func DecodeMessage(raw json.RawMessage) (*Message, error) {
	var m Message
	if err := Decode(raw, &m); err != nil {
		return nil, fmt.Errorf("decode message: %w", err)
	}
	return &m, nil
}

// ContentRef names stored bytes by their hash and by the run that has them: a message,
// a call profile, a catalogue, a script. In a message, and wherever the run may change, the
// run is left out: the bytes are then at the call's home, see [Profile], or at its own run.
type ContentRef struct {
	Workflow string `json:"workflow_id,omitempty"`
	Run      string `json:"run_id,omitempty"`
	SHA      string `json:"sha256"`
}

// Head names the first Len messages of a thread. Hash chains their hashes, see [Chain].
// A head of length 0 has no hash.
type Head struct {
	// Workflow and Run are left out where the thread is the call's own run's.
	Workflow string `json:"workflow_id,omitempty"`
	Run      string `json:"run_id,omitempty"`
	Thread   string `json:"thread"`
	Len      int    `json:"len"`
	Hash     string `json:"hash,omitempty"`
}

// SHA is the SHA-256 of stored bytes, in hexadecimal.
func SHA(b []byte) string {
	sum := sha256.Sum256(b)
	var text [2 * sha256.Size]byte
	hex.Encode(text[:], sum[:])
	return string(text[:])
}

// HashOf returns a hash that distinguishes a request from any other request in its place.
func HashOf(parts ...string) string {
	all := make([]byte, 0, 128)
	for _, p := range parts {
		all = append(strconv.AppendInt(all, int64(len(p)), 10), ' ')
		all = append(all, p...)
	}
	return SHA(all)[:16]
}

// Chain is the hash of a thread that ends with a message of hash sha behind a prefix of
// hash head.
func Chain(head, sha string) string {
	var both [4 * sha256.Size]byte
	return SHA(append(append(both[:0], head...), sha...))
}

// TranscriptQuery asks for messages From (0-based) to Upto (excluded; 0 means all) of a
// thread.
type TranscriptQuery struct {
	Thread string `json:"thread"`
	From   int    `json:"from,omitempty"`
	Upto   int    `json:"upto,omitempty"`
}

// TranscriptPage is what fits in one answer; the next page begins at From plus the
// number of messages, as long as that is below Total.
type TranscriptPage struct {
	Messages []json.RawMessage `json:"messages"`
	Total    int               `json:"total"`
	// Long lists messages that no answer can hold: Messages has them without their text,
	// which is a part that refers to the message itself.
	Long []LongMessage `json:"long,omitempty"`
	// Threads lists all threads of the run when the query names none.
	Threads []ThreadInfo `json:"threads,omitempty"`
}

// LongMessage is a message that the query content gives in pieces.
type LongMessage struct {
	// Index is its place among the page's messages.
	Index int    `json:"index"`
	SHA   string `json:"sha256"`
	// Bytes is the length of the message.
	Bytes int `json:"bytes"`
}

// ThreadInfo describes one thread of a run.
type ThreadInfo struct {
	Thread string `json:"thread"`
	Len    int    `json:"len"`
}

// ContentQuery asks for stored bytes from Offset on.
type ContentQuery struct {
	SHA    string `json:"sha256"`
	Offset int    `json:"offset,omitempty"`
}

// ContentPage is a piece of stored bytes, of Total altogether.
type ContentPage struct {
	Data  []byte `json:"data"`
	Total int    `json:"total"`
}

// PageBytes is the most that one query answer holds.
const PageBytes = 1 << 20
