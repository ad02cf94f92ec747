package contract

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"strings"
)

// Limits on the files of a message.
const (
	// MaxMedia is the maximum number of files in a message.
	MaxMedia = 20
	// MaxImageBytes is the maximum size of an image, decoded: in base64 it is 5 MiB, the limit of providers.
	MaxImageBytes = 15 << 20 / 4
	// MaxFileBytes is the maximum size of a document or recording, decoded: in base64 it is 20 MiB, the limit of
	// providers.
	MaxFileBytes = 15 << 20
	// ImageText is the size of an image in estimates of a conversation's length, in bytes of text: about what providers
	// count for one.
	ImageText = 6_000
)

// The kinds of media, see [Media.Kind].
const (
	KindImage    = "image"
	KindDocument = "document"
	KindAudio    = "audio"
)

// Media is a file that a model gets with a message's text: an image, a document or a recording. It is embedded, because a
// URL would be fetched by the provider instead of the worker, outside of the worker's policy.
type Media struct {
	// MediaType is image/png, image/jpeg, image/gif, image/webp, application/pdf, audio/wav, audio/mpeg, audio/flac or audio/ogg.
	MediaType string `json:"media_type"`
	// Data is the file in base64, with padding.
	Data string `json:"data"`
	// Name is a document's file name, of at most 100 letters, digits, spaces and ._-() characters; it may be empty.
	Name string `json:"name,omitempty"`
}

// NewMedia returns the media for a file; name is its path, or empty. It fails if no provider supports the file. The type
// is detected from the content, because providers reject requests with a mismatched type.
func NewMedia(file []byte, name string) (Media, error) {
	out := Media{MediaType: typeOf(file)}
	bound := MaxFileBytes
	switch kind := out.Kind(); {
	case out.MediaType == "":
		return Media{}, errors.New("unsupported file type; convert it to PNG, JPEG, GIF, WebP, PDF, WAV, MP3, FLAC or Ogg")
	case kind == KindImage:
		bound = MaxImageBytes
	case kind == KindDocument && name != "":
		out.Name = fileName(name)
	}
	if len(file) > bound {
		return Media{}, fmt.Errorf("file has %d bytes, at most %d are allowed; make it smaller", len(file), bound)
	}
	out.Data = base64.StdEncoding.EncodeToString(file)
	return out, nil
}

// typeOf detects a file's media type from its first bytes; it returns "" for unsupported types.
func typeOf(file []byte) string {
	switch media := http.DetectContentType(file); media {
	case "image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", "audio/mpeg":
		return media
	case "audio/wave":
		return "audio/wav"
	case "application/ogg":
		return "audio/ogg"
	}
	switch {
	case bytes.HasPrefix(file, []byte("fLaC")):
		return "audio/flac"
	case len(file) > 3 && file[0] == 0xff && file[1]&0xe6 == 0xe2: // an MPEG frame of layer III
		return "audio/mpeg"
	}
	return ""
}

// unsafeInName matches the characters that are replaced in a file's name, which models read and requests contain.
var unsafeInName = regexp.MustCompile(`[^\p{L}\p{M}\p{N} ._()-]+`)

// fileName returns the base name of a path, without special characters.
func fileName(name string) string {
	name = unsafeInName.ReplaceAllString(strings.ToValidUTF8(path.Base(strings.ReplaceAll(name, `\`, "/")), ""), "_")
	runes := []rune(strings.Trim(strings.Join(strings.Fields(name), " "), "."))
	return string(runes[max(0, len(runes)-100):])
}

// Kind returns one of the Kind constants.
func (m *Media) Kind() string {
	kind, _, _ := strings.Cut(m.MediaType, "/")
	if kind == KindImage || kind == KindAudio {
		return kind
	}
	return KindDocument
}

// Format returns the file's usual extension: png, pdf, mp3.
func (m *Media) Format() string {
	_, format, _ := strings.Cut(m.MediaType, "/")
	if format == "mpeg" {
		return "mp3"
	}
	return format
}

// TextSize is the size of a file in estimates of a conversation's length, in bytes of text: about a page per 50 kB of a
// document, about 30 tokens per second of a recording.
func (m *Media) TextSize() int {
	switch m.Kind() {
	case KindDocument:
		return max(ImageText, len(m.Data)/10)
	case KindAudio:
		return max(ImageText, len(m.Data)/150)
	}
	return ImageText
}

// File decodes the file.
func (m *Media) File() ([]byte, error) { return base64.StdEncoding.Strict().DecodeString(m.Data) }

// check validates a file sent by a client.
func (m *Media) check() error {
	file, err := m.File()
	if err == nil && strings.ContainsAny(m.Data, "\r\n") {
		err = errors.New("line breaks are not allowed")
	}
	if err != nil {
		return fmt.Errorf("data is not base64 (standard alphabet, padded, in one line): %w", err)
	}
	detected, err := NewMedia(file, m.Name)
	if err != nil {
		return fmt.Errorf("data: %w", err)
	}
	if detected.MediaType != m.MediaType {
		return fmt.Errorf("media_type is %.100q, but data is %s", m.MediaType, detected.MediaType)
	}
	if detected.Name != m.Name {
		return fmt.Errorf("name is %.200q; remove it, or use the name of a PDF file: at most 100 letters, digits, single spaces and ._-()", m.Name)
	}
	return nil
}

// CheckMedia validates the files of one message.
func CheckMedia(files []Media) error {
	if len(files) > MaxMedia {
		return fmt.Errorf("images has %d files, at most %d are allowed", len(files), MaxMedia)
	}
	for i := range files {
		if err := files[i].check(); err != nil {
			return fmt.Errorf("images[%d].%w", i, err)
		}
	}
	return nil
}

// Note returns the text that represents the n-th file of a message, from 1: for models that see only the text, and for
// the text to refer to it.
func (m *Media) Note(n int) string {
	name := ""
	if m.Name != "" {
		name = m.Name + ", "
	}
	return fmt.Sprintf("[%s %d, %s%s, %d bytes]", m.Kind(), n, name, m.MediaType, base64.StdEncoding.DecodedLen(len(m.Data))-strings.Count(m.Data[max(0, len(m.Data)-2):], "="))
}

// InputMessage returns a run's input as the first message of its agents. A note is appended for each file that the text
// does not mention.
func InputMessage(text string, files []Media) *Message {
	if text == "" && len(files) == 0 {
		text = "(no input was given)"
	}
	shown := text
	for i := range files {
		if note := files[i].Note(i + 1); !strings.Contains(text, note) {
			if shown != "" {
				shown += "\n"
			}
			shown += note
		}
	}
	return &Message{Role: RoleUser, Text: shown, Media: files}
}
