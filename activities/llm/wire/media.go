package wire

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weft/activities/contract"
)

// Takes reports whether a model can be given a file of a kind.
func (m *Model) Takes(kind string) bool {
	words := map[string][]string{contract.KindImage: {""}, contract.KindDocument: m.Documents, contract.KindAudio: m.Audio}[kind]
	return !m.NoImages && slices.ContainsFunc(words, m.named)
}

// inResults reports whether a result of a tool can have the file. For others a user message after the results has it.
func (m *Model) inResults(file *contract.Media) bool {
	return m.ResultImages && file.Kind() == contract.KindImage || m.ResultDocuments && file.Kind() == contract.KindDocument
}

// Plural is a kind of files in a message.
func Plural(kind string) string {
	if kind == contract.KindAudio {
		return kind
	}
	return kind + "s"
}

// placeMedia puts files where the server takes them: those that results cannot have into a user's message behind all
// results of an answer. A model is told of those that it does not take.
func (m *Model) placeMedia(in []contract.Message) []contract.Message {
	out := make([]contract.Message, 0, len(in)+1)
	behind := contract.Message{Role: contract.RoleUser}
	flush := func() {
		if len(behind.Media) > 0 {
			out, behind = append(out, behind), contract.Message{Role: contract.RoleUser}
		}
	}
	for _, msg := range in {
		if msg.Role != contract.RoleTool {
			flush()
		}
		var here, moved []contract.Media
		var left, kinds []string
		for i := range msg.Media {
			file, kind := &msg.Media[i], msg.Media[i].Kind()
			switch {
			case !m.Takes(kind):
				left = append(left, Plural(kind))
			case msg.Role == contract.RoleTool && !m.inResults(file):
				moved, kinds = append(moved, *file), append(kinds, kind)
			default:
				here = append(here, *file)
			}
		}
		msg.Media = here
		if len(left) > 0 {
			msg.Text = strings.TrimLeft(msg.Text+"\n"+"(this model is shown no "+strings.Join(slices.Compact(left), ", ")+")", "\n")
		}
		if len(moved) > 0 {
			word := "images"
			if slices.ContainsFunc(kinds, func(kind string) bool { return kind != contract.KindImage }) {
				word = "files"
			}
			behind.Text += fmt.Sprintf("\nThe %s of the result of %s (call %s), %d:", word, msg.Name, msg.CallID, len(moved))
			behind.Text = strings.TrimPrefix(behind.Text, "\n")
			behind.Media = append(behind.Media, moved...)
		}
		out = append(out, msg)
	}
	flush()
	return out
}

func dataURL(file *contract.Media) string { return "data:" + file.MediaType + ";base64," + file.Data }

// documentName is a document's file name; some servers demand one.
func documentName(file *contract.Media) string { return cmp.Or(file.Name, "document.pdf") }

// The forms of files in chat completions, see [Server.MediaForm].
const (
	// MediaMistral has documents by URL, and recordings as they are.
	MediaMistral = "mistral"
	// MediaDataURL has recordings as data URLs.
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

// numberDocuments gives each document of a conversation a name of its own that says nothing, as Bedrock demands.
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
