package wire

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weft/activities/contract"
)

// Accepts reports whether the model accepts files of a kind.
func (m *Model) Accepts(kind string) bool {
	patterns := map[string][]string{contract.KindImage: {""}, contract.KindDocument: m.Documents, contract.KindAudio: m.Audio}[kind]
	return !m.NoImages && slices.ContainsFunc(patterns, m.nameContains)
}

// allowedInResult reports whether a tool result can have the file, instead of a user message after the results.
func (m *Model) allowedInResult(file *contract.Media) bool {
	return m.ResultImages && file.Kind() == contract.KindImage || m.ResultDocuments && file.Kind() == contract.KindDocument
}

// Plural returns the plural of a kind of files, for messages.
func Plural(kind string) string {
	if kind == contract.KindAudio {
		return kind
	}
	return kind + "s"
}

// placeMedia moves files that tool results cannot have to a user message after all results of an answer. It replaces files
// that the model does not accept by a note.
func (m *Model) placeMedia(in []contract.Message) []contract.Message {
	out := make([]contract.Message, 0, len(in)+1)
	followUp := contract.Message{Role: contract.RoleUser}
	flush := func() {
		if len(followUp.Media) > 0 {
			out, followUp = append(out, followUp), contract.Message{Role: contract.RoleUser}
		}
	}
	for _, msg := range in {
		if msg.Role != contract.RoleTool {
			flush()
		}
		var kept, moved []contract.Media
		var omitted, kinds []string
		for i := range msg.Media {
			file, kind := &msg.Media[i], msg.Media[i].Kind()
			switch {
			case !m.Accepts(kind):
				omitted = append(omitted, Plural(kind))
			case msg.Role == contract.RoleTool && !m.allowedInResult(file):
				moved, kinds = append(moved, *file), append(kinds, kind)
			default:
				kept = append(kept, *file)
			}
		}
		msg.Media = kept
		if len(omitted) > 0 {
			msg.Text = strings.TrimLeft(msg.Text+"\n"+"(this model does not support "+strings.Join(slices.Compact(omitted), ", ")+")", "\n")
		}
		if len(moved) > 0 {
			noun := "images"
			if slices.ContainsFunc(kinds, func(kind string) bool { return kind != contract.KindImage }) {
				noun = "files"
			}
			followUp.Text += fmt.Sprintf("\nThe %s from the result of %s (call %s), %d:", noun, msg.Name, msg.CallID, len(moved))
			followUp.Text = strings.TrimPrefix(followUp.Text, "\n")
			followUp.Media = append(followUp.Media, moved...)
		}
		out = append(out, msg)
	}
	flush()
	return out
}

func dataURL(file *contract.Media) string { return "data:" + file.MediaType + ";base64," + file.Data }

// documentName returns a document's file name, which some servers require.
func documentName(file *contract.Media) string { return cmp.Or(file.Name, "document.pdf") }

// The values of [Server.MediaForm], the form of files in chat completions.
const (
	// MediaMistral sends documents by URL, and recordings as plain base64.
	MediaMistral = "mistral"
	// MediaDataURL sends recordings as data URLs.
	MediaDataURL = "data_url"
)

func (m *Model) chatPart(file *contract.Media) object {
	switch kind := file.Kind(); {
	case kind == contract.KindImage:
		return object{"type": "image_url", "image_url": object{"url": dataURL(file)}}
	case kind == contract.KindDocument && m.MediaForm == MediaMistral:
		return object{"type": "document_url", "document_url": dataURL(file), "document_name": documentName(file)}
	case kind == contract.KindDocument:
		return object{"type": "file", "file": object{"filename": documentName(file), "file_data": dataURL(file)}}
	case m.MediaForm == MediaMistral:
		return object{"type": "input_audio", "input_audio": file.Data}
	case m.MediaForm == MediaDataURL:
		return object{"type": "input_audio", "input_audio": object{"data": "data:;base64," + file.Data, "format": file.Format()}}
	}
	return object{"type": "input_audio", "input_audio": object{"data": file.Data, "format": file.Format()}}
}

// numberDocuments gives each document of a conversation a unique neutral name, as Bedrock requires.
func numberDocuments(in []contract.Message) []contract.Message {
	out, n := slices.Clone(in), 0
	for i := range out {
		out[i].Media = slices.Clone(out[i].Media)
		for k := range out[i].Media {
			if out[i].Media[k].Kind() == contract.KindDocument {
				n++
				out[i].Media[k].Name = fmt.Sprintf("document %d", n)
			}
		}
	}
	return out
}
