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

// Bounds of what a message shows a model.
const (
	// MaxMedia is how many files one message has at most.
	MaxMedia = 20
	// MaxImageBytes bounds one image, decoded: as base64 it is then the 5 MiB that providers take.
	MaxImageBytes = 15 << 20 / 4
	// MaxFileBytes bounds one document or recording, decoded: as base64 it is then the 20 MiB that providers take.
	MaxFileBytes = 15 << 20
	// ImageText is what an image counts for where a conversation's length is estimated, in bytes
	// of text: about what providers count for one.
	ImageText = 6_000
)

// The kinds of media, see [Media.Kind].
const (
	KindImage    = "image"
	KindDocument = "document"
	KindAudio    = "audio"
)

// Media is a file that a model gets beside a message's text: an image, a document or a recording. It is given whole: an
// address would be fetched by others than the worker, outside of its rules.
type Media struct {
	// MediaType is image/png, image/jpeg, image/gif, image/webp, application/pdf, audio/wav, audio/mpeg, audio/flac or audio/ogg.
	MediaType string `json:"media_type"`
	// Data is the file in base64, with padding.
	Data string `json:"data"`
	// Name is a document's file name, of at most 100 letters, digits, blanks and ._-() characters; it may be empty.
	Name string `json:"name,omitempty"`
}

// NewMedia makes media of a file; name is its path or empty. It fails where no provider would take the file. Only the
// file itself says of what type it is: providers refuse whole requests where the type that is told is another.
func NewMedia(file []byte, name string) (Media, error) {
	out := Media{MediaType: typeOf(file)}
	bound := MaxFileBytes
	switch kind := out.Kind(); {
	case out.MediaType == "":
		return Media{}, errors.New("it begins like no PNG, JPEG, GIF, WebP, PDF, WAV, MP3, FLAC or Ogg; convert it to one of them")
	case kind == KindImage:
		bound = MaxImageBytes
	case kind == KindDocument && name != "":
		out.Name = fileName(name)
	}
	if len(file) > bound {
		return Media{}, fmt.Errorf("it has %d bytes, at most %d are allowed; make it smaller", len(file), bound)
	}
	out.Data = base64.StdEncoding.EncodeToString(file)
	return out, nil
}

// typeOf is the type of a file by its first bytes, empty for those that no provider takes.
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
	case len(file) > 3 && file[0] == 0xff && file[1]&0xe6 == 0xe2: // a frame of layer III
		return "audio/mpeg"
	}
	return ""
}

// notInName is what a file's name does not keep: a name is read by models, and goes into requests.
var notInName = regexp.MustCompile(`[^\p{L}\p{M}\p{N} ._()-]+`)

// fileName is the name of the file at a path, without characters that mean something to anybody.
func fileName(name string) string {
	name = notInName.ReplaceAllString(strings.ToValidUTF8(path.Base(strings.ReplaceAll(name, `\`, "/")), ""), "_")
	runes := []rune(strings.Trim(strings.Join(strings.Fields(name), " "), "."))
	return string(runes[max(0, len(runes)-100):])
}

// Kind is one of the constants.
func (m *Media) Kind() string {
	kind, _, _ := strings.Cut(m.MediaType, "/")
	if kind == KindImage || kind == KindAudio {
		return kind
	}
	return KindDocument
}

// Format is a file's format as its name would end: png, pdf, mp3.
func (m *Media) Format() string {
	_, format, _ := strings.Cut(m.MediaType, "/")
	if format == "mpeg" {
		return "mp3"
	}
	return format
}

// TextSize is what a file counts for where a conversation's length is estimated, in bytes of text: a document about a page
// for 50 kB, a recording about 30 tokens for a second.
func (m *Media) TextSize() int {
	switch m.Kind() {
	case KindDocument:
		return max(ImageText, len(m.Data)/10)
	case KindAudio:
		return max(ImageText, len(m.Data)/150)
	}
	return ImageText
}

// File decodes a file.
func (m *Media) File() ([]byte, error) { return base64.StdEncoding.Strict().DecodeString(m.Data) }

// check says what is wrong with a file that a client sends.
func (m *Media) check() error {
	file, err := m.File()
	if err == nil && strings.ContainsAny(m.Data, "\r\n") {
		err = errors.New("it has line breaks")
	}
	if err != nil {
		return fmt.Errorf("data is no base64 (standard alphabet, padded, in one line): %w", err)
	}
	made, err := NewMedia(file, m.Name)
	if err != nil {
		return fmt.Errorf("data: %w", err)
	}
	if made.MediaType != m.MediaType {
		return fmt.Errorf("media_type is %.100q, but data is %s", m.MediaType, made.MediaType)
	}
	if made.Name != m.Name {
		return fmt.Errorf("name is %.200q; want none, or the name of a PDF file: at most 100 letters, digits, single blanks and ._-()", m.Name)
	}
	return nil
}

// CheckMedia says what is wrong with the files of one message.
func CheckMedia(files []Media) error {
	if len(files) > MaxMedia {
		return fmt.Errorf("images has %d, at most %d are allowed", len(files), MaxMedia)
	}
	for i := range files {
		if err := files[i].check(); err != nil {
			return fmt.Errorf("images[%d].%w", i, err)
		}
	}
	return nil
}

// Note stands for the n-th file of a message, from 1, in its text: for whoever reads the text
// alone, and so that the text can refer to it.
func (m *Media) Note(n int) string {
	name := ""
	if m.Name != "" {
		name = m.Name + ", "
	}
	return fmt.Sprintf("[%s %d, %s%s, %d bytes]", m.Kind(), n, name, m.MediaType, base64.StdEncoding.DecodedLen(len(m.Data))-strings.Count(m.Data[max(0, len(m.Data)-2):], "="))
}

// InputMessage is what a run was given as the message that its agents begin with. Files without
// a note in the text get one behind it.
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
